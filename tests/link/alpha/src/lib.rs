//! A Rust shared library: its generic and inline functions are compiled elsewhere, their probes' stubs stay here.

use std::hint::black_box;

use probe_runtime::probe;

/// Compiled here.
#[probe]
#[inline(never)]
pub fn plain(x: u64) -> u64 {
    black_box(x) + 1
}

/// Compiled in each object that uses it, for its type.
#[probe]
#[inline(never)]
pub fn generic<T: Copy>(x: T) -> T {
    probe!("inside");
    black_box(x)
}

/// Compiled in each object that uses it.
#[probe]
#[inline]
pub fn inlined(x: u64) -> u64 {
    black_box(x) * 2
}

/// Uses them here: 1 plain, 2 generic, 1 inlined.
#[inline(never)]
pub fn work() {
    plain(1);
    generic(1_u8);
    generic(2_u8);
    inlined(3);
}
