//! The system restricts text, and the runtime can't read the rights of pages: no `/proc`, no free
//! descriptor, no answer at all. The runtime never assumes that unknown pages are writable.
//! Each scenario is a process of its own, since the restrictions can't be undone.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::fs::File;
use std::io::{Read, Seek};
use std::ops::Range;

use probe_runtime::patch::{OpenText, RefusalReason, TextError, TextPolicy, unrestored_bytes};
use probe_runtime::{Count, Error, select};
use probe_tests::folder::Folder;
use probe_tests::pages::{PAGE, RWX, RX};
use probe_tests::sandbox::{ALL, argument, deny};
use probe_tests::scenario;
use probe_tests::text::Text;

probe_tests::first_and_second!();

#[test]
fn sealed_text_without_proc_is_refused() {
    scenario::runs_in_a_child("scenario", "mseal, chroot");
}

#[test]
fn sealed_text_without_a_descriptor_is_refused() {
    scenario::runs_in_a_child("scenario", "mseal, no file");
}

#[test]
fn a_denied_mprotect_without_proc_is_refused() {
    scenario::runs_in_a_child("scenario", "seccomp, chroot");
}

#[test]
fn a_denied_mprotect_without_a_descriptor_is_refused() {
    scenario::runs_in_a_child("scenario", "seccomp, no file");
}

#[test]
fn what_somebody_else_holds_open_stays_open() {
    scenario::runs_in_a_child("scenario", "open elsewhere");
}

#[test]
fn what_can_not_be_sealed_is_counted_and_written_again() {
    scenario::runs_in_a_child("scenario", "no way back");
}

#[test]
fn where_not_even_pages_answer_all_is_refused() {
    scenario::runs_in_a_child("scenario", "silence");
}

#[test]
fn what_is_held_open_need_not_be_asked_for() {
    scenario::runs_in_a_child("scenario", "held open");
}

/// The scenarios of the children.
#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    match asked.as_str() {
        "open elsewhere" => open_elsewhere(),
        "no way back" => no_way_back(),
        "silence" => silence(),
        "held open" => held_open(),
        _ => {
            let (denied, unreadable) = asked.split_once(", ").expect("two conditions");
            refused(denied, unreadable);
        }
    }
    println!("done: {asked}");
}

fn whole(text: &Text) -> Range<usize> {
    text.range().start & !(PAGE - 1)..text.range().end.next_multiple_of(PAGE)
}

/// The process can neither change the text's rights nor read them.
fn refused(denied: &str, unreadable: &str) {
    let text = Text::of_this_process();
    let is_so = match denied {
        "mseal" => seal(&whole(&text)),
        "seccomp" => {
            deny(libc::SYS_mprotect, argument(2), RX.unsigned_abs(), RX.unsigned_abs());
            true
        }
        other => panic!("no condition {other}"),
    };
    let is_unreadable = is_so
        && match unreadable {
            "chroot" => leave_proc(),
            "no file" => {
                no_descriptor();
                true
            }
            other => panic!("no condition {other}"),
        };
    if !is_unreadable {
        return;
    }
    let errno = if unreadable == "chroot" { libc::ENOENT } else { libc::EMFILE };
    // The second attempt starts from the state that the first has left.
    for _ in 0..2 {
        let error = select("patching::text_unknown::*").unwrap().attach(Count::new()).unwrap_err();
        let Error::Refused(report) = &error else { panic!("{error}") };
        assert_eq!((report.patched(), report.unchanged(), report.refused()), (0, 0, 2));
        assert_eq!(report.alternative(), None, "the kernel can't write without `/proc`");
        assert!(!error.to_string().contains("Alias"), "{error}");
        for refusal in report.refusals() {
            assert_eq!(*refusal.reason(), RefusalReason::Protected { errno: libc::EPERM });
        }
        assert_eq!(unrestored_bytes(), 0);
        assert_eq!((first(1), second(1)), (2, 2));
    }
    let open = select("patching::text_unknown::*")
        .unwrap()
        .text_policy(TextPolicy::Open)
        .attach(Count::new())
        .unwrap_err();
    let Error::TextProtected { error, .. } = &open else { panic!("{open}") };
    assert_eq!(error.raw_os_error(), Some(errno));
    assert_eq!(OpenText::new(text.range()).unwrap_err(), TextError::Unknown { errno });
    let alias = select("patching::text_unknown::*")
        .unwrap()
        .text_policy(TextPolicy::Alias)
        .attach(Count::new())
        .unwrap_err();
    let Error::Refused(report) = &alias else { panic!("{alias}") };
    assert_eq!(*report.refusals()[0].reason(), RefusalReason::NoAlias { errno });
    assert_eq!(text.differences(), []);
}

fn seal(range: &Range<usize>) -> bool {
    const SYS_MSEAL: libc::c_long = 462;
    // SAFETY: the mapping can't be changed from here on; no code of this process needs to.
    if unsafe { libc::syscall(SYS_MSEAL, range.start, range.len(), 0) } == 0 {
        return true;
    }
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOSYS));
    println!("skipped: this kernel has no mseal(2)");
    false
}

/// Hides `/proc` from this process. Returns `false` without the privilege.
fn leave_proc() -> bool {
    let empty = Folder::new("empty");
    match std::os::unix::fs::chroot(&*empty) {
        Ok(()) => {
            std::env::set_current_dir("/").unwrap();
            // Its path is invalid now; the parent process removes the folder.
            std::mem::forget(empty);
            true
        }
        Err(error) => {
            println!("skipped: only root may chroot: {error}");
            false
        }
    }
}

/// Prevents this process from opening further files.
fn no_descriptor() {
    let none = libc::rlimit { rlim_cur: 3, rlim_max: 3 };
    // SAFETY: a limit, which is read.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none) }, 0);
}

/// The open table of mappings, in a process that can't open it again.
struct Watched(File);

impl Watched {
    fn new() -> Self {
        let file = File::open("/proc/self/maps").unwrap();
        deny(libc::SYS_openat, argument(2), 0, 0);
        Self(file)
    }

    /// Returns the rights at an address.
    fn rights(&mut self, addr: usize) -> String {
        let mut text = String::new();
        self.0.rewind().unwrap();
        self.0.read_to_string(&mut text).unwrap();
        let number = |digits: &str| usize::from_str_radix(digits, 16).unwrap();
        let holds = |line: &&str| {
            let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
            (number(start)..number(end)).contains(&addr)
        };
        let line = text.lines().find(holds).expect("a mapping");
        line.split(' ').nth(1).expect("rights").to_owned()
    }
}

fn protect(pages: &Range<usize>, rights: i32) {
    // SAFETY: text keeps the rights to read and to execute.
    assert_eq!(unsafe { libc::mprotect(pages.start as *mut _, pages.len(), rights) }, 0);
}

/// Opens text as another copy of this crate does.
fn open_elsewhere() {
    let text = Text::of_this_process();
    let all = whole(&text);
    protect(&all, RWX);
    let mut watched = Watched::new();
    let hits = select("patching::text_unknown::*").unwrap().attach(Count::new()).unwrap();
    assert_eq!((first(1), second(1), hits.total()), (2, 2, 2));
    assert_eq!(watched.rights(all.start), "rwxp");
    protect(&all, RX);
    assert_eq!(hits.detach().patched(), 2);
    assert_eq!((watched.rights(all.start), unrestored_bytes()), ("r-xp".to_owned(), 0));
    assert_eq!(text.differences(), []);
}

fn no_way_back() {
    let text = Text::of_this_process();
    let mut watched = Watched::new();
    // Text can be opened, but not sealed.
    deny(libc::SYS_mprotect, argument(2), ALL, RX.unsigned_abs());
    let hits = select("patching::text_unknown::*").unwrap().attach(Count::new()).unwrap();
    assert_eq!((hits.report().patched(), hits.report().unsealed()), (2, 1), "{:?}", hits.report());
    let left = unrestored_bytes();
    assert!(left >= PAGE && left.is_multiple_of(PAGE), "{left}");
    let site = text.differences()[0].at;
    assert_eq!(watched.rights(site), "rwxp");
    // Nor can it be opened. It is still open, and the report has it as unsealed.
    deny(libc::SYS_mprotect, argument(2), RX.unsigned_abs(), RX.unsigned_abs());
    let report = hits.detach();
    assert_eq!((report.patched(), report.unsealed(), unrestored_bytes()), (2, 1, left), "{report}");
    assert_eq!(text.differences(), []);
}

/// Denies the system call that tests whether a page is writable.
fn no_answer() {
    let question = (libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG).unsigned_abs();
    deny(libc::SYS_futex, argument(1), ALL, question);
}

/// A second attachment shares one of the probes.
fn held_open() {
    let set = select("patching::text_unknown::*").unwrap().text_policy(TextPolicy::Open);
    let all = set.attach(Count::new()).unwrap();
    let one = select("patching::text_unknown::first")
        .unwrap()
        .text_policy(TextPolicy::Open)
        .attach(Count::new())
        .unwrap();
    let _watched = Watched::new();
    no_answer();
    for (report, patched) in [(all.pause(), 1), (one.pause(), 1), (one.resume(), 1), (all.resume(), 1)] {
        assert_eq!((report.patched(), report.refused(), report.unsealed()), (patched, 0, 0), "{report}");
    }
    assert_eq!((first(1), second(1)), (2, 2));
    assert_eq!((all.total(), one.total()), (2, 1));
}

fn silence() {
    let text = Text::of_this_process();
    let _watched = Watched::new();
    no_answer();
    let error = select("patching::text_unknown::*").unwrap().attach(Count::new()).unwrap_err();
    let Error::Refused(report) = &error else { panic!("{error}") };
    assert_eq!((report.patched(), report.unchanged(), report.refused()), (0, 0, 2));
    for refusal in report.refusals() {
        assert_eq!(*refusal.reason(), RefusalReason::Unknown { errno: libc::EPERM });
    }
    assert_eq!((first(1), second(1), unrestored_bytes()), (2, 2, 0));
    assert_eq!(text.differences(), []);
}
