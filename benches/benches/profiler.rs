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
    /// Of functions that were called often enough to have a rate: the one whose calls are estimated worst, and by how many percent.
    fn worst(&self) -> (&str, f64) {
        let module = self.program.probes.trim_end_matches("**");
        let off = |(name, calls): &(&'static str, u64)| {
            let truth = (calls * self.rounds) as f64;
            let estimated = self.profile.function(&format!("{module}{name}")).expect("it has probes").calls();
            (truth >= 1000.0).then_some((*name, 100.0 * (estimated.value / truth - 1.0)))
        };
        let all = self.done.calls.iter().filter_map(off);
        all.max_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs())).unwrap_or(("-", 0.0))
    }

    fn print(&self) {
        let cost = self.profile.cost();
        let each = |number: u64| number as f64 / cost.elapsed.as_secs_f64();
        let samples: u64 = self.profile.iter().map(FunctionProfile::samples).sum();
        let (hits, own) = (cost.hits.as_secs_f64(), cost.own.as_secs_f64());
        let of_used = |time: f64| 100.0 * time / cost.used.as_secs_f64();
        let (worst, off) = self.worst();
        println!(
            "{:<10} {:>9.0} {:>10.0} {:>9.0} {:>10.2} {:>9.2} {:>10.2} {:>6.0} %   {off:+.1} % ({worst})",
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
        "program    toggles/s    calls/s   timed/s slowdown %    hits %  toggle %  of cost   calls, the worst estimate"
    );
    rows.iter().for_each(Row::print);
    println!(
        "toggle %: switching, looking, waking up and going to sleep, of the CPU time; of cost: of what the profiler accounts for"
    );
}
