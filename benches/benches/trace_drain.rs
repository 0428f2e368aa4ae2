//! `trace_drain`: events a second that a trace writes without loss, and their bytes in the file.
//! The baseline is write(2) of as many bytes, from one buffer, to a file beside it.
//!
//! One thread hits at a given rate; the trace's own thread has the other processor. A rate holds if
//! no try loses an event. The file of each try tells how many events it has.

use std::env;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use probe_benches::{IS_PATCHED, Scale, figure, median, pin, process_ns, processors, thread_ns};
use probe_runtime::trace::TraceTotals;
use probe_runtime::{Error, Trace, probe, select};
use probe_trace::{Item, Trace as Recorded};

#[probe]
#[inline(never)]
fn step() {
    black_box(());
}

/// Events of a call.
const EVENTS: u64 = 2;
/// Calls between two readings of the clock.
const BATCH: u64 = 100;
/// Rates in million events a second; the last one is as fast as the thread can.
const RATES: [u64; 9] = [5, 10, 20, 30, 40, 50, 60, 70, u64::MAX];
/// Bytes of the default ring's parts, which are written at once.
const PART: usize = 512 << 10;

/// The result of one try.
struct Try {
    totals: TraceTotals,
    seconds: f64,
    /// Processor time of the trace's own thread, in nanoseconds.
    own: u64,
    /// That of the thread that hits.
    hit: u64,
    bytes: u64,
}

/// Calls `step` this often, at most at this rate. Returns the time that it took.
fn call(calls: u64, million: u64) -> Duration {
    let start = Instant::now();
    let mut done = 0;
    while done < calls {
        (0..BATCH).for_each(|_| step());
        done += BATCH;
        // A million a second is a thousand in a millisecond.
        let due = Duration::from_nanos(done * EVENTS * 1000 / million);
        while start.elapsed() < due {
            std::hint::spin_loop();
        }
    }
    start.elapsed()
}

/// Traces this many calls to a file, and checks that each event is written or lost.
fn run(path: &Path, trace: Trace, calls: u64, million: u64) -> Result<Try, Error> {
    let before = process_ns();
    let attached = select("**::trace_drain::step")?.attach(trace)?;
    let (took, hit) = thread::scope(|scope| {
        let hits = scope.spawn(|| {
            pin(0);
            let before = thread_ns();
            (call(calls, million), thread_ns() - before)
        });
        hits.join().expect("it only calls a function")
    });
    let totals = attached.finish()?;
    let own = (process_ns() - before).saturating_sub(hit);
    assert_eq!(totals.written + totals.lost, calls * EVENTS, "each event is written or lost");
    let told = Recorded::open(&[path]).expect("a trace").totals().expect("it is closed");
    assert_eq!((told.written, told.lost()), (totals.written, totals.lost), "the file has them");
    let bytes = fs::metadata(path).expect("it is there").len();
    Ok(Try { totals, seconds: took.as_secs_f64(), own, hit, bytes })
}

/// Writes as many bytes as a trace does. Returns the elapsed nanoseconds, and the nanoseconds of
/// processor time.
fn write_alone(path: &Path, bytes: u64) -> (f64, f64) {
    let part = vec![0x5a_u8; PART];
    let mut file = File::create(path).expect("a new file");
    let (start, before) = (Instant::now(), thread_ns());
    for _ in 0..bytes.div_ceil(PART as u64) {
        file.write_all(&part).expect("there is room");
    }
    (nanoseconds(start.elapsed()), number(thread_ns() - before))
}

fn number(of: u64) -> f64 {
    of as f64
}

fn nanoseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// Finds the rates at which a file in this folder loses no event.
fn measure(name: &str, folder: &Path, scale: Scale) -> Result<(), Error> {
    let path = folder.join(format!("trace-drain-{}.probetrace", std::process::id()));
    let beside = path.with_extension("plain");
    let calls = scale.of(10_000_000).max(BATCH);
    let calls = calls.next_multiple_of(BATCH);
    let bytes = calls * EVENTS * 8;
    let [mut alone, mut alone_cpu, mut own, mut hit] = [(); 4].map(|()| Vec::new());
    let mut kept = None;
    let mut is_kept_so_far = true;
    for million in RATES {
        let (mut lost, mut emitted, mut rates) = (0, 0, Vec::new());
        for _ in 0..scale.of(5) {
            let (wall, cpu) = write_alone(&beside, bytes);
            alone.push(wall / number(calls * EVENTS));
            alone_cpu.push(cpu / number(calls * EVENTS));
            let tried = run(&path, Trace::to_file(&path), calls, million)?;
            lost += tried.totals.lost;
            emitted += calls * EVENTS;
            rates.push(number(calls * EVENTS) / tried.seconds / 1e6);
            if million == 20 {
                own.push(number(tried.own) / number(calls * EVENTS));
            } else if million == u64::MAX {
                hit.push(number(tried.hit) / number(calls * EVENTS));
            }
        }
        let rate = median(rates);
        println!("{name}: {rate:.1} million events a second: {lost} of {emitted} lost");
        is_kept_so_far &= lost == 0;
        if is_kept_so_far {
            kept = Some(rate);
        }
    }
    let _ = fs::remove_file(&path).and_then(|()| fs::remove_file(&beside));
    let bound = median(alone);
    figure(
        &format!("trace_drain/{name}"),
        format_args!("{:.1}", kept.unwrap_or_default()),
        "million events a second without loss",
        kept.unwrap_or_default() * bound / 1e3,
        &format!("{:.1}, the rate of write(2)", 1e3 / bound),
    );
    let (own, alone_cpu, hit) = (median(own), median(alone_cpu), median(hit));
    figure(
        &format!("trace_drain/{name}-thread"),
        format_args!("{own:.2}"),
        "ns of processor time an event",
        own / alone_cpu,
        &format!("{alone_cpu:.2} ns for write(2)"),
    );
    println!(
        "{name}: the limit is {:.0} million events a second for the trace's thread, {:.0} for the one that hits",
        1e3 / own,
        1e3 / hit
    );
    Ok(())
}

/// Prints the bytes of a file divided by its events, which are bare.
fn size(name: &str, folder: &Path, ring: Option<usize>, scale: Scale) -> Result<(), Error> {
    let path = folder.join(format!("trace-size-{}.probetrace", std::process::id()));
    let calls = scale.of(1_000_000).next_multiple_of(BATCH);
    let trace = Trace::to_file(&path);
    let trace = if let Some(ring) = ring { trace.ring_size(ring) } else { trace };
    // A rate at which the smallest ring does not fill up in a sleep.
    let Try { totals, bytes, .. } = run(&path, trace, calls, if ring.is_some() { 1 } else { 10 })?;
    let mut trace = Recorded::open(&[&path]).expect("a trace");
    let events = trace.items().filter(|item| matches!(item, Ok(Item::Event(_)))).count() as u64;
    assert_eq!(events, totals.written, "the reader finds what was written");
    let _ = fs::remove_file(&path);
    let each = number(bytes) / number(events);
    figure(&format!("trace_drain/{name}"), format_args!("{each:.3}"), "bytes an event", each / 8.0, "a word");
    Ok(())
}

/// Prints the processor time of the trace's thread while no thread hits.
fn idle(folder: &Path, scale: Scale) -> Result<(), Error> {
    let path = folder.join(format!("trace-idle-{}.probetrace", std::process::id()));
    let attached = select("**::trace_drain::step")?.attach(Trace::to_file(&path))?;
    step();
    let (start, before) = (Instant::now(), process_ns());
    thread::sleep(Duration::from_millis(scale.of(2_000)));
    let part = number(process_ns() - before) / nanoseconds(start.elapsed());
    let totals = attached.finish()?;
    assert_eq!((totals.written, totals.lost), (EVENTS, 0));
    let _ = fs::remove_file(&path);
    figure("trace_drain/idle", format_args!("{:.2}", 100.0 * part), "%", part, "a processor");
    Ok(())
}

fn main() -> Result<(), Error> {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return Ok(());
    }
    let scale = Scale::from_args();
    // A thread inherits the processors of the thread that starts it.
    println!("{} processors", processors());
    step();
    let disk = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    idle(&disk, scale)?;
    size("size", &disk, None, scale)?;
    size("size-ring-of-4-kib", &disk, Some(4096), scale)?;
    let asked = env::var_os("PROBE_BENCH_FOLDER").map(PathBuf::from);
    let memory = Path::new("/dev/shm");
    if let Some(folder) = asked {
        return measure("asked", &folder, scale);
    }
    if memory.is_dir() {
        measure("memory", memory, scale)?;
    }
    measure("disk", &disk, scale)
}
