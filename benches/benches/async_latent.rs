//! `async_latent`: the cost of a latent future, beside a bare future and disabled ones of `tracing`
//! and `fastrace`. It measures time, and instructions, which callgrind counts.

use std::env;

use probe_benches::yielding::YIELDS;
use probe_benches::{Case, Scale, callgrind, figure, interleave, pin, timing, yielding};
use probe_runtime::probe;

/// Defines the same future in eight functions. The address of its code affects the time of so short
/// a loop by a quarter, which is more than the cost of probes.
macro_rules! in_eight_places {
    ($name:ident, [$($attribute:tt)*]) => {
        mod $name {
            in_eight_places!(@ [a b c d e f g h] [$($attribute)*]);
        }
    };
    (@ [$($place:ident)*] $attribute:tt) => {
        $(in_eight_places!(@ $place $attribute);)*

        pub fn drive(times: u64) {
            $($place::drive(times / 8);)*
        }

        pub fn size() -> usize {
            a::size()
        }
    };
    (@ $place:ident [$($attribute:tt)*]) => {
        mod $place {
            use super::super::*;

            yielding!($($attribute)* future);

            pub fn drive(times: u64) {
                (0..times).for_each(|_| yielding::drive(future(YIELDS)));
            }

            #[allow(dead_code, reason = "the size is asked for in one place")]
            pub fn size() -> usize {
                size_of_val(&future(0))
            }
        }
    };
}

in_eight_places!(bare, []);
in_eight_places!(bare_again, []);
in_eight_places!(probed, [#[probe]]);
in_eight_places!(instrumented, [#[tracing::instrument(level = "trace")]]);
in_eight_places!(traced, [#[fastrace::trace]]);

/// Variables with the only case that this process runs, and the number of times.
const COUNTED: [&str; 2] = ["PROBE_BENCH_CASE", "PROBE_BENCH_TIMES"];

/// Drives this many futures.
type Drive = fn(u64);

const CASES: [(&str, Drive); 5] = [
    ("bare", bare::drive),
    ("bare-again", bare_again::drive),
    ("probe", probed::drive),
    ("tracing", instrumented::drive),
    ("fastrace", traced::drive),
];

fn main() {
    if let [Ok(case), Ok(times)] = COUNTED.map(env::var) {
        let (_, drive) = CASES.iter().find(|it| it.0 == case).expect("one of the cases");
        return counted_futures(*drive, times.parse().expect("a number"));
    }
    let scale = Scale::from_args();
    assert_eq!(bare::size(), probed::size(), "nothing is added to the future");
    for (name, size) in [
        ("bare", bare::size()),
        ("bare-again", bare_again::size()),
        ("probe", probed::size()),
        ("tracing", instrumented::size()),
        ("fastrace", traced::size()),
    ] {
        println!("size of a future, {name}: {size} bytes");
    }
    if callgrind::is_there() {
        count(scale);
    }
    time(scale);
}

/// The function in which callgrind counts. `fastrace` measures the clock when the program starts,
/// which must not count.
#[inline(never)]
fn counted_futures(drive: Drive, times: u64) {
    drive(times);
}

/// Counts instructions from a future's creation to its end, ten polls.
fn count(scale: Scale) {
    let program = env::current_exe().expect("the bench's own file");
    let futures = scale.of(10_000);
    let run = |case: &str, times: u64| {
        let variables = [(COUNTED[0], case), (COUNTED[1], &times.to_string())];
        callgrind::instructions(&program, &[], &variables, Some("counted_futures")).0
    };
    let each = CASES.map(|(case, _)| run(case, futures) as f64 / futures as f64);
    for ((case, _), instructions) in CASES.iter().zip(each) {
        let value = format_args!("{instructions:.1}");
        figure(
            &format!("async_latent/{case}-instructions"),
            value,
            "instructions",
            instructions / each[0],
            "bare",
        );
    }
}

/// Measures nanoseconds.
fn time(scale: Scale) {
    pin(0);
    let futures = scale.of(5_000);
    let medians =
        interleave(scale.of(2_000), &mut CASES.map(|(name, drive)| Case::new(name, futures, drive)));
    for case in medians.names() {
        timing("async_latent", &medians, case, "bare");
    }
}
