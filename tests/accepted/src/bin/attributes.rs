//! Other attributes, before and after `#[probe]`, on parameters and inside.

#![deny(unused_must_use)]

use probe_runtime::probe;

#[inline(always)]
#[probe]
fn inlined(n: u32) -> u32 {
    n + 1
}

#[probe]
#[inline(never)]
#[must_use]
fn kept(n: u32) -> u32 {
    n + 1
}

#[probe]
#[track_caller]
fn caller() -> u32 {
    std::panic::Location::caller().line()
}

#[probe]
#[cold]
#[doc(hidden)]
#[allow(clippy::needless_pass_by_value)]
fn others(#[allow(unused_variables)] n: u32) {}

#[probe]
#[cfg(any())]
fn absent() {
    missing();
}

#[cfg_attr(all(), probe)]
fn conditional() -> u32 {
    3
}

#[probe]
fn inner_attribute() -> u32 {
    #![allow(unused_variables)]
    //! An inner comment.
    let unused = 1;
    2
}

fn main() {
    assert_eq!(inlined(1), 2);
    assert_eq!(kept(1), 2);
    assert_eq!(caller(), line!());
    others(1);
    assert_eq!(conditional(), 3);
    assert_eq!(inner_attribute(), 2);
}
