//! `trace_snapshot`: whether a snapshot of a recorder of 64 MiB makes a hitting thread wait, and
//! how long it takes. The baseline is the same thread while another one writes as many bytes from
//! memory of its own, and while it sleeps.
//!
//! The thread reads the time stamp counter after each call, and keeps the distribution of the times
//! between two readings.

// Safety: relies on an instruction that touches no memory.
#![expect(unsafe_code, reason = "see above")]

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use probe_benches::{IS_PATCHED, Scale, figure, median, pin};
use probe_runtime::{Attachment, Error, Trace, probe, select};
use probe_trace::{Item, Trace as Recorded};

#[probe]
#[inline(never)]
fn step() {
    black_box(());
}

const RECORDER: usize = 64 << 20;
/// The events that the recorder holds beside the headers of its eight parts.
const HELD: u64 = (RECORDER / 8 - 8 * 16) as u64;
/// The periods of a round, and the end.
const PERIODS: [&str; 3] = ["asleep", "writing", "snapshot"];
const BETWEEN: usize = 3;
const OVER: usize = 4;

/// The number of gaps in each bucket of lengths: eight buckets a power of two.
struct Gaps {
    counts: Vec<u64>,
    longest: u64,
}

impl Gaps {
    fn new() -> Self {
        Self { counts: vec![0; 64 * 8], longest: 0 }
    }

    #[inline(always)]
    fn add(&mut self, ticks: u64) {
        let power = 63 - (ticks | 8).leading_zeros() as usize;
        let eighth = usize::try_from((ticks >> (power - 3)) & 7).unwrap_or_default();
        self.counts[power * 8 + eighth] += 1;
        self.longest = self.longest.max(ticks);
    }

    /// Returns the upper end of the bucket that has this quantile.
    fn quantile(&self, quantile: f64) -> u64 {
        let all: u64 = self.counts.iter().sum();
        let mut left = number(all) * quantile;
        for (at, count) in self.counts.iter().enumerate() {
            left -= number(*count);
            if left <= 0.0 && *count != 0 {
                return (8 + at as u64 % 8 + 1) << (at / 8 - 3);
            }
        }
        self.longest
    }
}

#[inline(always)]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

fn number(of: u64) -> f64 {
    of as f64
}

/// Calls until the end. Returns the gaps of each period, the longest gap in each of its turns, and
/// the number of calls.
fn hit(period: &AtomicUsize) -> ([Gaps; 3], [Vec<u64>; 3], u64) {
    let mut gaps = [(); 3].map(|()| Gaps::new());
    let mut longest = [(); 3].map(|()| Vec::new());
    let (mut before, mut last, mut calls) = (BETWEEN, ticks(), 0);
    loop {
        let now = period.load(Ordering::Relaxed);
        if now != before {
            if let Some(gaps) = gaps.get_mut(before) {
                longest[before].push(std::mem::take(&mut gaps.longest));
            }
            before = now;
            last = ticks();
        }
        if now == OVER {
            return (gaps, longest, calls);
        }
        step();
        calls += 1;
        let stamp = ticks();
        if let Some(gaps) = gaps.get_mut(now) {
            gaps.add(stamp.wrapping_sub(last));
        }
        last = stamp;
    }
}

/// Writes a recorder's bytes from memory of this thread.
fn write_alone(path: &Path, bytes: &[u8]) {
    let mut file = File::create(path).expect("a new file");
    bytes.chunks(RECORDER / 8).for_each(|part| file.write_all(part).expect("there is room"));
}

/// The results of all rounds.
struct Rounds {
    gaps: [Gaps; 3],
    /// The longest gap of each period, in ticks.
    longest: [Vec<u64>; 3],
    calls: u64,
    /// Milliseconds of snapshots, and of writing other memory.
    took: Vec<f64>,
    alone: Vec<f64>,
    /// The snapshots' parts of the recorder's memory.
    kept: Vec<f64>,
}

/// Takes snapshots to this file, and writes other memory to the one beside it.
fn rounds(trace: &Attachment<Trace>, path: &Path, beside: &Path, rounds: u64) -> Rounds {
    let period = AtomicUsize::new(BETWEEN);
    let bytes = vec![0x5a_u8; RECORDER];
    let (mut took, mut alone, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    let (gaps, longest, calls) = thread::scope(|scope| {
        let hits = scope.spawn(|| {
            pin(0);
            hit(&period)
        });
        // The ring has been filled once.
        while trace.totals().written < HELD {
            thread::yield_now();
        }
        for _ in 0..rounds {
            let start = Instant::now();
            period.store(1, Ordering::Relaxed);
            write_alone(beside, &bytes);
            period.store(BETWEEN, Ordering::Relaxed);
            alone.push(milliseconds(start));

            let start = Instant::now();
            period.store(2, Ordering::Relaxed);
            let totals = trace.snapshot(path).expect("there is room");
            period.store(BETWEEN, Ordering::Relaxed);
            let time = start.elapsed();
            took.push(milliseconds(start));
            assert_eq!(totals.lost, 0, "a recorder loses nothing");
            kept.push(number(fs::metadata(path).expect("it is there").len()) / number(RECORDER as u64));

            period.store(0, Ordering::Relaxed);
            thread::sleep(time);
            period.store(BETWEEN, Ordering::Relaxed);
        }
        period.store(OVER, Ordering::Relaxed);
        hits.join().expect("it only calls a function")
    });
    Rounds { gaps, longest, calls, took, alone, kept }
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

/// Prints the figures. `tick` is in nanoseconds, `quiet` in milliseconds.
fn report(rounds: Rounds, tick: f64, quiet: f64) {
    let of = |gaps: &Gaps, quantile| number(gaps.quantile(quantile)) * tick;
    for (gaps, name) in rounds.gaps.iter().zip(PERIODS) {
        let [middle, most, nearly_all, all] = [0.5, 0.99, 0.9999, 0.999_999].map(|it| of(gaps, it));
        println!(
            "{name}: a call and its reading take {middle:.0} ns in the middle, 99 % at most {most:.0}, \
             99.99 % {nearly_all:.0}, 99.9999 % {all:.0}"
        );
    }
    for (name, quantile) in [("median-gap", 0.5), ("gap-99.99", 0.9999)] {
        let ns = of(&rounds.gaps[2], quantile);
        figure(
            &format!("trace_snapshot/{name}"),
            format_args!("{ns:.0}"),
            "ns",
            ns / of(&rounds.gaps[1], quantile),
            "a thread that writes other memory",
        );
    }
    let longest = rounds.longest.map(|all| median(all.into_iter().map(number).collect()) * tick / 1e3);
    figure(
        "trace_snapshot/longest-gap",
        format_args!("{:.1}", longest[2]),
        "µs",
        longest[2] / longest[1],
        &format!(
            "{:.1} µs beside a thread that writes other memory, {:.1} µs beside one that sleeps",
            longest[1], longest[0]
        ),
    );
    let (took, alone, kept) = (median(rounds.took), median(rounds.alone), median(rounds.kept));
    for (name, ms) in [("time", took), ("time-quiet", quiet)] {
        figure(
            &format!("trace_snapshot/{name}"),
            format_args!("{ms:.1}"),
            "ms",
            ms / alone,
            &format!("{alone:.1} ms for write(2) of 64 MiB"),
        );
    }
    figure(
        "trace_snapshot/kept",
        format_args!("{:.0}", kept * 100.0),
        "% beside a thread at full speed",
        kept,
        "64 MiB",
    );
}

fn main() -> Result<(), Error> {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return Ok(());
    }
    let scale = Scale::from_args();
    let folder = Path::new("/dev/shm");
    let folder = if folder.is_dir() { folder.to_owned() } else { PathBuf::from(env!("CARGO_TARGET_TMPDIR")) };
    let path = folder.join(format!("trace-snapshot-{}.probetrace", std::process::id()));
    let beside = path.with_extension("plain");
    step();
    let recorder = Trace::recorder().ring_size(RECORDER).total_size(RECORDER);
    let trace = select("**::trace_snapshot::step")?.attach(recorder)?;
    let began = (Instant::now(), ticks());
    let rounds = rounds(&trace, &path, &beside, scale.of(31));
    let tick = began.0.elapsed().as_secs_f64() * 1e9 / number(ticks() - began.1);
    assert_eq!(trace.totals().written, 2 * rounds.calls, "each event is written");
    // No thread hits any more: the snapshot has all that the ring holds.
    let start = Instant::now();
    trace.snapshot(&path)?;
    let quiet = milliseconds(start);
    let mut read = Recorded::open(&[&path]).expect("a trace");
    let events = read.items().filter(|item| matches!(item, Ok(Item::Event(_)))).count() as u64;
    // A thread may just have begun to overwrite the oldest of the eight parts.
    assert!((HELD * 7 / 8 - 8..=HELD).contains(&events), "{events}");
    let _ = fs::remove_file(&path).and_then(|()| fs::remove_file(&beside));
    report(rounds, tick, quiet);
    Ok(())
}
