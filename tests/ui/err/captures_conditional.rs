//! Arguments that are not there in every build.

use probe_runtime::probe;

#[probe(args(*))]
fn all(#[cfg(all())] a: u8, #[cfg(any())] b: u8) -> u8 {
    a
}

#[probe(ret)]
fn result(#[cfg(any())] a: String, b: String) -> String {
    b
}

#[probe(args(b))]
fn one(#[cfg(any())] a: u8, b: u8) -> u8 {
    b
}

fn main() {
    all(1);
    result(String::new());
    one(1);
}
