//! The runtime under another name.

use std::hint::black_box;

#[lp::probe(crate = lp)]
#[inline(never)]
fn attribute(x: u64) -> u64 {
    probe!("inside", x);
    x + 1
}

#[inline(never)]
fn point(x: u64) -> u64 {
    lp::point!("outside", x, debug = ?x);
    x + 2
}

fn main() {
    transcript::run(|| {
        assert_eq!(attribute(black_box(1)), 2);
        assert_eq!(point(black_box(1)) + point(black_box(2)), 7);
    });
}
