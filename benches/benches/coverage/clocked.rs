//! Functions whose caller knows their times by its own clock, outside of all probes: in Rust, and
//! in C with each kind of sites.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use probe_runtime::{Count, Error, probe, select};
use probe_tests::library::Library;
use probe_tests::real::CodeBase;

use super::watched::{self, EXACT};

/// The same functions in C.
pub const IN_C: CodeBase = CodeBase::of_file("clocked", concat!(env!("CARGO_MANIFEST_DIR"), "/c/clocked.c"));

const NAMES: [&str; FUNCTIONS] =
    ["clocked_inner", "clocked_middle", "clocked_outer", "clocked_short", "clocked_long"];
const FUNCTIONS: usize = 5;

type Function = extern "C" fn(u64) -> u64;

fn steps(state: u64, many: u64) -> u64 {
    let step = |state: u64, left| (state ^ state >> 29).wrapping_mul(0x5bd1_e995).wrapping_add(left);
    (0..many).rev().fold(state, step)
}

/// Some 15 ns.
#[probe]
#[inline(never)]
extern "C" fn clocked_inner(state: u64) -> u64 {
    steps(black_box(state), 8)
}

/// Some 3 µs, of which a sixth is its own.
#[probe]
#[inline(never)]
extern "C" fn clocked_middle(state: u64) -> u64 {
    steps((0..100).fold(state, |state, _| clocked_inner(state).wrapping_add(1)), 300)
}

/// Some 60 µs, of which a tenth is its own.
#[probe]
#[inline(never)]
extern "C" fn clocked_outer(state: u64) -> u64 {
    steps((0..20).fold(state, |state, _| clocked_middle(state).wrapping_add(1)), 3_000)
}

/// Some 120 ns.
#[probe]
#[inline(never)]
extern "C" fn clocked_short(state: u64) -> u64 {
    steps(black_box(state), 70)
}

/// Some 300 µs.
#[probe]
#[inline(never)]
extern "C" fn clocked_long(state: u64) -> u64 {
    steps(state, 150_000)
}

/// The times of a function by the clock.
#[derive(Clone, Copy, Default, Debug)]
struct Measured {
    calls: u64,
    /// Nanoseconds.
    total: f64,
    own: f64,
}

/// The functions in Rust.
const IN_RUST: [Function; FUNCTIONS] =
    [clocked_inner, clocked_middle, clocked_outer, clocked_short, clocked_long];

/// Returns the functions of a library.
#[expect(unsafe_code, reason = "C functions are called")]
fn of_library(library: &Library) -> [Function; FUNCTIONS] {
    let function = library.function("workload");
    // SAFETY: the library's own functions, which have this type.
    [0, 1, 2, 3, 4].map(|number| unsafe { std::mem::transmute::<u64, Function>(function(number)) })
}

/// Calls the functions, each in batches.
fn run(work: u64, functions: [Function; FUNCTIONS]) -> [Measured; FUNCTIONS] {
    /// Calls of each function in a round.
    const BATCHES: [u64; FUNCTIONS] = [1_000, 20, 2, 200, 1];
    let mut batches = [0.0; FUNCTIONS];
    let mut state = 1;
    for _ in 0..work {
        for ((function, calls), time) in functions.iter().zip(BATCHES).zip(&mut batches) {
            let began = Instant::now();
            state = (0..calls).fold(state, |state, _| function(state));
            *time += began.elapsed().as_secs_f64() * 1e9;
        }
    }
    black_box(state);
    let calls = BATCHES.map(|calls| calls * work);
    let means: [f64; FUNCTIONS] = std::array::from_fn(|of| batches[of] / calls[of] as f64);
    // Calls of a function by the next one.
    let inner = [0.0, 100.0, 20.0, 0.0, 0.0];
    let middles = calls[1] + 20 * calls[2];
    let all = [calls[0] + 100 * middles, middles, calls[2], calls[3], calls[4]];
    std::array::from_fn(|of| {
        let own = if of == 0 { means[0] } else { means[of] - inner[of] * means[of - 1] };
        Measured { calls: all[of], total: means[of] * all[of] as f64, own: own * all[of] as f64 }
    })
}

/// Runs the functions of the library at this path, or those in Rust if it is empty. The clock's
/// truth is a line for each, with the path alone as its name.
pub fn child(by: &str, probes: &str, work: u64, library: &str) -> Result<(), Error> {
    let library = (!library.is_empty()).then(|| Library::open(Path::new(library)));
    let functions = library.as_ref().map_or(IN_RUST, of_library);
    // Hook calls are discovered by their first hits, or by their second.
    run(2, functions);
    if by != watched::CLOCK {
        return watched::run(by, probes, || _ = run(work, functions));
    }
    // Hook calls are as latent as they are in a profile.
    drop(select(probes)?.attach(Count::new())?);
    for (name, it) in NAMES.iter().zip(run(work, functions)) {
        let Measured { calls, total, own } = it;
        let mean = total / calls as f64;
        println!("{name}\t{calls}\t0\t{EXACT}\t{total:.0}\t0\t{mean:.0}\t0\t{own:.0}\t0");
    }
    Ok(())
}
