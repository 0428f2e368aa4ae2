//! `attach`: a site's share in attaching to 10,000 sites and detaching, the first time in a process
//! and later. The baselines are the unavoidable work of the kernel (a copy of each page at its
//! first write, and new pages for the runtime's data), and the same switching by `pause` and
//! `resume`.
//!
//! A page is copied once in a process, so each sample is a process: this program runs itself.

// Safety: relies on pages that this program maps for itself, and on the linker, which defines both
// ends of the definitions.
#![expect(unsafe_code, reason = "see above")]

use std::collections::BTreeSet;
use std::env;
use std::fs::File;
use std::hint::black_box;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::ptr;
use std::time::Instant;

use probe_benches::table::sites;
use probe_benches::{IS_PATCHED, Scale, figure, median, pin};
use probe_runtime::{Consumer, Count, Error, Event, select};

probe_benches::generated_functions!(5_000);

const SITES: usize = 10_000;
const PAGE: usize = 4096;
/// Set in a sample's process.
const SAMPLE: &str = "PROBE_BENCHES_ATTACH_SAMPLE";

/// The steps of a sample, in the order of its output: nanoseconds a site, and the kernel's share
/// for pages.
const STEPS: [&str; 7] = [
    "first-attach", "pause-and-resume", "second-attach", "second-detach", "detach", "attach-again",
    "attach-consumer",
];

/// An empty consumer.
struct Nothing;

impl Consumer for Nothing {
    fn hit(&self, _event: &Event<'_>) {}
}

fn main() -> Result<(), Error> {
    if !IS_PATCHED {
        println!("sites are not patched in this build");
        return Ok(());
    }
    black_box(generated_first as extern "C" fn(u64) -> u64);
    if env::var_os(SAMPLE).is_some() {
        return sample();
    }
    let scale = Scale::from_args();
    let samples: Vec<Vec<f64>> = (0..scale.of(101)).map(|_| run()).collect();
    let of = |at: usize| median(samples.iter().map(|sample| sample[at]).collect());
    let switching = of(2);
    for (at, step) in STEPS.iter().enumerate() {
        let (ns, pages) = (of(2 * at), of(2 * at + 1));
        figure(
            &format!("attach/{step}"),
            format_args!("{ns:.1}"),
            "ns a site",
            ns / switching,
            "pause-and-resume",
        );
        if pages > 0.0 {
            let beyond = ns - pages;
            figure(
                &format!("attach/{step}-beyond-pages"),
                format_args!("{beyond:.1}"),
                "ns a site",
                beyond / pages,
                &format!("{pages:.1} ns for the kernel's pages"),
            );
        }
    }
    Ok(())
}

/// Runs one sample in a process.
fn run() -> Vec<f64> {
    let program = env::current_exe().expect("this program has a file");
    let output = Command::new(program).env(SAMPLE, "1").stdin(Stdio::null()).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("numbers");
    let numbers: Vec<f64> = text.split_ascii_whitespace().map(|it| it.parse().expect("a number")).collect();
    assert_eq!(numbers.len(), 2 * STEPS.len(), "two numbers for each step");
    numbers
}

/// Runs a step with this many page copies of this cost per site. Prints the time of the step, and
/// the kernel's time for pages.
fn step<T>((copied, copy_cost): (usize, f64), work: impl FnOnce() -> T) -> T {
    let (faults, start) = (page_faults(), Instant::now());
    let done = work();
    let taken = per_site(start);
    print!("{taken} {} ", copy_cost + new_pages((page_faults() - faults).saturating_sub(copied)));
    done
}

fn sample() -> Result<(), Error> {
    const NONE: (usize, f64) = (0, 0.0);
    pin(0);
    let pages = written_pages();
    let set = select("generated::**")?;
    let first = step((pages, copy_pages(pages)), || set.attach(Count::new()))?;
    assert_eq!(first.report().patched(), SITES, "{}", first.report());
    // Both together switch twice as many sites.
    let start = Instant::now();
    assert_eq!((first.pause().patched(), first.resume().patched()), (SITES, SITES));
    print!("{} 0 ", per_site(start) / 2.0);
    let second = step(NONE, || set.attach(Count::new()))?;
    assert_eq!(second.report().unchanged(), SITES, "{}", second.report());
    black_box(generated_first as extern "C" fn(u64) -> u64)(7);
    assert_eq!((first.total(), second.total()), (2, 2), "an entry and an exit");
    assert_eq!(step(NONE, || second.detach()).unchanged(), SITES);
    assert_eq!(step(NONE, || first.detach()).patched(), SITES);
    let again = step(NONE, || set.attach(Count::new()))?;
    assert_eq!(again.detach().patched(), SITES);
    let consumer = step(NONE, || set.attach(Nothing))?;
    assert_eq!(consumer.detach().patched(), SITES);
    Ok(())
}

/// Returns the number of pages that the kernel has given to this process so far.
fn page_faults() -> usize {
    // SAFETY: plain numbers, which the system fills in.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    usage.ru_minflt.try_into().expect("a count")
}

/// Returns the kernel's time for this many new pages.
fn new_pages(pages: usize) -> f64 {
    let (len, rights) = ((pages + 1) * PAGE, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new private mapping overlaps nothing, and is used here only.
    unsafe {
        let start = libc::mmap(ptr::null_mut(), len, rights, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        assert_ne!(start, libc::MAP_FAILED, "there is memory");
        let begin = Instant::now();
        for at in 0..pages {
            start.cast::<u8>().add(at * PAGE).write_volatile(1);
        }
        let taken = per_site(begin);
        libc::munmap(start, len);
        taken
    }
}

/// Returns the number of pages that a first attach writes: of text, those with sites; of data,
/// those with definitions.
fn written_pages() -> usize {
    unsafe extern "C" {
        #[link_name = "__start_linkme_PROBE_DEFINITIONS_V1"]
        static START: u8;
        #[link_name = "__stop_linkme_PROBE_DEFINITIONS_V1"]
        static STOP: u8;
    }
    let all = sites();
    assert_eq!(all.len(), SITES, "records in the table");
    let text: BTreeSet<_> = all.iter().map(|site| site.site / PAGE).collect();
    let (start, stop) = ((&raw const START).addr(), (&raw const STOP).addr());
    text.len() + (stop - 1) / PAGE - start / PAGE + 1
}

/// Returns the kernel's time to copy this many pages of this program's file. They are mapped like
/// the program, and were read before.
fn copy_pages(pages: usize) -> f64 {
    let file = File::open("/proc/self/exe").expect("this program has a file");
    let (len, rights) = (pages * PAGE, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new private mapping overlaps nothing; it lies within the file, and is used here
    // only.
    unsafe {
        let start = libc::mmap(ptr::null_mut(), len, rights, libc::MAP_PRIVATE, file.as_raw_fd(), 0);
        assert_ne!(start, libc::MAP_FAILED, "the file is mapped");
        let page = |at: usize| start.cast::<u8>().add(at * PAGE);
        for at in 0..pages {
            black_box(page(at).read_volatile());
        }
        let begin = Instant::now();
        for at in 0..pages {
            page(at).write_volatile(1);
        }
        let taken = per_site(begin);
        libc::munmap(start, len);
        taken
    }
}

fn per_site(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64 / SITES as f64
}
