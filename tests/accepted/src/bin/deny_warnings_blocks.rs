//! The expansions of blocks cause no warning, and need no unsafe code.

#![deny(warnings)]
#![forbid(unsafe_code)]
#![deny(
    missing_docs,
    unused_qualifications,
    unused_results,
    unreachable_pub,
    non_ascii_idents,
    missing_copy_implementations,
    missing_debug_implementations,
    single_use_lifetimes,
    trivial_casts,
    trivial_numeric_casts,
    unused_lifetimes,
    let_underscore_drop,
    variant_size_differences
)]

use probe_runtime::probe;

struct S(u32);

/// Documented.
#[probe(group = "net", doc = "What it is.", except("excluded"))]
impl S {
    const fn new() -> Self {
        Self(1)
    }

    #[inline]
    fn hinted(&self) -> u32 {
        let x = self.0;
        x + 1
    }

    fn small(&self) -> u32 {
        self.0
    }

    fn excluded(&self) -> u32 {
        use std::fmt::Write;

        let mut out = String::new();
        write!(out, "{}", self.0).unwrap();
        self.0
    }

    fn probed(&self) -> u32 {
        use std::fmt::Write;

        let mut out = String::new();
        probe!("x", n = self.0, ?out);
        write!(out, "{}", self.0).unwrap();
        self.0
    }
}

#[probe]
trait T {
    fn required(&self) -> u32;

    fn provided(&self) -> u32 {
        let x = self.required();
        x + 1
    }
}

impl T for S {
    fn required(&self) -> u32 {
        self.0
    }
}

/// Documented.
#[probe(all)]
pub mod m {
    /// Documented.
    pub fn public() -> u32 {
        1
    }

    /// Documented.
    pub const fn constant() -> u32 {
        1
    }

    /// Documented.
    pub trait Public {
        /// Documented.
        fn required(&self);
    }
}

fn main() {
    let s = S::new();
    assert_eq!((s.hinted(), s.small(), s.excluded(), s.probed(), s.provided()), (2, 1, 1, 1, 2));
    assert_eq!((m::public(), m::constant()), (1, 1));
}
