//! A Rust shared library. Its users compile its generic and inline functions; the stubs stay here.

use std::fmt::Debug;
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

/// Compiled here. Its cold blocks need this object's addresses of outcome texts and formatters.
#[probe(args(?x), ret)]
#[inline(never)]
pub fn recorded(x: Option<u64>) -> Option<u64> {
    black_box(x)
}

/// The same, compiled in each object that uses it.
#[probe(args(?x), ret)]
#[inline(never)]
pub fn recorded_generic<T: Copy + Debug>(x: T) -> Result<T, ()> {
    Ok(black_box(x))
}

/// Uses them here: 1 plain, 2 generic, 1 inlined, 1 recorded, 1 recorded_generic.
#[inline(never)]
pub fn work() {
    assert_eq!(recorded(Some(1)), Some(1));
    assert_eq!(recorded_generic([1_u8]), Ok([1]));
    plain(1);
    generic(1_u8);
    generic(2_u8);
    inlined(3);
}
