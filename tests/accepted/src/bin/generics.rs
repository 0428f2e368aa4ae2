//! Generic functions, with lifetimes, types, constants and `where` clauses.

use std::fmt::{Debug, Display};

use probe_runtime::probe;

#[probe]
fn longest<'a, T: AsRef<str> + ?Sized>(a: &'a T, b: &'a T) -> &'a str {
    if a.as_ref().len() < b.as_ref().len() { b.as_ref() } else { a.as_ref() }
}

#[probe]
fn sum<const N: usize>(values: [u32; N]) -> u32 {
    probe!("count", n = N, ?values);
    values.iter().sum()
}

#[probe]
fn shown<T, U>(value: T, other: &U) -> String
where
    T: Display,
    U: Debug + ?Sized,
{
    probe!("shown", %value, ?other);
    format!("{value}{other:?}")
}

struct Wrapper<T>(T);

impl<T: Clone> Wrapper<T> {
    #[probe]
    fn pair<U>(&self, other: U) -> (T, U) {
        (self.0.clone(), other)
    }
}

#[probe]
fn higher_ranked<F>(f: F) -> u32
where
    for<'a> F: Fn(&'a u32) -> &'a u32,
{
    *f(&3)
}

fn main() {
    assert_eq!(longest("ab", "abc"), "abc");
    assert_eq!(sum([1, 2, 3]), 6);
    assert_eq!(sum([]), 0);
    assert_eq!(shown(1, "x"), "1\"x\"");
    assert_eq!(shown('c', &[1]), "c[1]");
    assert_eq!(Wrapper(1).pair("x"), (1, "x"));
    assert_eq!(higher_ranked(|x| x), 3);
}
