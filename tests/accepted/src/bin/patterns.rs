//! Patterns as parameters.

use probe_runtime::probe;

struct Point {
    x: u32,
    y: u32,
}

#[probe]
fn sum((a, b): (u32, u32), Point { x, y: mut z }: Point, [first, ..]: [u32; 3], _: &str) -> u32 {
    z += 1;
    probe!("sum", a, b, x, z, first);
    a + b + x + z + first
}

#[probe]
fn mutable(mut n: u32, &m: &u32) -> u32 {
    n += m;
    n
}

fn main() {
    assert_eq!(sum((1, 2), Point { x: 3, y: 4 }, [5, 6, 7], ""), 16);
    assert_eq!(mutable(1, &2), 3);
}
