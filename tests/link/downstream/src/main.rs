//! A program on two Rust shared libraries.

use std::hint::black_box;

use probe_runtime::probe;

#[probe]
#[inline(never)]
fn own(x: u64) -> u64 {
    black_box(x)
}

fn work() {
    own(1);
    alpha::plain(black_box(1));
    alpha::generic(1_u32);
    alpha::inlined(black_box(4));
    alpha::inlined(black_box(5));
    assert_eq!(alpha::recorded_generic([3_u32]), Ok([3]));
    beta::twice(1_u64);
    alpha::work();
    beta::work();
}

fn main() {
    transcript::run(work);
}
