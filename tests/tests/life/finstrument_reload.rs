//! Objects that are loaded again at the same place, while text is open, and before anybody has
//! looked.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use probe_runtime::patch::{TextPolicy, unrestored_bytes};
use probe_runtime::{Attachment, Consumer, Count, Event, Kind, finstrument, probe, probes, select};
use probe_tests::instrumented::{calls_at, folder, shared, source};
use probe_tests::library::Library;
use probe_tests::scenario;

#[test]
fn open_text_of_what_is_gone_is_not_that_of_what_came() {
    scenario::runs_in_a_child("scenario", "open");
}

#[test]
fn nor_where_an_attachment_holds_it_open() {
    scenario::runs_in_a_child("scenario", "attached");
}

#[test]
fn text_is_held_open_however_often_it_was_loaded() {
    scenario::runs_in_a_child("scenario", "held");
}

#[test]
fn a_call_across_two_words_is_the_same_one_again() {
    scenario::runs_in_a_child("scenario", "straddling");
}

#[test]
fn who_looks_at_what_is_gone_drops_no_consumer() {
    scenario::runs_in_a_child("scenario", "asking");
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    match asked.as_str() {
        "open" => open(),
        "attached" => attached(),
        "held" => held(),
        "straddling" => straddling(),
        "asking" => asking(),
        other => panic!("no scenario {other}"),
    }
    println!("done: {asked}");
}

fn object(name: &str, offset: usize) -> PathBuf {
    let folder = folder(name);
    let file = source(&folder, "code.s", &calls_at(offset, &["one"]));
    shared("gcc", &file, "code.so", &[])
}

/// The rights of the mapping at an address, as the kernel writes them.
fn rights(addr: usize) -> String {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let holds = |line: &&str| {
        let (start, rest) = line.split_once('-').unwrap();
        let end = rest.split(' ').next().unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        (number(start)..number(end)).contains(&addr)
    };
    maps.lines().find(holds).unwrap().split(' ').nth(1).unwrap().to_owned()
}

fn open() {
    let path = object("open", 0);
    finstrument::text_policy(TextPolicy::Open);
    let calls = finstrument::attach(Count::new(), 100).unwrap();
    let mut places = Vec::new();
    for _ in 0..4 {
        let library = Library::open(&path);
        let one = library.function("one");
        places.push(one as usize);
        assert_eq!((one(1), one(2)), (2, 3));
        library.close();
    }
    places.sort_unstable();
    places.dedup();
    assert!(places.len() < 4, "no two were loaded at the same place");
    let library = Library::open(&path);
    let one = library.function("one");
    assert_eq!(one(1), 2);
    assert_eq!(calls.counts().hits("one", Kind::Entry), Some(1));
    assert_eq!(finstrument::stats().patched, 10);
    finstrument::text_policy(TextPolicy::Sealed);
    assert_eq!((rights(one as usize).as_str(), unrestored_bytes()), ("r-xp", 0));
    drop(calls);
    library.close();
}

fn attached() {
    let path = object("attached", 0);
    let library = Library::open(&path);
    assert_eq!(library.function("one")(1), 2);
    let hits = select("one").unwrap().text_policy(TextPolicy::Open).attach(Count::new()).unwrap();
    assert_eq!((library.function("one")(1), hits.total()), (2, 2));
    library.close();
    let library = Library::open(&path);
    let one = library.function("one");
    assert_eq!((one(1), one(1)), (2, 2));
    probes();
    assert_eq!((one(1), hits.total()), (2, 4));
    drop(hits);
    assert_eq!((rights(one as usize).as_str(), unrestored_bytes()), ("r-xp", 0));
    library.close();
}

fn held() {
    let path = object("held", 0);
    finstrument::text_policy(TextPolicy::Open);
    for round in 0..70 {
        let library = Library::open(&path);
        let one = library.function("one");
        assert_eq!(one(1), 2);
        assert_eq!(rights(one as usize), "rwxp", "round {round}");
        library.close();
        probes();
    }
    finstrument::text_policy(TextPolicy::Sealed);
    assert_eq!(unrestored_bytes(), 0);
}

static IS_DROPPED: AtomicBool = AtomicBool::new(false);

/// Says when it is dropped.
struct Tells;

impl Consumer for Tells {
    fn hit(&self, _event: &Event<'_>) {}
}

impl Drop for Tells {
    fn drop(&mut self) {
        IS_DROPPED.store(true, Ordering::Relaxed);
    }
}

/// Drops another's attachment in a hit, which leaves the consumer to a later operation.
struct DropsIt(Mutex<Option<Attachment<Tells>>>);

impl Consumer for DropsIt {
    fn hit(&self, _event: &Event<'_>) {
        drop(self.0.lock().unwrap().take());
    }
}

#[probe]
#[inline(never)]
fn own() {
    std::hint::black_box(1);
}

/// Only an operation that may wait drops a consumer that was left, however much has vanished.
fn asking() {
    let set = select("life::finstrument_reload::**::own kind=entry").unwrap();
    let tells = Mutex::new(Some(set.attach(Tells).unwrap()));
    let hits = set.attach(DropsIt(tells)).unwrap();
    let path = object("asking", 0);
    for _ in 0..2 {
        let library = Library::open(&path);
        assert_eq!(library.function("one")(1), 2);
        assert!(probes().iter().any(|it| it.path() == "one"));
        own();
        library.close();
        assert!(!probes().iter().any(|it| it.path() == "one"));
        assert!(!IS_DROPPED.load(Ordering::Relaxed));
    }
    hits.pause();
    assert!(IS_DROPPED.load(Ordering::Relaxed));
}

fn straddling() {
    for offset in 4..8 {
        let path = object(&format!("straddling{offset}"), offset);
        let calls = finstrument::attach(Count::new(), 100).unwrap();
        for round in 1..4 {
            let library = Library::open(&path);
            let one = library.function("one");
            assert_eq!((one(1), one(2)), (2, 3));
            if round == 3 {
                assert_eq!(calls.counts().hits("one", Kind::Entry), Some(6), "{offset}");
                assert_eq!(calls.counts().hits("one", Kind::Exit), Some(6), "{offset}");
            }
            library.close();
        }
        drop(calls);
        // Latent, it is made so again.
        let bytes = |one: extern "C" fn(u64) -> u64| {
            // SAFETY: the function's code, up to its exit.
            unsafe { (one as *const [u8; 40]).read_volatile() }
        };
        let library = Library::open(&path);
        let one = library.function("one");
        let original = bytes(one);
        assert_eq!((one(1), one(1)), (2, 2));
        let latent = bytes(one);
        assert_ne!(original, latent);
        library.close();
        let library = Library::open(&path);
        let one = library.function("one");
        assert_eq!((bytes(one), one(1)), (original, 2));
        assert_eq!(bytes(one)[..2], latent[..2]);
        assert_ne!(bytes(one), original);
        library.close();
        probes();
    }
}
