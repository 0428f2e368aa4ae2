//! The expansions cause no warning.

#![deny(warnings)]
#![deny(
    missing_docs,
    unused_qualifications,
    unused_results,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    non_ascii_idents,
    missing_copy_implementations,
    missing_debug_implementations,
    single_use_lifetimes,
    trivial_casts,
    trivial_numeric_casts,
    unused_lifetimes,
    let_underscore_drop,
    unused_crate_dependencies,
    variant_size_differences
)]
#![allow(unused_crate_dependencies)]

use probe_runtime::probe;

#[probe]
fn work(n: u32, text: &str) -> u32 {
    use std::fmt::Write;

    let mut out = String::new();
    probe!("work", n, ?text, double = n * 2);
    if n > 3 {
        return 0;
    }
    write!(out, "{n}").unwrap();
    n
}

#[probe]
fn never() -> ! {
    std::process::exit(0)
}

#[probe]
#[rustfmt::skip]
fn one_line() -> u32 { 1 }

/// Documented.
#[probe]
pub fn public() {}

struct S;

impl S {
    #[probe]
    fn method(&self) {}
}

fn main() {
    assert_eq!(work(1, "x"), 1);
    S.method();
    public();
    assert_eq!(one_line(), 1);
    never();
}
