//! A program on a library that ships probes; it knows nothing of them, and has no runtime. For
//! each line of its input it decodes a hundred frames, and prints how many bytes these have.

use std::hint::black_box;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut out = io::stdout().lock();
    writeln!(out, "ready").unwrap();
    for line in io::stdin().lines() {
        let _ = line.unwrap();
        let frames = (0..100).filter_map(|_| leaf::decode(black_box(&[1, 2, 3])).ok());
        writeln!(out, "{}", frames.map(|frame| frame.len).sum::<usize>()).unwrap();
    }
    ExitCode::from(7)
}
