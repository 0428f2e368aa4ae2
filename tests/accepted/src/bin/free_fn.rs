//! A free function.

use probe_runtime::probe;

#[probe]
fn add(a: u32, b: u32) -> u32 {
    a + b
}

fn main() {
    assert_eq!(add(1, 2), 3);
    // Still a value of an ordinary function type.
    let f: fn(u32, u32) -> u32 = add;
    assert_eq!(f(3, 4), 7);
}
