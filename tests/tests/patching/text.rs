//! Rights to write pages: guards on any mapping, beside each other and beside batches. The kernel
//! must report the former rights afterwards.
//! A process of its own: its batches and guards share the text of the program.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;

use probe_runtime::patch::{OpenText, TextError, TextPolicy, Visibility, unrestored_bytes};
use probe_runtime::{Count, select};
use probe_tests::pages::{NONE, PAGE, Pages, R, RW, RWX, RX, rights};
use probe_tests::text::Text;
// Some tests look at the whole text, and each at all that stays writable.
use probe_tests::stops::Stops;
use probe_tests::turn::turn;

probe_tests::first_and_second!();

/// A byte of memory that may be changed by others at any time.
fn byte(at: usize) -> &'static AtomicU8 {
    // SAFETY: the callers name mapped memory, which outlives their use of it.
    unsafe { AtomicU8::from_ptr(at as *mut u8) }
}

fn is_open(rights: &str) -> bool {
    rights.as_bytes()[1] == b'w'
}

#[test]
fn a_range_across_two_pages_of_different_rights() {
    let _turn = turn();
    let pages = Pages::new(&[RX, RX, R, RX]);
    let across = pages.at(2) - 2..pages.at(2) + 3;
    let open = OpenText::new(across.clone()).unwrap();
    assert_eq!(open.pages(), pages.at(1)..pages.at(3));
    // Pages that were not executable still are not; their neighbours are unchanged.
    assert_eq!(pages.rights(), ["r-xp", "rwxp", "rw-p", "r-xp"]);
    for at in across.clone() {
        byte(at).store(0x90, Ordering::Relaxed);
    }
    open.close().unwrap();
    assert_eq!(pages.rights(), ["r-xp", "r-xp", "r--p", "r-xp"]);
    assert_eq!(across.map(|at| byte(at).load(Ordering::Relaxed)).collect::<Vec<_>>(), [0x90; 5]);
    assert_eq!(unrestored_bytes(), 0);
}

#[test]
fn runs_of_pages_get_back_each_its_own() {
    let _turn = turn();
    let rights = [R, R, RX, RW, RWX, RX, RX, R];
    let before = ["r--p", "r--p", "r-xp", "rw-p", "rwxp", "r-xp", "r-xp", "r--p"];
    let open = ["rw-p", "rw-p", "rwxp", "rw-p", "rwxp", "rwxp", "rwxp", "rw-p"];
    let pages = Pages::new(&rights);
    let all = OpenText::new(pages.0.clone()).unwrap();
    assert_eq!(pages.rights(), open);
    // One within, one that ends within, one that begins within; all outlive the first.
    let within = OpenText::new(pages.at(2)..pages.at(2) + 1).unwrap();
    let over = OpenText::new(pages.at(4) + 9..pages.at(6)).unwrap();
    drop(all);
    assert_eq!(pages.rights(), ["r--p", "r--p", "rwxp", "rw-p", "rwxp", "rwxp", "r-xp", "r--p"]);
    let again = OpenText::new(pages.at(5)..pages.at(7)).unwrap();
    drop(over);
    assert_eq!(pages.rights(), ["r--p", "r--p", "rwxp", "rw-p", "rwxp", "rwxp", "rwxp", "r--p"]);
    drop((within, again));
    assert_eq!(pages.rights(), before);
    // An empty range opens nothing, wherever it is.
    let none = OpenText::new(pages.at(3) + 7..pages.at(3) + 7).unwrap();
    assert!(none.pages().is_empty());
    assert_eq!(pages.rights(), before);
    none.close().unwrap();
}

#[test]
fn where_there_is_no_text_the_error_names_the_address_and_nothing_opens() {
    let _turn = turn();
    let pages = Pages::new(&[RX, NONE, RX, RX, RX, NONE]);
    pages.unmap(3);
    let before = ["r-xp", "---p", "r-xp", "", "r-xp", "---p"];
    assert_eq!(pages.rights(), before);
    let error = |range| OpenText::new(range).unwrap_err();
    assert_eq!(error(pages.at(0)..pages.at(2)), TextError::NotReadable { addr: pages.at(1) });
    assert_eq!(error(pages.at(1) + 5..pages.at(1) + 6), TextError::NotReadable { addr: pages.at(1) + 5 });
    assert_eq!(error(pages.at(2)..pages.at(5)), TextError::Unmapped { addr: pages.at(3) });
    assert_eq!(error(pages.at(3) + 1..pages.at(3) + 2), TextError::Unmapped { addr: pages.at(3) + 1 });
    assert_eq!(error(8..9), TextError::Unmapped { addr: 8 });
    assert_eq!(error(usize::MAX - 3..usize::MAX), TextError::Unmapped { addr: usize::MAX - 3 });
    let at = pages.at(3);
    assert_eq!(error(at..at + 1).to_string(), format!("nothing is mapped at {at:#x}"));
    assert_eq!(pages.rights(), before);
    // Neighbours that may not be read or are not mapped are no obstacle, and are not touched.
    let (two, four) = (OpenText::new(pages.at(2)..pages.at(3)), OpenText::new(pages.at(4)..pages.at(5)));
    assert_eq!(pages.rights(), ["r-xp", "---p", "rwxp", "", "rwxp", "---p"]);
    drop((two.unwrap(), four.unwrap()));
    assert_eq!(pages.rights(), before);
}

#[test]
fn a_shared_mapping_of_a_read_only_file_is_refused_whole() {
    let _turn = turn();
    let pages = Pages::new(&[RX, RX, RX]);
    let file = fs::File::open("/proc/self/exe").unwrap();
    let flags = libc::MAP_SHARED | libc::MAP_FIXED;
    let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
    // SAFETY: replaces a page of this test's own.
    let shared = unsafe { libc::mmap(pages.at(1) as *mut _, PAGE, RX, flags, descriptor, 0) };
    assert_eq!(shared.addr(), pages.at(1));
    let error = OpenText::new(pages.0.clone()).unwrap_err();
    assert_eq!(error, TextError::Protected { pages: pages.0.clone(), errno: libc::EACCES });
    assert!(error.to_string().contains("TextPolicy::Alias"), "{error}");
    // The first had been opened by then.
    assert_eq!(pages.rights(), ["r-xp", "r-xs", "r-xp"]);
    assert_eq!(unrestored_bytes(), 0);
}

#[test]
fn what_was_unmapped_under_a_guard_is_no_failure() {
    let _turn = turn();
    let pages = Pages::new(&[RX, RX, RX]);
    let open = OpenText::new(pages.0.clone()).unwrap();
    pages.unmap(1);
    open.close().unwrap();
    assert_eq!(pages.rights(), ["r-xp", "", "r-xp"]);
    assert_eq!(unrestored_bytes(), 0);
}

/// A cheap pseudo-random sequence.
struct Sequence(u64);

impl Sequence {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).unwrap()
    }
}

#[test]
fn guards_of_several_threads_overlap_in_any_order() {
    const ROUNDS: usize = 3_000;
    let _turn = turn();
    let kinds = [R, RX, RX, RW, RX, R, RWX, RX, RX, RX, R, RX];
    let pages = Pages::new(&kinds);
    let before = pages.rights();
    thread::scope(|scope| {
        for thread in 0..4 {
            let pages = &pages;
            scope.spawn(move || {
                let (mut random, mut held) = (Sequence(0x9e37_79b9 + thread as u64), Vec::new());
                for round in 0..ROUNDS {
                    let start = random.below(kinds.len());
                    let end = start + 1 + random.below(kinds.len() - start);
                    let bytes = pages.at(start) + random.below(PAGE)..pages.at(end);
                    let open = OpenText::new(bytes).unwrap();
                    // Each thread has a byte of its own in each page: the write arrives, or this is
                    // a SIGSEGV.
                    let value = u8::try_from(round % 251).unwrap();
                    for page in start..end {
                        byte(pages.at(page) + thread).store(value, Ordering::Relaxed);
                    }
                    for page in start..end {
                        assert_eq!(byte(pages.at(page) + thread).load(Ordering::Relaxed), value);
                    }
                    held.push(open);
                    if held.len() > 3 {
                        held.swap_remove(random.below(held.len())).close().unwrap();
                    }
                }
            });
        }
    });
    assert_eq!(pages.rights(), before);
    assert_eq!(unrestored_bytes(), 0);
}

#[test]
fn batches_and_guards_race_on_the_same_pages() {
    const ROUNDS: u64 = 1_000;
    let _turn = turn();
    let text = Text::of_this_process();
    let sites = [first as fn(u64) -> u64 as usize, second as fn(u64) -> u64 as usize];
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stops = Stops(&stop);
        for thread in 0..2 {
            let (stop, sites) = (&stop, &sites);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let at = sites[thread];
                    let open = OpenText::new(at..at + 1).unwrap();
                    // The same byte again, which takes the right to write.
                    let byte = byte(at);
                    let was = byte.load(Ordering::Relaxed);
                    let _ = byte.compare_exchange(was, was, Ordering::SeqCst, Ordering::SeqCst);
                    open.close().unwrap();
                    // The mutex is not a fair one.
                    thread::yield_now();
                }
            });
        }
        let set = select("patching::text::*").unwrap();
        let policies = [TextPolicy::Sealed, TextPolicy::Open];
        for round in 0..ROUNDS {
            let policy = policies[usize::try_from(round % 2).unwrap()];
            let set = set.clone().text_policy(policy).visibility(Visibility::Eventual);
            let hits = set.attach(Count::new()).unwrap();
            let report = hits.report();
            assert_eq!((report.patched(), report.is_complete()), (2, true), "{report}");
            assert_eq!(hits.pause().patched(), 2);
            assert_eq!(hits.resume().patched(), 2);
            assert_eq!((first(round), second(round)), (round + 1, round * 2));
            assert_eq!(hits.total(), 2);
            let report = hits.detach();
            assert_eq!((report.patched(), report.unsealed()), (2, 0), "{report}");
        }
        drop(stops);
    });
    text.assert_as_in_file();
    assert_eq!(unrestored_bytes(), 0);
}

#[test]
fn a_batch_under_a_guard_seals_nothing() {
    let _turn = turn();
    let text = Text::of_this_process();
    let guard = OpenText::new(text.range()).unwrap();
    let all = guard.pages();
    assert!(rights(&all).iter().all(|rights| rights == "rwxp"));
    let hits = select("patching::text::*").unwrap().attach(Count::new()).unwrap();
    assert!(rights(&all).iter().all(|rights| rights == "rwxp"));
    // The other way round: the guard ends first, and leaves what an open attachment needs.
    let held = select("patching::text::**::first")
        .unwrap()
        .text_policy(TextPolicy::Open)
        .attach(Count::new())
        .unwrap();
    guard.close().unwrap();
    assert!(rights(&all).iter().all(|rights| is_open(rights)));
    assert_eq!(held.pause().unchanged(), 1, "the other attachment listens");
    assert_eq!((hits.detach().patched(), held.detach().patched()), (2, 0), "the other one is paused");
    let hits = select("patching::text::*").unwrap().attach(Count::new()).unwrap();
    assert_eq!(hits.detach().patched(), 2);
    text.assert_as_in_file();
}

#[test]
fn text_that_was_writable_before_stays_so() {
    let _turn = turn();
    let text = Text::of_this_process();
    let page = first as fn(u64) -> u64 as usize & !(PAGE - 1);
    let around = page..page + PAGE;
    let protect = |rights| {
        // SAFETY: a page of this program's text, which stays readable and executable.
        assert_eq!(unsafe { libc::mprotect(page as *mut _, PAGE, rights) }, 0);
    };
    protect(RWX);
    let guard = OpenText::new(around.clone()).unwrap();
    guard.close().unwrap();
    assert_eq!(rights(&around), ["rwxp"]);
    protect(RX);
    let hits = select("patching::text::**::first").unwrap().attach(Count::new()).unwrap();
    drop(hits);
    text.assert_as_in_file();
}
