//! `profiler`: what sampling costs at its defaults, on programs all of whose functions have probes, with toggles and samples a second, and what
//! of the slowdown switching makes: Table 3 of the paper. CPU time of all threads, the profiler's own among them, beside the same program
//! with nobody attached. And how far off its estimates are, of calls that the program counts itself.

use std::hint::black_box;
use std::thread;
use std::time::Duration;

use probe_benches::{Case, Scale, figure, interleave, process_ns};
use probe_runtime::{Attachment, Profile, Profiler, TextPolicy, select};

/// Five bodies, step by step (after the Computer Language Benchmarks Game).
mod nbody {
    use probe_runtime::probe;

    #[derive(Clone, Copy)]
    pub struct Body {
        at: [f64; 3],
        speed: [f64; 3],
        mass: f64,
    }

    #[probe]
    #[inline(never)]
    pub fn bodies() -> [Body; 5] {
        std::array::from_fn(|n| {
            let n = f64::from(u8::try_from(n).unwrap_or_default());
            Body { at: [3.0 * n, n * n - 2.0, 0.5 - n], speed: [0.1, 0.02 * n, -0.01], mass: 1.0 / (1.0 + n) }
        })
    }

    #[probe]
    #[inline(never)]
    fn attract(one: &mut Body, other: &mut Body, time: f64) {
        let apart: [f64; 3] = std::array::from_fn(|n| one.at[n] - other.at[n]);
        let square: f64 = apart.iter().map(|d| d * d).sum::<f64>() + 0.01;
        let force = time / (square * square.sqrt());
        for (n, apart) in apart.into_iter().enumerate() {
            one.speed[n] -= apart * other.mass * force;
            other.speed[n] += apart * one.mass * force;
        }
    }

    #[probe]
    #[inline(never)]
    fn advance(bodies: &mut [Body; 5], time: f64) {
        for one in 0..5 {
            let (left, right) = bodies.split_at_mut(one + 1);
            right.iter_mut().for_each(|other| attract(&mut left[one], other, time));
        }
        for body in bodies {
            (0..3).for_each(|n| body.at[n] += time * body.speed[n]);
        }
    }

    #[probe]
    #[inline(never)]
    fn energy(bodies: &[Body; 5]) -> f64 {
        bodies.iter().map(|body| 0.5 * body.mass * body.speed.iter().map(|v| v * v).sum::<f64>()).sum()
    }

    /// Calls of `attract` for each step.
    pub const ATTRACTIONS: u64 = 10;

    #[probe]
    #[inline(never)]
    pub fn run(steps: u64) -> f64 {
        let mut bodies = bodies();
        (0..steps).for_each(|_| advance(&mut bodies, 0.001));
        energy(&bodies)
    }
}

/// Prices of options (Black and Scholes), one after the other.
mod options {
    use probe_runtime::probe;

    /// The normal distribution, Abramowitz and Stegun 26.2.17.
    #[probe]
    #[inline(never)]
    fn normal(x: f64) -> f64 {
        let k = 1.0 / (1.0 + 0.231_641_9 * x.abs());
        let poly = [0.319_381_53, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
        let sum = poly.iter().rev().fold(0.0, |sum, c| (sum + c) * k);
        let tail = (-0.5 * x * x).exp() * 0.398_942_28 * sum;
        if x < 0.0 { tail } else { 1.0 - tail }
    }

    /// Calls of `normal` for each price.
    pub const DISTRIBUTIONS: u64 = 4;

    #[probe]
    #[inline(never)]
    fn price(spot: f64, strike: f64, years: f64) -> (f64, f64) {
        let (rate, volatility) = (0.03_f64, 0.25_f64);
        let spread = volatility * years.sqrt();
        let d1 = ((spot / strike).ln() + (rate + 0.5 * volatility * volatility) * years) / spread;
        let (d2, discounted) = (d1 - spread, strike * (-rate * years).exp());
        let call = spot * normal(d1) - discounted * normal(d2);
        let put = discounted * normal(-d2) - spot * normal(-d1);
        (call, put)
    }

    #[probe]
    #[inline(never)]
    pub fn run(prices: u64) -> f64 {
        let one = |n: u64| {
            let n = f64::from(u32::try_from(n % 1000).unwrap_or_default());
            let (call, put) = price(80.0 + n / 25.0, 100.0, 0.1 + n / 500.0);
            call + put
        };
        (0..prices).map(one).sum()
    }
}

struct Program {
    name: &'static str,
    selector: &'static str,
    run: fn(u64) -> f64,
    /// What `run` is to do, in some 100 ms, and the calls that it makes of one function for each of it.
    work: u64,
    busiest: (&'static str, u64),
}

const PROGRAMS: [Program; 2] = [
    Program {
        name: "nbody",
        selector: "profiler::nbody::**",
        run: nbody::run,
        work: 600_000,
        busiest: ("profiler::nbody::attract", nbody::ATTRACTIONS),
    },
    Program {
        name: "options",
        selector: "profiler::options::**",
        run: options::run,
        work: 1_000_000,
        busiest: ("profiler::options::normal", options::DISTRIBUTIONS),
    },
];

fn attach(program: &Program) -> Attachment<Profiler> {
    let set = select(program.selector).expect("its probes").text(TextPolicy::Open);
    set.attach(Profiler::new()).expect("nothing else is attached")
}

#[expect(clippy::cast_precision_loss, reason = "a rate")]
fn rates(program: &Program, profile: &Profile, calls: u64) {
    let cost = profile.cost();
    let elapsed = cost.elapsed.as_secs_f64();
    let samples: u64 = profile.iter().map(probe_runtime::FunctionProfile::samples).sum();
    let each = |number: u64| number as f64 / elapsed;
    println!(
        "profiler/{}: {:.0} toggles/s, {:.0} calls/s timed, {:.0} calls/s seen; accounted: {:.2} % in hits, {:.2} % in switching and looking",
        program.name,
        each(cost.toggles),
        each(samples),
        each(cost.calls),
        100.0 * cost.hits.as_secs_f64() / cost.used.as_secs_f64(),
        100.0 * cost.own.as_secs_f64() / cost.used.as_secs_f64(),
    );
    let (path, _) = program.busiest;
    let estimated = profile.function(path).expect("it has probes").calls();
    let off = 100.0 * (estimated.value / calls as f64 - 1.0);
    println!(
        "profiler/{}: {path}: {:.0} ± {:.0} calls, {off:+.1} % of {calls}",
        program.name, estimated.value, estimated.error
    );
}

fn measure(program: &Program, scale: Scale) {
    let work = scale.of(program.work);
    let run = || {
        let start = process_ns();
        black_box((program.run)(black_box(work)));
        process_ns() - start
    };
    let mut cases = [
        Case::given("latent", run),
        Case::given("profiled", || {
            let attached = attach(program);
            // What it costs to begin is not what it costs to go on.
            (program.run)(work / 2);
            let spent = run();
            drop(attached);
            spent
        }),
    ];
    let medians = interleave(scale.of(41), &mut cases);
    let ratio = medians.ratio("profiled", "latent");
    let name = format!("profiler/{}", program.name);
    figure(&name, format_args!("{:.2}", 100.0 * (ratio - 1.0)), "% slower", ratio, "latent");

    let attached = attach(program);
    let rounds = scale.of(20);
    for _ in 0..rounds {
        black_box((program.run)(black_box(work)));
    }
    let profile = attached.profile();
    rates(program, &profile, rounds * work * program.busiest.1);
    println!("{attached}");
}

fn main() {
    let scale = Scale::from_args();
    thread::sleep(Duration::from_millis(20));
    PROGRAMS.iter().for_each(|program| measure(program, scale));
}
