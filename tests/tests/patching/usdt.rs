//! The kernel's uprobes on USDT probes, and consumers on the sites beside them: in both orders of
//! arming and of taking away, and both at once from two threads. Hits are exact, and no byte of a
//! site is touched.
//!
//! A process of its own: it compares all of its text with the file. Without root,
//! uprobes are left out.
#![cfg(all(target_os = "linux", not(probe_portable)))]

use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, thread};

use probe_runtime::patch::TextPolicy;
use probe_runtime::{Attachment, Count, Kind, probe, probes, select};
use probe_tests::fixture::stapsdt::{UsdtNote, usdt_notes};
use probe_tests::text::Text;
use probe_tests::turn::turn;
use probe_tests::uprobe::{self, Uprobe};
use probe_tests::whole;

const HITS: u64 = 1_000;
const NOP: u8 = 0x90;
const BREAKPOINT: u8 = 0xcc;

#[probe(usdt, args(x))]
#[inline(never)]
fn work(x: u64) -> u64 {
    black_box(x).wrapping_mul(3) ^ 7
}

fn hit(times: u64) {
    (0..times).for_each(|x| {
        black_box(work(x));
    });
}

/// The notes of this program, and the address that it is loaded to. They are read once.
fn notes() -> &'static (usize, Vec<UsdtNote>) {
    static NOTES: OnceLock<(usize, Vec<UsdtNote>)> = OnceLock::new();
    NOTES.get_or_init(|| {
        let program = fs::read_link("/proc/self/exe").expect("this program");
        let maps = fs::read_to_string("/proc/self/maps").expect("mappings");
        let first =
            maps.lines().find(|line| line.ends_with(program.to_str().expect("text"))).expect("mapped");
        let start = first.split('-').next().and_then(|start| usize::from_str_radix(start, 16).ok());
        (start.expect("an address"), usdt_notes(&fs::read(&program).expect("the program's file")))
    })
}

/// The places of a USDT probe in this process: the copies of its function.
fn places(name: &str) -> Vec<usize> {
    let (start, notes) = notes();
    let ours = notes.iter().filter(|note| (note.provider.as_str(), note.name.as_str()) == ("patching", name));
    let found: Vec<_> = ours.map(|note| start + usize::try_from(note.addr).expect("64 bits")).collect();
    assert!(!found.is_empty(), "no note of {name}");
    found
}

fn byte_at(addr: usize) -> u8 {
    // SAFETY: text of this program.
    unsafe { (addr as *const u8).read_volatile() }
}

fn attach_with(policy: TextPolicy) -> Attachment<Count> {
    let work = select("patching::usdt::work").unwrap().text_policy(policy);
    let hits = work.attach(Count::new()).unwrap();
    assert_eq!(hits.report().refused(), 0, "{}", hits.report());
    hits
}

fn attach() -> Attachment<Count> {
    attach_with(TextPolicy::Sealed)
}

fn counted(hits: &Attachment<Count>) -> (u64, u64) {
    let of = |kind| hits.counts().iter().find(|it| it.probe.kind() == kind).map_or(0, |it| it.hits);
    (of(Kind::Entry), of(Kind::Exit))
}

/// Checks that the kernel's breakpoint is no concern of the runtime.
fn is_not_foreign() {
    for probe in probes().iter().filter(|it| it.path() == "patching::usdt::work") {
        assert_eq!(probe.foreign().len(), 0, "{:?}", probe.foreign());
    }
}

fn has_uprobes() -> bool {
    let missing = uprobe::missing();
    missing.iter().for_each(|why| println!("skipped: no uprobes: {why}"));
    missing.is_none()
}

struct Uprobes(Vec<Uprobe>);

impl Uprobes {
    fn put(name: &str) -> Self {
        Self(places(name).into_iter().map(Uprobe::put).collect())
    }

    fn hits(&self) -> u64 {
        self.0.iter().map(Uprobe::hits).sum()
    }

    fn take_away(self) {
        self.0.into_iter().for_each(Uprobe::take_away);
    }
}

/// The NOP is a byte of the program's own, and no site's.
#[test]
fn notes_are_at_a_nop() {
    let _turn = turn();
    for name in ["usdt__work__entry", "usdt__work__exit"] {
        assert!(places(name).iter().all(|place| byte_at(*place) == NOP), "{name}");
    }
}

#[test]
fn uprobes_and_consumers_in_any_order() {
    let _turn = turn();
    if !has_uprobes() {
        return;
    }
    for name in ["usdt__work__entry", "usdt__work__exit"] {
        let place = places(name)[0];
        for (is_first, leaves_first) in [(true, true), (true, false), (false, true), (false, false)] {
            let cell = format!("{name}, put first: {is_first}, taken away first: {leaves_first}");
            let early = is_first.then(|| Uprobes::put(name));
            let hits = attach();
            let uprobes = early.unwrap_or_else(|| Uprobes::put(name));
            assert_eq!(byte_at(place), BREAKPOINT, "{cell}");
            hit(HITS);
            assert_eq!((uprobes.hits(), counted(&hits)), (HITS, (HITS, HITS)), "{cell}");
            is_not_foreign();
            if leaves_first {
                uprobes.take_away();
                hit(HITS);
                assert_eq!((byte_at(place), counted(&hits)), (NOP, (2 * HITS, 2 * HITS)), "{cell}");
                is_not_foreign();
                let left = hits.detach();
                assert_eq!((left.refused(), left.foreign().len()), (0, 0), "{cell}: {left}");
            } else {
                let left = hits.detach();
                assert_eq!((left.refused(), left.foreign().len()), (0, 0), "{cell}: {left}");
                hit(HITS);
                assert_eq!(uprobes.hits(), 2 * HITS, "{cell}");
                uprobes.take_away();
            }
            Text::of_this_process().assert_as_in_file();
        }
    }
}

/// A site in the same word as a NOP is switched while the kernel puts its breakpoint there and
/// takes it away, and while two threads hit both. Neither loses a write of the other, nor a hit.
/// Where the text is opened for a batch, the kernel may pass over it: it puts no uprobe into a
/// mapping that can be written. An `int3` of the runtime is known as its own, though the kernel
/// tells less of it in a process with uprobes.
#[test]
fn uprobes_and_consumers_at_once() {
    let _turn = turn();
    if !has_uprobes() {
        return;
    }
    let rounds = if whole::is_asked_for() { 20 } else { 10 };
    for policy in [TextPolicy::Alias, TextPolicy::Sealed] {
        let is_over = AtomicBool::new(false);
        let place = places("usdt__work__entry")[0];
        thread::scope(|scope| {
            let over = Over(&is_over);
            let hitting = scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    hit(1);
                }
            });
            let switching = scope.spawn(|| {
                let mut done = 0;
                while !is_over.load(Ordering::Relaxed) || done < rounds {
                    let hits = attach_with(policy);
                    hit(10);
                    // The other threads hit, too.
                    let (entries, exits) = counted(&hits);
                    assert!(entries >= 10 && exits >= 10, "{entries} entries, {exits} exits");
                    let left = hits.detach();
                    assert_eq!((left.refused(), left.foreign().len()), (0, 0), "{left}");
                    done += 1;
                }
            });
            for _ in 0..rounds {
                let uprobes = ["usdt__work__entry", "usdt__work__exit"].map(Uprobes::put);
                let found = byte_at(place);
                hit(10);
                // A uprobe counts hits of its own thread.
                let hits = uprobes.each_ref().map(Uprobes::hits);
                if policy == TextPolicy::Alias {
                    assert_eq!((found, hits), (BREAKPOINT, [10, 10]));
                } else {
                    assert!(found == BREAKPOINT || found == NOP, "{found:#x}");
                    assert!(hits.iter().all(|hits| *hits <= 10), "{hits:?}");
                }
                uprobes.into_iter().for_each(Uprobes::take_away);
                assert_eq!(byte_at(place), NOP);
            }
            drop(over);
            switching.join().expect("no panic");
            hitting.join().expect("no panic");
        });
        is_not_foreign();
        Text::of_this_process().assert_as_in_file();
    }
}

/// Ends the other threads' loops, also if this one panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
