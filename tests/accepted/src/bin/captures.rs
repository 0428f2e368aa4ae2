//! Captured arguments and results, on every kind of function, without a warning.

#![deny(warnings)]
#![deny(missing_docs, unused_qualifications, unused_results, unsafe_op_in_unsafe_fn, single_use_lifetimes, trivial_casts)]
#![forbid(unsafe_code)]

use std::fmt::Debug;
use std::pin::Pin;

use probe_runtime::probe;

#[derive(Debug)]
struct Shown(u32);

struct Opaque;

#[probe(args(a, b = b.len(), ?c, %d, e = ?a + 1), ret)]
fn fields(a: u32, b: &str, c: Shown, d: char) -> u32 {
    a + c.0 + u32::try_from(b.len()).unwrap() + u32::from(d)
}

struct Guard(bool);

impl Drop for Guard {
    fn drop(&mut self) {
        assert!(!self.0);
    }
}

impl Guard {
    #[probe(ret)]
    fn disarmed(mut self) -> bool {
        self.0 = false;
        true
    }

    #[probe(args(*), ret)]
    async fn disarmed_later(mut self) {
        self.0 = false;
    }
}

#[probe(args(*), ret)]
fn disarm(mut guard: Guard, name: String) -> usize {
    guard.0 = false;
    name.len()
}

#[probe(args(*), ret)]
fn nothing() -> Option<()> {
    None
}

#[probe(args(*, at = 3), ret(is_some = ret.is_some(), n = N))]
fn all<T, U: Debug + ?Sized, const N: usize>(
    _unused: u8,
    mut count: u32,
    generic: T,
    reference: &U,
    array: [T; N],
    function: impl Fn(u32) -> u32,
    (left, right): (Opaque, Shown),
) -> Option<T>
where
    T: Clone,
{
    use std::convert::identity;

    count = function(identity(count));
    let _ = (left, right, reference);
    if count == 3 {
        return None;
    }
    array.into_iter().next().or(Some(generic))
}

#[probe(ret)]
fn future() -> impl Future<Output = Result<u8, String>> {
    async { Ok(1) }
}

/// The signature tells the output's type also to a body in a wrapper.
#[probe(ret)]
fn of_another() -> impl Future<Output = Option<String>> {
    std::future::ready(None)
}

#[probe(args(*), ret)]
fn coerced_later(n: &u32) -> impl Future<Output = Result<&u32, Box<dyn std::error::Error>>> {
    async move {
        if *n == 0 {
            return Err("none".into());
        }
        Ok(n)
    }
}

#[probe]
fn unsized_later() -> impl Future<Output = Box<dyn Debug>> {
    async { Box::new(1) }
}

#[probe(ret)]
fn nested(odd: bool) -> Result<impl Iterator<Item = u32>, Box<dyn std::error::Error>> {
    if odd {
        return Err("odd".into());
    }
    Ok((0..3).filter(|n| n % 2 == 0))
}

#[probe(ret)]
fn coerced(text: &str) -> Box<dyn Debug + '_> {
    Box::new(text)
}

#[probe(args(*), ret)]
fn longest<'a>(a: &'a str, b: &'a str) -> &'a str {
    'found: {
        if a.len() > b.len() {
            break 'found a;
        }
        b
    }
}

#[probe(ret)]
fn unit(cell: &mut u32) {
    *cell += 1;
}

#[probe(ret)]
fn stops() -> u32 {
    panic!("as planned")
}

struct Table {
    rows: Vec<String>,
}

impl Table {
    #[probe(args(*), ret)]
    fn new(rows: Vec<String>) -> Self {
        Self { rows }
    }

    #[probe(args(rows = self.rows.len()), ret)]
    fn row(&self, at: usize) -> Option<&str> {
        Some(self.rows.get(at)?)
    }

    #[probe(args(*), ret)]
    fn row_mut(&mut self, at: usize) -> &mut String {
        if at == 0 {
            return &mut self.rows[0];
        }
        &mut self.rows[at]
    }

    #[probe(ret)]
    fn rows(self: Pin<&mut Self>) -> &mut [String] {
        &mut self.get_mut().rows
    }

    #[probe(args(*), ret)]
    fn join(mut self, other: Self) -> Vec<String> {
        self.rows.extend(other.rows);
        self.rows
    }
}

trait Area {
    #[probe(args(*), ret)]
    fn doubled(&self) -> u32 {
        self.area() * 2
    }

    fn area(&self) -> u32;
}

impl Area for u32 {
    #[probe(args(self), ret)]
    fn area(&self) -> u32 {
        *self
    }
}

macro_rules! made {
    ($name:ident, $argument:ident, $ret:ty, $body:block) => {
        #[probe(args($argument, twice = $argument * 2), ret(?ret))]
        fn $name($argument: u32) -> $ret $body
    };
}

made!(of_a_macro, n, u32, { n + 1 });

fn main() {
    assert!(Guard(true).disarmed());
    drop((of_another(), coerced_later(&1), unsized_later()));
    drop(Guard(false).disarmed_later());
    assert_eq!(disarm(Guard(true), String::from("a")), 1);
    assert_eq!(fields(1, "a", Shown(2), 'a'), 101);
    assert!(nothing().is_none());
    assert_eq!(all(0, 1, 2, "x", [3], |n| n + 1, (Opaque, Shown(1))), Some(3));
    drop(future());
    assert_eq!(nested(false).unwrap().count(), 2);
    assert!(nested(true).is_err());
    assert_eq!(format!("{:?}", coerced("x")), "\"x\"");
    assert_eq!(longest("aa", "b"), "aa");
    let mut cell = 1;
    unit(&mut cell);
    assert_eq!(cell, 2);
    std::panic::set_hook(Box::new(|_| {}));
    assert!(std::panic::catch_unwind(stops).is_err());
    let mut table = Table::new(vec!["a".into(), "b".into()]);
    table.row_mut(1).push('x');
    assert_eq!(table.row(1), Some("bx"));
    assert_eq!(Pin::new(&mut table).rows().len(), 2);
    assert_eq!(table.join(Table::new(vec![])).len(), 2);
    assert_eq!(3.doubled(), 6);
    assert_eq!(of_a_macro(1), 2);
}
