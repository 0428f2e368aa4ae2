//! Functions of each shape that a probe may meet. The test compares their machine code with that of the same
//! program built with `--cfg probe_off`.

use std::hint::black_box;
use std::num::ParseIntError;

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

fn main() {
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
