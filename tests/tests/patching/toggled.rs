//! One site, toggled under each policy: it holds the right bytes, and foreign bytes in it are
//! reported. A process of its own: it compares all of its text with the file's.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::hint::black_box;
use std::sync::atomic::{AtomicU8, Ordering};

use probe_runtime::patch::{OpenText, Report, TextPolicy, Visibility};
use probe_runtime::{Count, probe, select};
use probe_tests::fixture::site_table::NOP;
use probe_tests::text::Text;
// One test compares all text, so the tests of this process take turns.
use probe_tests::turn::turn;

#[probe]
#[inline(never)]
fn work(x: u64) -> u64 {
    black_box(x) + 1
}

/// One byte of the site.
fn byte(at: usize) -> &'static AtomicU8 {
    // SAFETY: a byte of the program's text, which stays mapped.
    unsafe { AtomicU8::from_ptr(at as *mut u8) }
}

fn bytes(site: usize) -> [u8; 5] {
    std::array::from_fn(|at| byte(site + at).load(Ordering::Relaxed))
}

/// Writes to the site without the runtime's knowing.
fn write(site: usize, bytes: &[u8]) {
    let text = OpenText::new(site..site + bytes.len()).unwrap();
    bytes.iter().enumerate().for_each(|(at, new)| byte(site + at).store(*new, Ordering::SeqCst));
    text.close().unwrap();
}

/// Patched, unchanged, refused, foreign.
fn numbers(report: &Report) -> [usize; 4] {
    [report.patched(), report.unchanged(), report.refused(), report.foreign().len()]
}

fn walk(text: TextPolicy, visibility: Visibility) {
    let set = select("patching::toggled::work kind=entry").unwrap().text_policy(text).visibility(visibility);
    let hits = set.attach(Count::new()).unwrap();
    let site = Text::of_this_process().differences()[0].at;
    let (on, mut hit) = (bytes(site), 0);
    let mut count = |by| {
        hit += by;
        assert_eq!((work(1), hits.total()), (2, hit), "{text:?}");
    };
    for _ in 0..3 {
        count(1);
        assert_eq!((numbers(&hits.pause()), bytes(site)), ([1, 0, 0, 0], NOP), "{text:?}");
        assert_eq!((numbers(&hits.pause()), bytes(site)), ([0, 1, 0, 0], NOP), "{text:?}");
        count(0);
        assert_eq!((numbers(&hits.resume()), bytes(site)), ([1, 0, 0, 0], on), "{text:?}");
        assert_eq!((numbers(&hits.resume()), bytes(site)), ([0, 1, 0, 0], on), "{text:?}");
    }
    // Somebody's NOP, and somebody's jump.
    write(site, &NOP);
    count(0);
    assert_eq!(numbers(&hits.pause()), [0, 1, 0, 1], "{text:?}");
    write(site, &on);
    assert_eq!(numbers(&hits.resume()), [0, 1, 0, 1], "{text:?}");
    count(1);
    // A breakpoint: the site stays active, and so it is found.
    write(site, &[0xcc]);
    assert_eq!(numbers(&hits.pause()), [0, 0, 1, 1], "{text:?}");
    write(site, &on);
    count(1);
    assert_eq!(numbers(&hits.pause()), [1, 0, 0, 1], "{text:?}");
    count(0);
    assert_eq!(numbers(&hits.resume()), [1, 0, 0, 0], "{text:?}");
    count(1);
    assert_eq!(numbers(&hits.detach()), [1, 0, 0, 0], "{text:?}");
    Text::of_this_process().assert_as_in_file();
}

#[test]
fn one_site_holds_what_it_should() {
    let _turn = turn();
    // The thread's first hit.
    assert_eq!(work(1), 2);
    for text in [TextPolicy::Sealed, TextPolicy::Open] {
        for visibility in [Visibility::Synchronous, Visibility::Eventual] {
            walk(text, visibility);
        }
    }
}

/// Another attachment, or a hold, on the same probe: then its pauses are no mere toggles.
#[test]
fn others_on_its_probe_are_heeded() {
    let _turn = turn();
    let set = || select("patching::toggled::shared kind=entry").unwrap();
    assert_eq!(shared(1), 1);
    let open = set().text_policy(TextPolicy::Open).visibility(Visibility::Eventual);
    let (hits, also) = (open.attach(Count::new()).unwrap(), set().attach(Count::new()).unwrap());
    assert_eq!(numbers(&hits.pause()), [0, 1, 0, 0], "the other one listens");
    shared(1);
    assert_eq!((hits.total(), also.total()), (0, 1));
    assert_eq!(numbers(&hits.resume()), [0, 1, 0, 0]);
    assert_eq!(numbers(&also.detach()), [0, 1, 0, 0]);
    let hold = set().hold().unwrap();
    assert_eq!(numbers(&hits.pause()), [0, 1, 0, 0], "it is latent");
    assert_eq!(numbers(&hits.resume()), [0, 1, 0, 0], "it is held");
    shared(1);
    assert_eq!(hits.total(), 0);
    drop(hold);
    shared(1);
    assert_eq!((hits.total(), numbers(&hits.pause())), (1, [1, 0, 0, 0]));
}

#[probe]
#[inline(never)]
fn shared(x: u64) -> u64 {
    black_box(x)
}
