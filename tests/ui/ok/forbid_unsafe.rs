//! Users who forbid `unsafe` can have probes.

#![forbid(unsafe_code)]

use probe_runtime::probe;

#[probe]
fn work(n: u32, text: &str) -> u32 {
    probe!("work", n, ?text);
    n + 1
}

fn main() {
    probe_runtime::point!("start");
    assert_eq!(work(1, "x"), 2);
}
