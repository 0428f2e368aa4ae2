//! Functions of each shape that a probe may meet. The test compares their machine code with that of
//! the same program without probes.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::mem;
use std::num::ParseIntError;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use probe_runtime::{point, probe};

/// An integer leaf.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe]
fn leaf(a: u64, b: u64) -> u64 {
    a.wrapping_mul(31).wrapping_add(b)
}

/// A leaf that may be replaced.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe(replace)]
fn replaceable_leaf(a: u64, b: u64) -> u64 {
    a.wrapping_mul(31).wrapping_add(b)
}

/// Arguments and a result that lie in memory, and an argument that is dropped.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe(replace)]
fn replaceable_owner(text: Vec<u64>, values: [u64; 5], scale: f64) -> [u64; 4] {
    let sum = text.iter().fold(values[4], |sum, value| sum.wrapping_add(*value));
    let sum = sum as f64 * scale;
    [values[0], values[1], values[2], sum as u64]
}

/// Calls that are not at its end, and an early return.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe(replace)]
fn replaceable_caller(values: &[u64], a: u64) -> u64 {
    if values.is_empty() {
        return a;
    }
    let first = called(values[0]);
    let second = called(a);
    first ^ second
}

/// Methods.
pub struct Cart {
    total: u64,
}

impl Cart {
    #[unsafe(no_mangle)]
    #[inline(never)]
    #[probe(replace)]
    fn replaceable_method(&mut self, price: u64, count: u64) -> &mut u64 {
        self.total = self.total.wrapping_add(price.wrapping_mul(count));
        &mut self.total
    }
}

/// Floats live in vector registers across a point in a loop.
#[unsafe(no_mangle)]
#[inline(never)]
fn float_loop(values: &[f64; 64], rounds: usize, factor: f64) -> f64 {
    let mut sum = 0.0;
    for index in 0..rounds {
        sum = sum * factor + values[index % 64];
        point!("step", index, sum);
    }
    sum
}

/// One field.
#[unsafe(no_mangle)]
#[inline(never)]
fn one_field_loop(values: &[u64; 64], rounds: usize) -> u64 {
    let mut hash = 0_u64;
    for index in 0..rounds {
        hash = (hash ^ values[index % 64]).wrapping_mul(0x100_0000_01b3);
        point!("hashed", hash);
    }
    hash
}

/// Three fields: they go through an array.
#[unsafe(no_mangle)]
#[inline(never)]
fn three_field_loop(values: &[u64; 64], rounds: usize, factor: u64) -> u64 {
    let mut hash = 0_u64;
    for index in 0..rounds {
        hash = (hash ^ values[index % 64]).wrapping_mul(factor);
        point!("three", index, hash, factor);
    }
    hash
}

/// Five fields, in a loop of floats.
#[unsafe(no_mangle)]
#[inline(never)]
fn five_field_loop(values: &[f64; 64], rounds: usize, factor: f64) -> f64 {
    let (mut sum, mut product) = (0.0, 1.0);
    for index in 0..rounds {
        sum += values[index % 64];
        product = product * factor + sum;
        point!("five", index, rounds, sum, product, factor);
    }
    sum + product
}

#[probe]
#[inline(always)]
fn mixed<T: Into<u64> + Copy>(value: T) -> u64 {
    value.into().rotate_left(7) ^ 0x9e37
}

/// A generic function, inlined four times.
#[unsafe(no_mangle)]
#[inline(never)]
fn inlined_four_times(a: u8, b: u16, c: u32, d: u64) -> u64 {
    mixed(a).wrapping_add(mixed(b)).wrapping_add(mixed(c)).wrapping_add(mixed(d))
}

/// Early returns.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe]
fn early(a: u64, values: &[u64]) -> u64 {
    if a == 0 {
        return 7;
    }
    for value in values {
        if *value == a {
            return a * 3;
        }
    }
    a + 1
}

/// `?`.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe]
fn question_mark(a: &str, b: &str) -> Result<u64, ParseIntError> {
    let a = parsed(a)?;
    let b = parsed(b)?;
    Ok(a ^ b)
}

#[unsafe(no_mangle)]
#[inline(never)]
fn parsed(text: &str) -> Result<u64, ParseIntError> {
    text.parse()
}

/// Calls others, which can't unwind.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe]
fn caller(a: u64, b: u64) -> u64 {
    let first = called(a);
    point!("between", first);
    let second = called(b);
    first.wrapping_mul(second).wrapping_add(a)
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn called(a: u64) -> u64 {
    black_box(a) + 1
}

/// A tail call, without a probe a mere jump.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe]
fn forwarder(a: u64) -> u64 {
    called(a)
}

/// Text as a field.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe]
fn text_field(text: &str) -> usize {
    probe!("text", text);
    text.as_bytes().iter().filter(|byte| **byte == b' ').count()
}

/// A setter.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe]
fn setter(cell: &mut u64, value: u64) {
    *cell = value;
}

/// Nothing.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe]
fn nothing() {}

/// A future that suspends again and again.
#[probe]
async fn steps(cell: &Cell<u64>, factor: u64) -> u64 {
    while cell.get() < 100 {
        cell.set(cell.get().wrapping_mul(factor));
        let mut is_second = false;
        poll_fn(|_| if mem::replace(&mut is_second, true) { Poll::Ready(()) } else { Poll::Pending }).await;
    }
    cell.get() + factor
}

/// Polls through a pointer, so that the poll is a function of its own.
fn poll(future: Pin<&mut dyn Future<Output = u64>>) -> Poll<u64> {
    black_box(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Arguments that are recorded as they are.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe(args(a, b, text))]
fn arguments(a: u64, b: u32, text: &str) -> u64 {
    a.wrapping_mul(31).wrapping_add(u64::from(b)) ^ text.len() as u64
}

/// Arguments of several types, one of which formats itself, through its address.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe(args(*))]
fn all_arguments(a: u64, b: u32, text: &str, option: Option<u32>) -> u64 {
    a.wrapping_mul(31).wrapping_add(u64::from(b)) ^ text.len() as u64 ^ u64::from(option.unwrap_or(7))
}

/// An expression that may panic.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe(args(a, first = text.as_bytes()[0]))]
fn contained_argument(a: u64, b: u32, text: &str) -> u64 {
    a.wrapping_mul(31).wrapping_add(u64::from(b)) ^ text.len() as u64
}

/// A result in a register.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe(args(*), ret)]
fn scalar_result(a: u64, b: u64) -> u64 {
    a.wrapping_mul(31).wrapping_add(b)
}

/// A result in two registers, which formats itself.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe(args(*), ret)]
fn pair_result(a: u64, b: u64) -> Option<u64> {
    if a > b { Some(a ^ b) } else { None }
}

/// A result in one register that holds two values.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe(ret(?ret, is_ok = ret.is_ok()))]
fn packed_result(a: u32, b: u32) -> Result<u32, u8> {
    a.checked_add(b).ok_or(3)
}

/// A result in the caller's memory.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe(ret)]
fn large_result(a: u64, b: u64) -> [u64; 5] {
    [a, b, a ^ b, a | b, a & b]
}

/// Results by early returns and `?`.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe(args(*), ret)]
fn early_result(a: &str, b: &str) -> Result<u64, ParseIntError> {
    if a.is_empty() {
        return Ok(0);
    }
    let a = parsed(a)?;
    let b = parsed(b)?;
    Ok(a ^ b)
}

/// Changes a value that an argument borrows.
#[unsafe(no_mangle)]
#[inline(never)]
#[probe(args(*), ret)]
fn lent_result(values: &mut [u64; 4], at: usize) -> &mut u64 {
    values[1] += 1;
    &mut values[at & 3]
}

#[probe(args(*), ret)]
#[inline(always)]
fn stepped(hash: u64, value: u64) -> Option<u64> {
    let hash = (hash ^ value).wrapping_mul(0x100_0000_01b3);
    (hash != 7).then_some(hash)
}

/// A function with everything recorded, inlined into a loop.
#[unsafe(no_mangle)]
#[inline(never)]
fn captures_in_a_loop(values: &[u64; 64], rounds: usize) -> u64 {
    let mut hash = 0;
    for index in 0..rounds {
        match stepped(hash, values[index % 64]) {
            Some(next) => hash = next,
            None => return 3,
        }
    }
    hash
}

/// Fields that may panic, in a loop.
#[unsafe(no_mangle)]
#[inline(never)]
fn contained_loop(values: &[u64; 64], rounds: usize, factor: u64) -> u64 {
    let mut hash = 0_u64;
    for index in 0..rounds {
        hash = (hash ^ values[index % 64]).wrapping_mul(factor);
        point!("contained", hash, value = values[index & 127]);
    }
    hash
}

/// A copy that formats itself, in a loop.
#[unsafe(no_mangle)]
#[inline(never)]
fn formatted_loop(values: &[u64; 64], rounds: usize) -> u64 {
    let mut hash = 0_u64;
    for index in 0..rounds {
        hash = (hash ^ values[index % 64]).wrapping_mul(0x100_0000_01b3);
        point!("formatted", ?hash);
    }
    hash
}

fn main() {
    let cell = Cell::new(black_box(10));
    let mut future = pin!(steps(&cell, black_box(3)));
    while poll(future.as_mut()).is_pending() {}
    black_box(arguments(black_box(1), 2, "a"));
    black_box(all_arguments(black_box(1), 2, "a", Some(3)));
    black_box(contained_argument(black_box(1), 2, "a"));
    black_box(scalar_result(black_box(1), 2));
    black_box(pair_result(black_box(1), 2));
    black_box(packed_result(black_box(1), 2)).ok();
    black_box(large_result(black_box(1), 2));
    black_box(early_result(black_box("1"), "2")).ok();
    black_box(lent_result(black_box(&mut [1; 4]), 2));
    black_box(captures_in_a_loop(black_box(&[1; 64]), 3));
    black_box(contained_loop(black_box(&[1; 64]), 3, 5));
    black_box(formatted_loop(black_box(&[1; 64]), 3));
    black_box(replaceable_leaf(black_box(1), 2));
    black_box(replaceable_owner(black_box(vec![1]), black_box([2; 5]), black_box(3.0)));
    black_box(replaceable_caller(black_box(&[1]), 2));
    black_box(Cart { total: black_box(1) }.replaceable_method(black_box(2), 3));
    black_box(leaf(black_box(1), 2));
    black_box(float_loop(black_box(&[1.0; 64]), 3, 2.0));
    black_box(one_field_loop(black_box(&[1; 64]), 3));
    black_box(three_field_loop(black_box(&[1; 64]), 3, 5));
    black_box(five_field_loop(black_box(&[1.0; 64]), 3, 2.0));
    black_box(inlined_four_times(black_box(1), 2, 3, 4));
    black_box(early(black_box(1), black_box(&[1])));
    black_box(question_mark(black_box("1"), black_box("2")).is_ok());
    black_box(caller(black_box(1), 2));
    black_box(forwarder(black_box(1)));
    black_box(text_field(black_box("a b")));
    setter(black_box(&mut 1), 2);
    black_box(nothing as fn())();
}
