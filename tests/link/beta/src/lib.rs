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

/// Its cold blocks need addresses of another object.
#[probe(args(?x), ret)]
#[inline(never)]
pub fn recorded(x: Option<u64>) -> Option<u64> {
    black_box(x)
}

/// Uses them here: 1 `alpha::plain`, 2 `alpha::generic`, 1 `alpha::inlined`, 1 `alpha::recorded`,
/// 1 `alpha::recorded_generic`, 1 `beta::twice`, 1 `beta::recorded`, 1 `beta::work`.
#[probe]
#[inline(never)]
pub fn work() {
    assert_eq!(recorded(alpha::recorded(Some(2))), Some(2));
    assert_eq!(alpha::recorded_generic([2_u16]), Ok([2]));
    alpha::plain(1);
    twice(1_u16);
    alpha::inlined(3);
}
