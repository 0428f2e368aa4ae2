//! A Rust shared library that compiles another one's generic functions.

use std::hint::black_box;

use probe_runtime::probe;

/// Compiled in each object that uses it, for its type.
#[probe]
#[inline(never)]
pub fn twice<T: Copy>(x: T) -> T {
    alpha::generic(x);
    alpha::generic(black_box(x))
}

/// Uses them here: 1 `alpha::plain`, 2 `alpha::generic`, 1 `alpha::inlined`, 1 `beta::twice`, 1 `beta::work`.
#[probe]
#[inline(never)]
pub fn work() {
    alpha::plain(1);
    twice(1_u16);
    alpha::inlined(3);
}
