//! `attach`: a site's share in attaching to 10,000 sites and detaching, the first time in a process and later, beside what can't be
//! avoided: the kernel's copy of each page that is written first, and the same switching by `pause` and `resume`.
//!
//! A page is copied once in a process, so each sample is a process: this program again.

// Safety: relies on pages that this program maps for itself, and on the linker, which defines the definitions' two ends.
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

/// What a sample tells, in this order.
const STEPS: [&str; 8] = [
    "page-copies",
    "first-attach",
    "pause-and-resume",
    "second-attach",
    "second-detach",
    "detach",
    "attach-again",
    "attach-consumer",
];

/// A consumer of one's own.
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
    let samples: Vec<[f64; STEPS.len()]> = (0..scale.of(101)).map(|_| run()).collect();
    let of = |step: &str| {
        let at = STEPS.iter().position(|name| *name == step).expect("one of the steps");
        median(samples.iter().map(|sample| sample[at]).collect())
    };
    let (copies, switching) = (of("page-copies"), of("pause-and-resume"));
    for step in STEPS {
        figure(
            &format!("attach/{step}"),
            format_args!("{:.1}", of(step)),
            "ns a site",
            of(step) / switching,
            "pause-and-resume",
        );
    }
    let beyond = of("first-attach") - copies;
    figure(
        "attach",
        format_args!("{beyond:.1}"),
        "ns a site beyond the page copies",
        beyond / copies,
        "page-copies",
    );
    Ok(())
}

/// One process; nanoseconds a site of each step.
fn run() -> [f64; STEPS.len()] {
    let program = env::current_exe().expect("this program has a file");
    let output = Command::new(program).env(SAMPLE, "1").stdin(Stdio::null()).output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("numbers");
    let numbers: Vec<f64> = text.split_ascii_whitespace().map(|it| it.parse().expect("a number")).collect();
    numbers.try_into().expect("a number for each step")
}

fn sample() -> Result<(), Error> {
    pin(0);
    let pages = written_pages();
    let set = select("generated::**")?;
    let mut taken = vec![copy_pages(pages)];
    let mut step = |start: Instant| taken.push(per_site(start));

    let start = Instant::now();
    let first = set.attach(Count::new())?;
    step(start);
    assert_eq!(first.report().patched(), SITES, "{}", first.report());

    let start = Instant::now();
    for _ in 0..5 {
        assert_eq!((first.pause().patched(), first.resume().patched()), (SITES, SITES));
    }
    taken.push(per_site(start) / 10.0);
    let mut step = |start: Instant| taken.push(per_site(start));

    let start = Instant::now();
    let second = set.attach(Count::new())?;
    step(start);
    assert_eq!(second.report().unchanged(), SITES, "{}", second.report());
    black_box(generated_first as extern "C" fn(u64) -> u64)(7);
    assert_eq!((first.total(), second.total()), (2, 2), "an entry and an exit");

    let start = Instant::now();
    assert_eq!(second.detach().unchanged(), SITES);
    step(start);

    let start = Instant::now();
    assert_eq!(first.detach().patched(), SITES);
    step(start);

    let start = Instant::now();
    let again = set.attach(Count::new())?;
    step(start);
    assert_eq!(again.detach().patched(), SITES);

    let start = Instant::now();
    let consumer = set.attach(Nothing)?;
    step(start);
    assert_eq!(consumer.detach().patched(), SITES);

    for taken in taken {
        print!("{taken} ");
    }
    Ok(())
}

/// How many pages a first attach writes: of text, those with sites; of data, those with definitions.
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

/// What the kernel takes to copy as many pages of this program's file, mapped as the program is, and read before.
fn copy_pages(pages: usize) -> f64 {
    let file = File::open("/proc/self/exe").expect("this program has a file");
    let (len, rights) = (pages * PAGE, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new private mapping overlaps nothing; it lies within the file, and is used here only.
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

#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 ns")]
fn per_site(start: Instant) -> f64 {
    start.elapsed().as_nanos() as f64 / SITES as f64
}
