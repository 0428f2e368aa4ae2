//! Functions compiled with probes and, with the feature `unprobed`, from the same source without.

use std::hint::black_box;
use std::num::ParseIntError;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// A point, unless this is built as if there had never been one.
macro_rules! point {
    ($($point:tt)*) => {
        #[cfg(not(feature = "unprobed"))]
        probe_runtime::point!($($point)*);
    };
}

#[unsafe(no_mangle)]
#[inline(never)]
#[cfg_attr(not(feature = "unprobed"), probe_runtime::probe)]
fn twin_leaf(a: u64, b: u64) -> u64 {
    a.wrapping_mul(31).wrapping_add(b)
}

#[unsafe(no_mangle)]
#[inline(never)]
#[cfg_attr(not(feature = "unprobed"), probe_runtime::probe)]
fn twin_loop(values: &[u64; 64], rounds: usize) -> u64 {
    let mut hash = 0_u64;
    for index in 0..rounds {
        hash = (hash ^ values[index % 64]).wrapping_mul(0x100_0000_01b3);
        point!("hashed", hash, index, value = ?values[index % 64]);
    }
    hash
}

#[cfg_attr(not(feature = "unprobed"), probe_runtime::probe)]
#[inline(always)]
fn mixed<T: Into<u64> + Copy>(value: T) -> u64 {
    value.into().rotate_left(7) ^ 0x9e37
}

#[unsafe(no_mangle)]
#[inline(never)]
#[cfg_attr(not(feature = "unprobed"), probe_runtime::probe)]
fn twin_early(a: u8, b: u16, c: &[u32]) -> Option<u64> {
    let first = *c.first()?;
    if a == 7 {
        return None;
    }
    Some(mixed(a) + mixed(b) + mixed(first))
}

#[unsafe(no_mangle)]
#[inline(never)]
#[cfg_attr(not(feature = "unprobed"), probe_runtime::probe(args(*), ret))]
fn twin_captures(a: u64, text: &str) -> Result<u64, usize> {
    if text.is_empty() {
        return Err(black_box(3));
    }
    Ok(a + text.len() as u64)
}

#[cfg_attr(not(feature = "unprobed"), probe_runtime::probe)]
async fn steps(n: u64) -> u64 {
    n.wrapping_mul(3) + 1
}

#[unsafe(no_mangle)]
#[inline(never)]
#[cfg_attr(not(feature = "unprobed"), probe_runtime::probe)]
fn twin_poll(n: u64) -> u64 {
    match pin!(steps(n)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(n) => n,
        Poll::Pending => 0,
    }
}

#[inline(never)]
#[cfg_attr(not(feature = "unprobed"), probe_runtime::probe)]
fn parse(text: &str) -> Result<u64, ParseIntError> {
    text.parse()
}

fn main() {
    let values = black_box([3; 64]);
    let sums = [
        twin_leaf(black_box(1), 2),
        twin_loop(&values, black_box(3)),
        twin_early(black_box(1), 2, &[3]).unwrap_or(0),
        twin_captures(black_box(4), black_box("text")).unwrap_or(0),
        twin_poll(black_box(4)),
        parse(black_box("5")).unwrap_or(0),
        u64::from(leaf::decode(black_box(&[6])).is_ok()),
    ];
    println!("{sums:?}");
}
