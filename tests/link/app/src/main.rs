//! The main fixture: every shape of site, in two crates. It runs under each flag of the matrix.

use std::hint::black_box;
use std::panic;
use std::thread;

use probe_runtime::probe;

#[probe]
#[inline(never)]
fn plain(x: u64) -> u64 {
    black_box(x) + 1
}

#[probe]
#[inline(never)]
fn generic<T: Clone>(x: &T) -> T {
    black_box(x).clone()
}

#[probe]
#[inline(always)]
fn inlined(x: u64) -> u64 {
    probe!("inside", x);
    black_box(x) * 3
}

#[probe]
#[inline(never)]
fn early(x: u64) -> Option<u64> {
    if x == 0 {
        return None;
    }
    let half = x.is_multiple_of(2).then_some(x / 2)?;
    Some(half + 1)
}

#[inline(never)]
fn looping(rounds: u64) -> f64 {
    let mut sum = 0.0;
    for round in 0..rounds {
        sum += black_box(1.5);
        probe_runtime::point!("round", round, sum, even = round.is_multiple_of(2), text = "abc", debug = ?Some(round));
    }
    sum
}

#[probe]
#[inline(never)]
fn may_panic(panics: bool) {
    assert!(!panics, "as asked");
}

#[probe(name = "renamed")]
#[inline(never)]
fn threaded() -> u64 {
    black_box(7)
}

/// Never called, never compiled: a definition remains.
#[probe]
fn never_called() {}

/// Leaves by unwinding, where that can be caught.
fn unwind() {
    if cfg!(panic = "unwind") {
        let caught = panic::catch_unwind(|| may_panic(black_box(true)));
        assert!(caught.is_err());
    }
}

fn work() {
    for x in 0..5 {
        plain(black_box(x));
    }
    generic(&1_u8);
    generic(&2_u64);
    generic(&2_u64);
    generic(&String::from("text"));
    black_box(inlined(1) + inlined(2) + inlined(3) + inlined(4));
    let results = [0, 1, 2, 4].map(|x| early(black_box(x)));
    assert_eq!(results, [None, None, Some(2), Some(3)]);
    assert_eq!(looping(black_box(10)), 15.0);
    may_panic(black_box(false));
    unwind();
    let threads = [(); 2].map(|()| thread::spawn(|| (0..500).map(|_| threaded()).sum::<u64>()));
    assert_eq!(threads.map(|thread| thread.join().expect("no panic")), [3500, 3500]);
    assert_eq!(shapes::area(black_box(3), black_box(4)), 12);
    assert_eq!(shapes::scaled(black_box(3_u32)), 3);
    assert_eq!(shapes::scaled(black_box(4_u16)), 4);
    assert_eq!(shapes::inner::doubled(black_box(4)), 8);
}

fn main() {
    panic::set_hook(Box::new(|_| {}));
    transcript::run(work);
}
