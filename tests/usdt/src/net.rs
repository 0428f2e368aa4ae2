//! The probes.

use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use probe_runtime::{point, probe};

/// An entry, a point with fields and an exit.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe(usdt)]
pub fn leaf(a: u64, b: i32, text: &str, d: u32) -> u64 {
    probe!(usdt, "middle", a, b, text, d);
    a.wrapping_mul(31).wrapping_add(b as u64) ^ text.len() as u64 ^ u64::from(d)
}

#[unsafe(no_mangle)]
#[inline(never)]
#[probe]
pub fn leaf_plain(a: u64, b: i32, text: &str, d: u32) -> u64 {
    probe!("middle_plain", a, b, text, d);
    a.wrapping_mul(31).wrapping_add(b as u64) ^ text.len() as u64 ^ u64::from(d)
}

/// Arguments.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe(usdt, args(id, name, code))]
pub fn given(id: u32, name: &str, code: i32) -> u64 {
    u64::from(id) + name.len() as u64 ^ code as u64
}

#[unsafe(no_mangle)]
#[inline(never)]
#[probe(args(id, name, code))]
pub fn given_plain(id: u32, name: &str, code: i32) -> u64 {
    u64::from(id) + name.len() as u64 ^ code as u64
}

/// All arguments, and the result.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe(usdt, args(*), ret)]
pub fn returned(a: u64, b: u64) -> u64 {
    a.wrapping_mul(31).wrapping_add(b)
}

#[unsafe(no_mangle)]
#[inline(never)]
#[probe(args(*), ret)]
pub fn returned_plain(a: u64, b: u64) -> u64 {
    a.wrapping_mul(31).wrapping_add(b)
}

/// Values of a word.
#[inline(never)]
pub fn wide(signed: i64, size: usize) {
    point!(usdt, "wide", signed, size);
    black_box(());
}

/// Values of less than a word.
#[inline(never)]
pub fn narrow(byte: i8, short: i16, letter: char, is_on: bool) {
    point!(usdt, "narrow", byte, short, letter, is_on);
    black_box(());
}

/// Addresses, one of which has a length.
#[inline(never)]
pub fn references(bytes: &[u8], changed: &mut u32, pointer: *const u64) {
    point!(usdt, "references", bytes, changed, ?pointer);
    black_box(());
}

/// A point in a loop.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn looped(values: &[u64]) -> u64 {
    let mut sum = 0_u64;
    for value in values {
        let value = *value;
        point!(usdt, "looped", value);
        sum = sum.rotate_left(5) ^ value;
    }
    sum
}

#[unsafe(no_mangle)]
#[inline(never)]
pub fn looped_plain(values: &[u64]) -> u64 {
    let mut sum = 0_u64;
    for value in values {
        let value = *value;
        point!("looped_plain", value);
        sum = sum.rotate_left(5) ^ value;
    }
    sum
}

/// Addresses and lengths of buffers, as in a read from a file.
#[inline(never)]
pub fn filled(buffer: &mut [u8], text: &mut str) {
    point!(usdt, "filled", buffer, text);
    buffer[0] = text.len() as u8;
}

#[probe(usdt, args(value))]
#[inline(always)]
fn mixed<T: Into<u64>>(value: u16, more: T) -> u64 {
    u64::from(value).rotate_left(7) ^ more.into()
}

/// A generic function with two machine copies.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn inlined_twice(a: u16, b: u8) -> u64 {
    mixed(a, a) ^ mixed(u16::from(b), b)
}

/// No caller: the linker drops it.
#[unsafe(no_mangle)]
#[probe(usdt)]
#[inline(never)]
pub fn without_caller(a: u64) -> u64 {
    black_box(a)
}

pub struct Store {
    pub total: u64,
}

/// A block asks for all of its functions.
#[probe(usdt, all)]
impl Store {
    #[inline(never)]
    pub fn put(&mut self, value: u64) {
        self.total += value;
    }

    #[inline(never)]
    pub fn sum(&self) -> u64 {
        self.total
    }
}

/// A future has its address as the first argument.
#[probe(usdt, args(n), ret)]
async fn twice(n: u64) -> u64 {
    Suspended(false).await;
    n * 2
}

struct Suspended(bool);

impl Future for Suspended {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn poll(mut future: Pin<&mut impl Future<Output = u64>>) -> u64 {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(result) = black_box(future.as_mut()).poll(&mut context) {
            return result;
        }
    }
}

#[inline(never)]
pub fn polled() -> u64 {
    poll(pin!(twice(black_box(21))))
}

/// A future of few states, which the compiler tells apart without a table.
#[probe(usdt)]
async fn ready(n: u64) -> u64 {
    n.rotate_left(3)
}

#[probe]
async fn ready_plain(n: u64) -> u64 {
    n.rotate_left(3)
}

#[unsafe(no_mangle)]
#[inline(never)]
pub fn at_once(n: u64) -> u64 {
    poll(pin!(ready(n)))
}

#[unsafe(no_mangle)]
#[inline(never)]
pub fn at_once_plain(n: u64) -> u64 {
    poll(pin!(ready_plain(n)))
}
