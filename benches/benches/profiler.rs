//! `profiler`: what sampling costs at its defaults, on real programs of several threads, all of whose functions have probes: Table 3 of the
//! paper. CPU time of all threads, the profiler's own among them, beside the same program with nobody attached; toggles and samples a
//! second; what of the slowdown switching makes. And how far off the estimates are, of calls that the programs know.

use std::hint::black_box;

use probe_benches::{Case, IS_PATCHED, Scale, figure, interleave, process_ns, processors};
use probe_examples::programs::{ALL, Done, Program};
use probe_runtime::{Attachment, FunctionProfile, Profile, Profiler, TextPolicy, select};

/// What became of a program.
struct Row {
    program: Program,
    slowdown: f64,
    profile: Profile,
    done: Done,
    rounds: u64,
}

fn attach(program: &Program) -> Attachment<Profiler> {
    let set = select(program.probes).expect("its probes").text(TextPolicy::Open);
    set.attach(Profiler::new()).expect("nothing else is attached")
}

fn measure(program: Program, scale: Scale) -> Row {
    let (work, threads) = (scale.of(program.work), processors());
    let run = || {
        let start = process_ns();
        black_box((program.run)(black_box(work), threads));
        process_ns() - start
    };
    let mut cases = [
        Case::given("latent", run),
        Case::given("profiled", || {
            let attached = attach(&program);
            // What it costs to begin is not what it costs to go on.
            (program.run)(work.div_ceil(2), threads);
            let spent = run();
            drop(attached);
            spent
        }),
    ];
    let medians = interleave(scale.of(41), &mut cases);
    let ratio = medians.ratio("profiled", "latent");
    let slowdown = 100.0 * (ratio - 1.0);
    figure(&format!("profiler/{}", program.name), format_args!("{slowdown:.2}"), "% slower", ratio, "latent");

    let attached = attach(&program);
    let rounds = scale.of(30);
    (1..rounds).for_each(|_| {
        black_box((program.run)(black_box(work), threads));
    });
    let done = (program.run)(work, threads);
    let profile = attached.profile();
    println!("{attached}\n");
    Row { program, slowdown, profile, done, rounds }
}

#[expect(clippy::cast_precision_loss, reason = "rates, and far fewer calls than 2^52")]
impl Row {
    /// Of the function that is called most: its name, and by how many percent its calls are estimated wrongly. Then, of all that were called a
    /// thousand times: how many are within the error that the profiler says, and how many there are.
    fn estimates(&self) -> (&str, f64, usize, usize) {
        let module = self.program.probes.trim_end_matches("**");
        let estimate = |(name, calls): &(&'static str, u64)| {
            let truth = (calls * self.rounds) as f64;
            let estimated = self.profile.function(&format!("{module}{name}")).expect("it has probes").calls();
            let is_within = (estimated.value - truth).abs() <= estimated.error.max(1.0);
            (*name, truth, 100.0 * (estimated.value / truth - 1.0), is_within)
        };
        let called = self.done.calls.iter().map(estimate).filter(|(_, truth, ..)| *truth >= 1000.0);
        let called: Vec<_> = called.collect();
        let within = called.iter().filter(|(.., is_within)| *is_within).count();
        let busiest = called.iter().max_by(|(_, a, ..), (_, b, ..)| a.total_cmp(b));
        busiest.map_or(("-", 0.0, 0, 0), |(name, _, off, _)| (*name, *off, within, called.len()))
    }

    fn print(&self) {
        let cost = self.profile.cost();
        let each = |number: u64| number as f64 / cost.elapsed.as_secs_f64();
        let samples: u64 = self.profile.iter().map(FunctionProfile::samples).sum();
        let (hits, own) = (cost.hits.as_secs_f64(), cost.own.as_secs_f64());
        let of_used = |time: f64| 100.0 * time / cost.used.as_secs_f64();
        let (busiest, off, within, called) = self.estimates();
        println!(
            "{:<10} {:>9.0} {:>10.0} {:>9.0} {:>10.2} {:>9.2} {:>10.2} {:>6.0} %   {within:>2} of {called:<2}   {off:+.1} % ({busiest})",
            self.program.name,
            each(cost.toggles),
            each(cost.calls),
            each(samples),
            self.slowdown,
            of_used(hits),
            of_used(own),
            100.0 * own / (hits + own),
        );
    }
}

fn main() {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return;
    }
    let scale = Scale::from_args();
    let rows = ALL.map(|program| measure(program, scale));
    println!(
        "program    toggles/s    calls/s   timed/s slowdown %    hits %  toggle %  of cost   within error   calls of the busiest"
    );
    rows.iter().for_each(Row::print);
    println!(
        "toggle %: switching, looking, waking up and going to sleep, of the CPU time; of cost: of what the profiler accounts for"
    );
}
