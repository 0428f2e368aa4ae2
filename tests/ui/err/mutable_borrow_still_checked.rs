//! A probe must not let through what the borrow checker refuses.

use probe_runtime::probe;

#[probe]
fn f(items: &mut Vec<u32>) -> &mut u32 {
    let first = &mut items[0];
    probe!("len", len = items.len());
    first
}

fn main() {
    f(&mut vec![1]);
}
