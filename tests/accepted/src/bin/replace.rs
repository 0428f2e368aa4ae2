//! Functions that may be replaced, without a warning of any kind.

#![deny(warnings, clippy::all, clippy::pedantic)]
#![deny(
    missing_docs,
    unused_qualifications,
    unused_results,
    unreachable_pub,
    missing_copy_implementations,
    missing_debug_implementations,
    single_use_lifetimes,
    unused_lifetimes,
    let_underscore_drop,
    variant_size_differences
)]
#![forbid(unsafe_code)]

use probe_runtime::control::Replacement;
use probe_runtime::probe;

/// A module whose names are the macro's.
pub mod shadowed {
    #![allow(dead_code, non_camel_case_types)]
    /// Not the real one.
    #[derive(Clone, Copy, Debug)]
    pub struct Option;
    struct Result;
    struct Box;
    trait Fn {}
    trait Send {}
    mod core {}
    mod std {}

    /// Documented.
    #[::probe_runtime::probe(replace)]
    #[must_use]
    pub fn doubled(left: u32) -> u32 {
        left * 2
    }
}

#[probe(replace)]
fn nothing() {}

/// Documented.
#[probe(replace, name = "renamed")]
#[must_use]
#[inline]
pub fn public(closure: &mut [u32]) -> Option<&mut u32> {
    closure.first_mut()
}

#[probe(replace)]
#[expect(clippy::too_many_arguments, reason = "as a test")]
#[allow(clippy::many_single_char_names)]
fn many((a, b): (u8, u8), [c, ..]: [u8; 3], d: u8, mut e: u8, _f: u8, _: u8, g: u8, h: u8) -> u8 {
    e += 1;
    a + b + c + d + e + g + h
}

#[probe(replace)]
extern "C" fn called(n: u32) -> u32 {
    n
}

#[probe(replace)]
#[cfg(any())]
fn absent(n: Missing) {}

#[probe(replace)]
fn r#match(r#type: u32) -> u32 {
    r#type
}

#[probe(replace)]
fn early(n: u32) -> Result<u32, String> {
    if n == 0 {
        return Err(String::new());
    }
    let n: u32 = n.to_string().parse().map_err(|_| String::new())?;
    Ok(n)
}

#[probe(replace)]
fn bounded<'a, 'b>(all: &mut Vec<&'a str>, one: &'b str)
where
    'b: 'a,
    String: Clone,
{
    all.push(one);
}

struct S(u32);

impl S {
    #[probe(replace)]
    fn get(&self) -> u32 {
        self.0
    }

    #[probe(replace)]
    fn pinned(self: std::pin::Pin<&mut Self>) -> &mut u32 {
        &mut self.get_mut().0
    }

    #[probe(replace(method))]
    fn new() -> Self {
        Self(1)
    }
}

fn main() -> Result<(), probe_runtime::Error> {
    #[probe(replace)]
    fn nested(n: &str) -> &str {
        n
    }

    let guards: Vec<Replacement> = vec![
        shadowed::doubled::install(|original, n| original(n) + 1)?,
        nothing::install(|original| original())?,
        public::install(|original, all| original(all))?,
        many::install(|original, a, b, c, d, e, f, g, h| original(a, b, c, d, e, f, g, h) + 1)?,
        called::install(|original, n| original(n) + 1)?,
        r#match::install(|original, n| original(n) + 1)?,
        early::install(|original, n| Ok(original(n)? + 1))?,
        bounded::install(|original, all, one| original(all, one))?,
        S::get_install(|original, this| original(this) + 1)?,
        S::pinned_install(|original, this| original(this))?,
        S::new_install(|original| original())?,
        nested::install(|original, n| original(n))?,
    ];
    nothing();
    assert_eq!(shadowed::doubled(1), 3);
    assert_eq!(public(&mut [1]), Some(&mut 1));
    assert_eq!(many((1, 1), [1, 1, 1], 1, 1, 1, 1, 1, 1), 8 + 1);
    assert_eq!((called(1), r#match(1), early(1), early(0)), (2, 2, Ok(2), Err(String::new())));
    let mut all = Vec::new();
    bounded(&mut all, "a");
    assert_eq!((all, nested("a")), (vec!["a"], "a"));
    let mut s = S::new();
    assert_eq!((s.get(), *std::pin::Pin::new(&mut s).pinned()), (2, 1));
    assert_eq!(guards.len(), 12);
    Ok(())
}
