//! A syntax error in the body is rustc's, at its place.

use probe_runtime::probe;

#[probe]
fn f() -> u32 {
    let n = ;
    n
}

fn main() {
    f();
}
