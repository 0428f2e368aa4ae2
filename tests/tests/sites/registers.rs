//! Values that are live across an active probe stay the same: more integers and floats than there
//! are registers, beside a consumer that uses all of them and changes `errno`. A process of its
//! own: its consumer listens to all of this program's probes.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use probe_runtime::{Consumer, Event, point, probe, select};

const LIVE: usize = 24;
const ROUNDS: u64 = 8;

type Mixed = ([u64; LIVE], [u64; LIVE]);

/// A function that keeps 24 integers and 24 floats alive, in variables of their own, across the
/// statement in its loop. Its result depends on every bit of them.
macro_rules! function {
    ($(#[$attribute:meta])* $name:ident, $round:ident, $float:ident, $meanwhile:stmt) => {
        function! { @ $(#[$attribute])* $name, $round, $float, $meanwhile;
            a0 f0 0, a1 f1 1, a2 f2 2, a3 f3 3, a4 f4 4, a5 f5 5, a6 f6 6, a7 f7 7, a8 f8 8, a9 f9 9, a10 f10 10,
            a11 f11 11, a12 f12 12, a13 f13 13, a14 f14 14, a15 f15 15, a16 f16 16, a17 f17 17, a18 f18 18,
            a19 f19 19, a20 f20 20, a21 f21 21, a22 f22 22, a23 f23 23
        }
    };
    (@ $(#[$attribute:meta])* $name:ident, $round:ident, $float:ident, $meanwhile:stmt;
        $($x:ident $f:ident $n:literal),*) => {
        $(#[$attribute])*
        #[inline(never)]
        fn $name(seed: u64) -> Mixed {
            $(
                let mut $x: u64 = seed.wrapping_mul(2 * $n + 1).rotate_left($n);
                let mut $f: f64 = ($x >> 40) as f64 * 0.5 + f64::from($n);
            )*
            for $round in 0..black_box(ROUNDS) {
                $(
                    $x = $x.wrapping_add($round).rotate_left(5) ^ $n;
                    $f = $f * 1.000_1 + f64::from($n);
                )*
                let $float = [$($f),*][7];
                $meanwhile
                $(
                    $x = $x.wrapping_mul(0x9e37_79b9_7f4a_7c15 + $n);
                    $f -= 0.25 * f64::from($n);
                )*
            }
            ([$($x),*], [$($f.to_bits()),*])
        }
    };
}

function! { #[allow(clippy::cast_precision_loss)] plain, round, float, { black_box(round); black_box(float); } }
function! { #[allow(clippy::cast_precision_loss)] no_field, _round, _float, point!("none") }
function! { #[allow(clippy::cast_precision_loss)] one_field, round, _float, point!("one", round) }
function! { #[allow(clippy::cast_precision_loss)] two_fields, round, float, point!("two", round, float) }
function! {
    #[allow(clippy::cast_precision_loss)]
    five_fields, round, float, point!("five", round, float, c = round + 1, d = float * 2.0, e = ?round)
}
function! {
    #[allow(clippy::cast_precision_loss)]
    calling, round, float, { black_box(attributed(black_box(round), black_box(float))); }
}

#[probe]
#[inline(never)]
fn attributed(round: u64, float: f64) -> f64 {
    float + if round == 0 { 0.5 } else { 1.5 }
}

/// Writes every register, and `errno`.
#[derive(Default)]
struct Busy {
    hits: AtomicU64,
    in_order: bool,
}

impl Consumer for Busy {
    fn needs_order(&self) -> bool {
        self.in_order
    }

    fn hit(&self, event: &Event<'_>) {
        let hits = self.hits.fetch_add(1, Ordering::Relaxed);
        black_box(plain(black_box(hits ^ 0x5555)));
        for (_, value) in event.fields() {
            black_box(value.to_string());
        }
        errno::set(libc::ENOTTY);
    }
}

mod errno {
    /// This thread's error number.
    #[cfg(not(probe_portable))]
    pub(crate) fn get() -> i32 {
        std::io::Error::last_os_error().raw_os_error().unwrap()
    }

    /// Sets it.
    pub(crate) fn set(errno: i32) {
        // SAFETY: the thread's own errno.
        unsafe { *libc::__errno_location() = errno };
    }
}

/// Calls a function with its probes active; every hit is counted, and nothing else has changed.
#[track_caller]
fn check(selector: &str, hits_a_round: u64, function: fn(u64) -> Mixed) {
    let expected = [1, u64::MAX, 0x0123_4567_89ab_cdef].map(plain);
    let results = || [1, u64::MAX, 0x0123_4567_89ab_cdef].map(|seed| function(black_box(seed)));
    assert_eq!(results(), expected, "latent");
    for in_order in [false, true] {
        let busy = select(selector).unwrap().attach(Busy { in_order, ..Busy::default() }).unwrap();
        errno::set(libc::EXDEV);
        let active = results();
        #[cfg(not(probe_portable))]
        assert_eq!(errno::get(), libc::EXDEV);
        assert_eq!(active, expected, "active");
        assert_eq!(busy.hits.load(Ordering::Relaxed), 3 * ROUNDS * hits_a_round);
        drop(busy);
        assert_eq!(results(), expected, "latent again");
    }
}

#[test]
fn across_probes_with_and_without_fields() {
    check("sites::registers::none", 1, no_field);
    check("sites::registers::one", 1, one_field);
    check("sites::registers::two", 1, two_fields);
    check("sites::registers::five", 1, five_fields);
}

#[test]
fn across_a_call_of_a_probed_function() {
    check("sites::registers::attributed", 2, calling);
}

/// Arguments and results of every kind pass by the entry's and exit's sites.
#[probe]
#[inline(never)]
#[expect(clippy::too_many_arguments, reason = "more than there are registers for")]
fn many(
    byte: u8,
    single: f32,
    word: u64,
    double: f64,
    int: i32,
    second: f64,
    wide: u128,
    array: [u64; 3],
    small: i8,
    third: f64,
    text: &str,
) -> Mixed {
    let integer =
        u64::from(byte) + word + u64::from(int.unsigned_abs()) + array[2] + u64::from(small.unsigned_abs());
    #[expect(clippy::cast_possible_truncation, reason = "a small number")]
    let integer = integer + wide as u64 + text.len() as u64;
    ([integer; LIVE], [(f64::from(single) + double + second + third).to_bits(); LIVE])
}

#[test]
fn arguments_and_results() {
    let call = || many(1, 0.5, 2, 1.5, -3, 2.5, 1 << 70 | 4, [7, 8, 5], -6, 3.5, "seven");
    let expected = ([26; LIVE], [8.0_f64.to_bits(); LIVE]);
    assert_eq!(call(), expected);
    let busy = select("sites::registers::many").unwrap().attach(Busy::default()).unwrap();
    assert_eq!(call(), expected);
    assert_eq!(busy.hits.load(Ordering::Relaxed), 2);
}
