//! `trace_start`: the time to attach a trace to 10,000 probes, and to detach it, the first time in
//! a process and again. The baseline is `Count` on the same probes, in a process of its own.
//!
//! The kernel copies each page of code and of definitions once in a process, so each sample is a
//! process: this program runs itself.

use std::env;
use std::fs;
use std::hint::black_box;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use probe_benches::{IS_PATCHED, Scale, figure, median, pin};
use probe_runtime::{Attachment, Consumer, Count, Error, Trace, select};

probe_benches::generated_functions!(5_000);

const PROBES: usize = 10_000;
/// The consumer of a sample's process.
const SAMPLE: &str = "PROBE_BENCHES_TRACE_START";
/// The steps of a sample, in the order of its output.
const STEPS: [&str; 4] = ["first-attach", "first-detach", "attach-again", "detach-again"];
const CONSUMERS: [&str; 3] = ["count", "recorder", "file"];

fn main() -> Result<(), Error> {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return Ok(());
    }
    black_box(generated_first as extern "C" fn(u64) -> u64);
    if let Some(consumer) = env::var_os(SAMPLE) {
        return sample(consumer.to_str().unwrap_or_default());
    }
    let rounds = Scale::from_args().of(51);
    let mut samples = [(); 3].map(|()| Vec::new());
    for _ in 0..rounds {
        CONSUMERS.iter().zip(&mut samples).for_each(|(consumer, samples)| samples.push(run(consumer)));
    }
    let of = |consumer: usize, step: usize| median(samples[consumer].iter().map(|it| it[step]).collect());
    for (consumer, name) in CONSUMERS.iter().enumerate().skip(1) {
        for (step, what) in STEPS.iter().enumerate() {
            let ms = of(consumer, step);
            figure(
                &format!("trace_start/{name}-{what}"),
                format_args!("{ms:.2}"),
                "ms",
                ms / of(0, step),
                &format!("{:.2} ms for Count", of(0, step)),
            );
        }
        let whole = of(consumer, 0) + of(consumer, 1);
        let count = of(0, 0) + of(0, 1);
        figure(
            &format!("trace_start/{name}-first-start-and-stop"),
            format_args!("{whole:.2}"),
            "ms",
            whole / count,
            &format!("{count:.2} ms for Count"),
        );
    }
    Ok(())
}

/// Runs one sample in a process.
fn run(consumer: &str) -> Vec<f64> {
    let program = env::current_exe().expect("this program has a file");
    let output = Command::new(program).env(SAMPLE, consumer).stdin(Stdio::null()).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("numbers");
    let numbers: Vec<f64> = text.split_ascii_whitespace().map(|it| it.parse().expect("a number")).collect();
    assert_eq!(numbers.len(), STEPS.len(), "a number for each step");
    numbers
}

fn sample(consumer: &str) -> Result<(), Error> {
    pin(0);
    let path =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("start-{}.probetrace", std::process::id()));
    for _ in 0..2 {
        match consumer {
            "count" => {
                time(Count::new(), |it| assert_eq!(it.total(), 2, "an entry and an exit"))?;
            }
            "recorder" => time(Trace::recorder(), written)?,
            _ => time(Trace::to_file(&path), written)?,
        }
    }
    let _ = fs::remove_file(path);
    Ok(())
}

fn written(attached: &Attachment<Trace>) {
    let totals = attached.totals();
    assert_eq!((totals.written, totals.lost), (2, 0), "an entry and an exit");
}

/// Prints the milliseconds of attaching and of detaching. A call between them is not timed.
fn time<C: Consumer>(consumer: C, check: impl FnOnce(&Attachment<C>)) -> Result<(), Error> {
    let set = select("generated::**")?;
    let start = Instant::now();
    let attached = set.attach(consumer)?;
    print!("{} ", milliseconds(start));
    assert_eq!(attached.report().patched(), PROBES, "{}", attached.report());
    black_box(generated_first as extern "C" fn(u64) -> u64)(7);
    check(&attached);
    let start = Instant::now();
    assert_eq!(attached.detach().patched(), PROBES);
    println!("{}", milliseconds(start));
    Ok(())
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
