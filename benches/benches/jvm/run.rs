//! Prints the JVM's lines as figures, each beside the figure of `patch::call`.

use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;
use std::io::ErrorKind;
use std::process::Command;
use std::time::Instant;

use probe_benches::ticks::ticks_per_second;
use probe_benches::toggled::Toggled;
use probe_benches::toggling::{self, Rate};
use probe_benches::{Scale, figure, median, pin};
use probe_runtime::patch::PatchError;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/java/CallSites.java");
/// The rates in `CallSites.java`, where 0 means full speed.
const RATES: [(&str, Rate); 5] = [
    ("1000", Rate::PerSecond(1_000)),
    ("10000", Rate::PerSecond(10_000)),
    ("100000", Rate::PerSecond(100_000)),
    ("1000000", Rate::PerSecond(1_000_000)),
    ("0", Rate::FlatOut),
];

pub fn run() -> Result<(), Box<dyn Error>> {
    let scale = Scale::from_args();
    let Some(jvm) = Jvm::run(scale)? else {
        println!("there is no `java` here: skipped");
        return Ok(());
    };
    println!("{}", jvm.version);
    pin(0);
    let own = Toggled::call();
    switches(scale, &jvm, own)?;
    calls(scale, &jvm, own)?;
    throughput(scale, &jvm, own)
}

/// Measures idle activation and deactivation.
fn switches(scale: Scale, jvm: &Jvm, own: Toggled) -> Result<(), Box<dyn Error>> {
    let pairs = scale.of(10_000);
    for (name, first) in [("activate", false), ("deactivate", true)] {
        let samples = (0..scale.of(301)).map(|_| pair_after(own, pairs, first));
        // Each sample has as many switches of the other kind, at the same cost: both are one write
        // of one word.
        let ns = median(samples.collect::<Result<_, _>>()?);
        figure(&format!("jvm/callpatch-{name}"), format_args!("{ns:.1}"), "ns", 1.0, "itself");
        for kind in ["mutable", "volatile"] {
            let theirs = jvm.number(&format!("{name} {kind}"), 0)?;
            figure(
                &format!("jvm/{kind}-{name}"),
                format_args!("{theirs:.1}"),
                "ns",
                theirs / ns,
                "callpatch",
            );
        }
    }
    Ok(())
}

/// Returns the nanoseconds a switch, in pairs that begin with one direction.
fn pair_after(own: Toggled, pairs: u64, is_on: bool) -> Result<f64, PatchError> {
    own.set(is_on)?;
    let start = Instant::now();
    for _ in 0..pairs {
        own.set(!is_on)?;
        own.set(is_on)?;
    }
    Ok(ns_each(start, 2 * pairs))
}

/// Measures a call of an active site, without its loop.
fn calls(scale: Scale, jvm: &Jvm, own: Toggled) -> Result<(), Box<dyn Error>> {
    own.set(true)?;
    let count = scale.of(200_000);
    let function = black_box(own.code.function());
    // The same chain as in the JVM's loop.
    let mix = |state: u64, value: u32| {
        state.wrapping_add(u64::from(value)).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1)
    };
    let sample = |is_called: bool| {
        let start = Instant::now();
        let mut state = 1;
        for _ in 0..count {
            state = mix(state, if is_called { function() } else { black_box(1) });
        }
        black_box(state);
        ns_each(start, count)
    };
    let (mut bare, mut called) = (Vec::new(), Vec::new());
    for _ in 0..scale.of(101) {
        bare.push(sample(false));
        called.push(sample(true));
    }
    let ns = median(called);
    figure("jvm/callpatch-call", format_args!("{ns:.2}"), "ns", ns / median(bare), "the loop without a call");
    let bare = jvm.number("loop", 0)?;
    for kind in ["mutable", "volatile"] {
        let theirs = jvm.number(&format!("call {kind}"), 0)?;
        figure(
            &format!("jvm/{kind}-call"),
            format_args!("{theirs:.2}"),
            "ns",
            theirs / bare,
            "the JVM's loop without a call",
        );
    }
    Ok(())
}

/// Measures one executor beside a patcher.
fn throughput(scale: Scale, jvm: &Jvm, own: Toggled) -> Result<(), Box<dyn Error>> {
    let second = ticks_per_second();
    let time = if scale == Scale::Full { second * 6 / 1_000 } else { second / 1_000 };
    let rounds = scale.of(25);
    let run = |rate| {
        let runs = (0..rounds)
            .map(|_| toggling::run_undisturbed(own.code, 1, rate, (time, second), |on| own.set(on)));
        runs.collect::<Result<Vec<_>, _>>()
    };
    let mut still = Vec::new();
    for is_on in [false, true] {
        own.set(is_on)?;
        still.push(median(run(Rate::PerSecond(0))?.iter().map(|run| run.calls_per_second).collect()));
    }
    let still = f64::midpoint(still[0], still[1]);
    for (asked, rate) in RATES {
        let runs = run(rate)?;
        let of = |part: fn(&toggling::Run) -> f64| median(runs.iter().map(part).collect());
        let share = own.share_on(of(|run| run.mean));
        print_rate(
            "callpatch",
            rate,
            still,
            [of(|run| run.toggles_per_second), of(|run| run.calls_per_second), share],
        );
        for kind in ["mutable", "volatile"] {
            let words = format!("toggled {kind} {asked}");
            let values = [jvm.number(&words, 0)?, jvm.number(&words, 1)?, jvm.number(&words, 2)?];
            print_rate(kind, rate, jvm.number(&format!("still {kind}"), 0)?, values);
        }
    }
    Ok(())
}

fn print_rate(name: &str, rate: Rate, still: f64, [toggles, calls, share]: [f64; 3]) {
    let rate = rate.to_string().replace(' ', "-");
    figure(
        &format!("jvm/{name}-throughput-{rate}"),
        format_args!("{:.2}", calls / 1e6),
        "million calls a second",
        calls / still,
        &format!("still; {toggles:.0} toggles a second, {:.1} % of the calls saw it on", 100.0 * share),
    );
}

fn ns_each(start: Instant, count: u64) -> f64 {
    start.elapsed().as_nanos() as f64 / count as f64
}

/// The JVM's output: numbers, by the words before them.
struct Jvm {
    version: String,
    numbers: BTreeMap<String, Vec<f64>>,
}

impl Jvm {
    /// Runs the source; `None` without `java`.
    fn run(scale: Scale) -> Result<Option<Self>, Box<dyn Error>> {
        let version = match Command::new("java").arg("-version").output() {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            output => String::from_utf8_lossy(&output?.stderr).lines().next().unwrap_or_default().to_owned(),
        };
        let mut command = Command::new("java");
        command.arg(SOURCE);
        if scale == Scale::Smoke {
            command.arg("--smoke");
        }
        let output = command.output()?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(format!("java {SOURCE}: {}; {}", output.status, stderr.trim()).into());
        }
        let mut numbers = BTreeMap::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let words: Vec<_> = line.split(' ').collect();
            // `toggled KIND RATE` contains a number among its words.
            let names = match words[0] {
                "loop" => 1,
                "toggled" => 3,
                _ => 2,
            };
            let (names, values) = words.split_at(names.min(words.len()));
            let values: Result<Vec<f64>, _> = values.iter().map(|value| value.parse()).collect();
            numbers
                .insert(names.join(" "), values.map_err(|error| format!("java printed `{line}`: {error}"))?);
        }
        Ok(Some(Self { version, numbers }))
    }

    fn number(&self, words: &str, nth: usize) -> Result<f64, String> {
        let values = self.numbers.get(words).and_then(|values| values.get(nth));
        values.copied().ok_or_else(|| format!("java did not print `{words}`"))
    }
}
