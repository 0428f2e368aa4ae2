//! Operations while a consumer blocks in a hit. Operations that remove other consumers don't wait
//! for the hit; an operation that removes the blocked consumer waits for it alone.
//! Each scenario is a process of its own: an alarm ends one that waits in vain.
#![cfg(not(any(probe_portable, probe_off)))]
#![cfg(target_os = "linux")]

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use probe_runtime::patch::{TextPolicy, Visibility};
use probe_runtime::{Attachment, Consumer, Count, Event, finstrument, probe, probes, select};
use probe_tests::{scenario, whole};

#[probe]
#[inline(never)]
fn a(x: u64) -> u64 {
    std::hint::black_box(x) + 1
}

#[probe]
#[inline(never)]
fn b(x: u64) -> u64 {
    std::hint::black_box(x) + 2
}

#[probe(replace)]
fn price(x: u64) -> u64 {
    std::hint::black_box(x) + 3
}

static WANTED: Mutex<u64> = Mutex::new(0);
static IS_INSIDE: AtomicBool = AtomicBool::new(false);

fn wanted() -> MutexGuard<'static, u64> {
    WANTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for the mutex that the operations' caller holds.
struct Wants;

impl Consumer for Wants {
    fn hit(&self, _event: &Event<'_>) {
        IS_INSIDE.store(true, Ordering::Release);
        *wanted() += 1;
    }
}

/// Counts its hits, and notes its drop.
#[derive(Clone, Default)]
struct Notes(Arc<(AtomicU64, AtomicBool)>);

impl Notes {
    fn hits(&self) -> u64 {
        self.0.0.load(Ordering::Relaxed)
    }

    fn is_dropped(&self) -> bool {
        self.0.1.load(Ordering::Relaxed)
    }

    fn consumer(&self) -> Noting {
        Noting(self.clone())
    }
}

struct Noting(Notes);

impl Consumer for Noting {
    fn hit(&self, _event: &Event<'_>) {
        self.0.0.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Noting {
    fn drop(&mut self) {
        self.0.0.1.store(true, Ordering::Relaxed);
    }
}

/// A thread in a consumer on `b` that waits for this thread's mutex.
struct Blocked {
    has: MutexGuard<'static, u64>,
    thread: JoinHandle<u64>,
    wants: Attachment<Wants>,
}

impl Blocked {
    fn new() -> Self {
        let wants = select("patching::unrelated::b kind=entry").unwrap().attach(Wants).unwrap();
        Self::by(wants, b)
    }

    fn by(wants: Attachment<Wants>, hit: fn(u64) -> u64) -> Self {
        let has = wanted();
        let thread = thread::spawn(move || hit(0));
        while !IS_INSIDE.load(Ordering::Acquire) {
            thread::yield_now();
        }
        Self { has, thread, wants }
    }

    /// Unlocks the mutex, joins the thread, and returns the attachment.
    fn end(self) -> Attachment<Wants> {
        assert_eq!(*self.has, 0, "it is in there all the time");
        drop(self.has);
        self.thread.join().unwrap();
        assert_eq!(*wanted(), 1);
        self.wants
    }
}

const LIMIT: libc::c_uint = 60;

fn entry(of: &str) -> probe_runtime::ProbeSet {
    select(&format!("patching::unrelated::{of} kind=entry")).unwrap()
}

/// Operations that remove no consumer, or another one.
fn operate(what: &str) {
    let notes = Notes::default();
    let listens = entry("a").attach(notes.consumer()).unwrap();
    let counts = entry("a").attach(Count::new()).unwrap();
    let blocked = Blocked::new();
    a(0);
    assert_eq!((notes.hits(), counts.total()), (1, 1));
    match what {
        "drop" => {
            drop(listens);
            assert!(notes.is_dropped(), "when the call returns");
        }
        "detach" => assert_eq!(listens.detach().refused(), 0),
        "pause" => {
            assert_eq!(listens.pause().refused(), 0);
            a(0);
            assert_eq!(notes.hits(), 1);
        }
        "resume" => {
            listens.pause();
            assert_eq!(listens.resume().refused(), 0);
            a(0);
            assert_eq!(notes.hits(), 2);
        }
        "attach" => {
            let other = entry("a").attach(Count::new()).unwrap();
            a(0);
            assert_eq!(other.total(), 1);
        }
        "beside" => {
            // On the very probe whose hit does not end.
            let other = entry("b").attach(notes.consumer()).unwrap();
            other.pause();
            other.resume();
            drop(other);
            assert_eq!(notes.hits(), 1);
        }
        "hold" => {
            let hold = select("patching::unrelated::*").unwrap().hold().unwrap();
            a(0);
            assert_eq!(notes.hits(), 1);
            assert_eq!(hold.release().refused(), 0);
            a(0);
            assert_eq!(notes.hits(), 2);
        }
        "switch" => {
            let (switch, ids) = (listens.switch(), entry("a").ids().to_vec());
            switch.off(&ids, Visibility::Synchronous);
            a(0);
            assert_eq!(notes.hits(), 1);
            switch.on(&ids, Visibility::Synchronous);
            a(0);
            assert_eq!(notes.hits(), 2);
        }
        "look" => {
            assert!(probes().len() >= 4);
            assert_eq!((listens.late_report().refused(), listens.probes().len()), (0, 1));
        }
        "replace" => {
            let more = price::install(|original, x| original(x) + 100).unwrap();
            assert_eq!(price(0), 103);
            assert_eq!(more.remove().refused(), 0);
            assert_eq!(price(0), 3);
        }
        "discoveries" => {
            finstrument::on_discovery(|_| ());
            finstrument::on_discovery(|_| ());
            finstrument::stop_telling();
            drop(finstrument::attach(Count::new(), 8).unwrap());
        }
        _ => unreachable!("{what}"),
    }
    assert_eq!(blocked.end().detach().refused(), 0);
}

/// Other consumers listen on the same probe, before and after the blocked one. They are removed,
/// and don't receive the hit when it continues.
fn taken_from_one_probe() {
    let (first, last) = (Notes::default(), Notes::default());
    let before = entry("b").attach(first.consumer()).unwrap();
    let wants = entry("b").attach(Wants).unwrap();
    let after = entry("b").attach(last.consumer()).unwrap();
    let (counts, paused) =
        (entry("b").attach(Count::new()).unwrap(), entry("b").attach(Count::new()).unwrap());
    let blocked = Blocked::by(wants, b);
    assert_eq!((first.hits(), last.hits()), (1, 0));
    drop(before);
    drop(after);
    paused.pause();
    assert!(first.is_dropped() && last.is_dropped());
    let wants = blocked.end();
    assert_eq!((first.hits(), last.hits(), paused.total()), (1, 0, 0));
    assert_eq!(counts.total(), 1, "it goes on to who is there");
    drop(wants);
    b(0);
    assert_eq!(counts.total(), 2);
}

/// An operation that removes the blocked consumer waits until the hit has ended.
fn waits_for_its_own(ends: fn(Attachment<Wants>)) {
    static HAS_LEFT: AtomicBool = AtomicBool::new(false);
    let Blocked { has, thread, wants } = Blocked::new();
    let taker = thread::spawn(move || {
        ends(wants);
        assert_eq!(*wanted(), 1, "the hit has ended");
        HAS_LEFT.store(true, Ordering::Release);
    });
    // The operation makes the site latent, and then waits.
    while entry("b").probes()[0].state() == probe_runtime::registry::ProbeState::Active {
        thread::yield_now();
    }
    for _ in 0..1000 {
        assert!(!HAS_LEFT.load(Ordering::Acquire), "it has not waited");
        thread::yield_now();
    }
    drop(has);
    thread.join().unwrap();
    taker.join().unwrap();
}

/// Returns the size of this process's private memory, in KiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Many operations during one long hit leave little memory behind.
fn operations_leave_nothing(on: &str) {
    // A round has four operations.
    let rounds = if whole::is_asked_for() { 25_000 } else { 5_000 };
    let set = entry(on).text_policy(TextPolicy::Open);
    let notes = Notes::default();
    let listens = set.attach(notes.consumer()).unwrap();
    let blocked = Blocked::new();
    let round = || {
        let other = set.attach(Count::new()).unwrap();
        listens.pause();
        listens.resume();
        drop(other);
    };
    (0..1000).for_each(|_| round());
    let before = resident();
    (0..rounds).for_each(|_| round());
    let grown = resident().saturating_sub(before);
    // Each hook has over 100 bytes, and each attachment one. Old kernels count pages in batches.
    assert!(grown < (rounds * 2 / 25).min(1024), "{rounds} rounds have left {grown} KiB");
    let wants = blocked.end();
    drop((listens, wants));
    assert!(notes.is_dropped());
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    // SAFETY: no pointers.
    unsafe { libc::alarm(LIMIT) };
    match asked.as_str() {
        "from one probe" => taken_from_one_probe(),
        "waits: drop" => waits_for_its_own(drop),
        "waits: pause" => waits_for_its_own(|wants| {
            wants.pause();
            std::mem::forget(wants);
        }),
        "memory: a" => operations_leave_nothing("a"),
        "memory: b" => operations_leave_nothing("b"),
        what => operate(what),
    }
}

macro_rules! scenarios {
    ($($name:ident: $what:literal;)*) => { $(
        #[test]
        fn $name() {
            scenario::pass($what, &[]);
        }
    )* };
}

scenarios! {
    drop_does_not_wait: "drop";
    detach_does_not_wait: "detach";
    pause_does_not_wait: "pause";
    resume_does_not_wait: "resume";
    attach_does_not_wait: "attach";
    others_on_the_same_probe_do_not_wait: "beside";
    hold_does_not_wait: "hold";
    switch_does_not_wait: "switch";
    looking_does_not_wait: "look";
    discoveries_do_not_wait: "discoveries";
    replacing_does_not_wait: "replace";
    who_is_taken_from_one_probe_hears_no_more: "from one probe";
    drop_waits_for_its_own: "waits: drop";
    pause_waits_for_its_own: "waits: pause";
    operations_on_another_probe_leave_nothing: "memory: a";
    operations_on_the_same_probe_leave_nothing: "memory: b";
}
