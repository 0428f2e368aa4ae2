//! Makes a source file.

use std::path::Path;

fn main() {
    let out = std::env::var("OUT_DIR").unwrap();
    std::fs::write(Path::new(&out).join("made.rs"), "pub fn made() -> u32 { let x = 5; x * 2 }\n").unwrap();
    println!("cargo:rerun-if-changed=build.rs");
}
