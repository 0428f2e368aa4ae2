//! Restrictions of the system on text: sealed mappings, policies, no way back, no `/proc`. Each is
//! reported clearly, nothing is half done, and the rest continues.
//! Each scenario is a process of its own, since none of it can be undone.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use probe_runtime::patch::word::WordOptions;
use probe_runtime::patch::{
    OpenText, PatchError, RefusalReason, TextError, TextPolicy, call, unrestored_bytes,
};
use probe_runtime::{Count, Error, select};
use probe_tests::pages::{NONE, PAGE, Pages, R, RWX, RX};
use probe_tests::sandbox::{ALL, argument, deny};
use probe_tests::scenario;
use probe_tests::stops::Stops;
use probe_tests::text::Text;

probe_tests::first_and_second!();

#[test]
fn sealed_mappings_are_refused_and_nothing_changes() {
    scenario::runs_in_a_child("scenario", "mseal");
}

#[test]
fn a_policy_against_writable_code_is_refused_and_nothing_changes() {
    scenario::runs_in_a_child("scenario", "write xor execute");
}

#[test]
fn a_denied_mprotect_is_refused_and_nothing_changes() {
    scenario::runs_in_a_child("scenario", "no mprotect");
}

#[test]
fn what_can_not_be_restored_is_told_and_counted() {
    scenario::runs_in_a_child("scenario", "no way back");
}

#[test]
fn without_the_maps_file_batches_go_on_and_guards_are_refused() {
    scenario::runs_in_a_child("scenario", "no maps");
}

#[test]
fn without_the_ioctl_the_file_is_read() {
    scenario::runs_in_a_child("scenario", "no ioctl");
}

#[test]
fn a_child_process_has_its_own_openers() {
    scenario::runs_in_a_child("scenario", "fork");
}

/// The scenarios of the children.
#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    match asked.as_str() {
        "mseal" => mseal(),
        "write xor execute" => write_xor_execute(),
        "no mprotect" => no_mprotect(),
        "no way back" => no_way_back(),
        "no maps" => no_maps(),
        "no ioctl" => no_ioctl(),
        "fork" => fork(),
        other => panic!("no scenario {other}"),
    }
    println!("done: {asked}");
}

const ALIAS_WORKS: &str = "TextPolicy::Alias works here: write `.text_policy(TextPolicy::Alias)` in code, or `text=alias` in \
                           PROBES, as in `count(text=alias)`";

/// Attaching under each policy that needs `mprotect` is refused with this error number, and changes
/// nothing.
fn assert_all_refused(errno: i32) {
    let text = Text::of_this_process();
    let set = select("patching::text_denied::*").unwrap();
    let error = set.attach(Count::new()).unwrap_err();
    let Error::Refused(report) = &error else { panic!("{error}") };
    assert_eq!((report.patched(), report.unchanged(), report.refused()), (0, 0, 2));
    for refusal in report.refusals() {
        assert_eq!(*refusal.reason(), RefusalReason::Protected { errno });
    }
    assert_eq!(report.alternative(), Some(TextPolicy::Alias));
    assert!(error.to_string().ends_with(ALIAS_WORKS), "{error}");
    let error = set.text_policy(TextPolicy::Open).attach(Count::new()).unwrap_err();
    let Error::TextProtected { text: range, error: reason, alternative } = &error else { panic!("{error}") };
    assert_eq!((range, reason.raw_os_error()), (&text.range(), Some(errno)));
    assert_eq!(*alternative, Some(TextPolicy::Alias));
    assert!(error.to_string().ends_with(ALIAS_WORKS), "{error}");
    let error = OpenText::new(text.range()).unwrap_err();
    assert_eq!(error.errno(), Some(errno));
    assert!(error.to_string().contains("TextPolicy::Alias may write there"), "{error}");
    assert_eq!((first(1), second(1)), (2, 2));
    text.assert_as_in_file();
    assert_eq!(unrestored_bytes(), 0);
    assert_the_kernel_writes(&text);
}

/// `Alias` patches the refused sites.
fn assert_the_kernel_writes(text: &Text) {
    for strict in [false, true] {
        let set = select("patching::text_denied::*").unwrap().text_policy(TextPolicy::Alias).strict(strict);
        let hits = set.attach(Count::new()).unwrap();
        assert_eq!((hits.report().patched(), hits.report().refused()), (2, 0));
        assert_eq!((first(1), second(1), hits.total()), (2, 2, 2));
        let report = hits.detach();
        assert_eq!((report.patched(), report.is_complete()), (2, true));
        text.assert_as_in_file();
    }
    let at = site(text);
    for nop in [[0x0f, 0x1f, 0x44, 0x00, 0x00], [0x0f, 0x1f, 0x44, 0x00, 0x08]] {
        // SAFETY: the NOP of a site for another, and back.
        unsafe { WordOptions::new().text_policy(TextPolicy::Alias).patch(at, nop.into()) }.unwrap();
        assert_eq!(first(1), 2);
    }
    text.assert_as_in_file();
}

/// A site's address: the first byte that activating it changes.
fn site(text: &Text) -> usize {
    let set = select("patching::text_denied::*").unwrap().text_policy(TextPolicy::Alias);
    let _hits = set.attach(Count::new()).unwrap();
    text.differences()[0].at
}

fn mseal() {
    const SYS_MSEAL: libc::c_long = 462;
    let pages = Pages::new(&[RX, RX, RX]);
    let seal = |range: &Range<usize>| {
        // SAFETY: from here on the mapping can't be changed, which nobody wants to.
        if unsafe { libc::syscall(SYS_MSEAL, range.start, range.len(), 0) } == 0 {
            return true;
        }
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOSYS));
        println!("skipped: this kernel has no mseal(2)");
        false
    };
    if !seal(&(pages.at(1)..pages.at(2))) {
        return;
    }
    let error = OpenText::new(pages.at(0)..pages.at(3)).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EPERM));
    // The page before had been opened by then.
    assert_eq!(pages.rights(), ["r-xp", "r-xp", "r-xp"]);
    let beside = OpenText::new(pages.at(0)..pages.at(1)).unwrap();
    assert_eq!(pages.rights(), ["rwxp", "r-xp", "r-xp"]);
    beside.close().unwrap();
    let range = Text::of_this_process().range();
    assert!(seal(&(range.start & !(PAGE - 1)..range.end.next_multiple_of(PAGE))));
    assert_all_refused(libc::EPERM);
}

fn write_xor_execute() {
    const PR_SET_MDWE: i32 = 65;
    // SAFETY: no pointers. From here on, nothing that can be executed can become writable.
    if unsafe { libc::prctl(PR_SET_MDWE, 1, 0, 0, 0) } != 0 {
        println!("skipped: this kernel has no PR_SET_MDWE");
        return;
    }
    assert_all_refused(libc::EACCES);
}

fn no_mprotect() {
    deny(libc::SYS_mprotect, argument(2), RWX.unsigned_abs(), RWX.unsigned_abs());
    assert_all_refused(libc::EPERM);
}

fn no_way_back() {
    let text = Text::of_this_process();
    let pages = Pages::new(&[RX, R]);
    let (one, two) =
        (OpenText::new(pages.at(0)..pages.at(2)).unwrap(), OpenText::new(pages.at(0)..pages.at(1)));
    let hits = select("patching::text_denied::*")
        .unwrap()
        .text_policy(TextPolicy::Open)
        .attach(Count::new())
        .unwrap();
    // Text can be opened, but not be sealed.
    deny(libc::SYS_mprotect, argument(2), ALL, RX.unsigned_abs());
    one.close().unwrap();
    assert_eq!((pages.rights(), unrestored_bytes()), (vec!["rwxp".to_owned(), "r--p".to_owned()], 0));
    let error = two.unwrap().close().unwrap_err();
    assert_eq!(error, TextError::Unrestored { pages: pages.at(0)..pages.at(1), errno: libc::EPERM });
    assert_eq!(unrestored_bytes(), PAGE);
    // Another guard works, and fails to restore what the first one could not.
    drop(OpenText::new(pages.0.clone()).unwrap());
    assert_eq!((pages.rights(), unrestored_bytes()), (vec!["rwxp".to_owned(), "r--p".to_owned()], PAGE));
    let report = hits.detach();
    assert_eq!((report.patched(), report.unsealed(), report.is_complete()), (2, 1, false), "{report}");
    let whole = text.range().start & !(PAGE - 1)..text.range().end.next_multiple_of(PAGE);
    assert_eq!(unrestored_bytes(), PAGE + whole.len());
    assert_eq!(text.differences(), []);
    // Batches continue there.
    let hits = select("patching::text_denied::**::first").unwrap().attach(Count::new()).unwrap();
    assert_eq!((hits.report().patched(), hits.report().unsealed()), (1, 1));
    assert_eq!((first(1), hits.total()), (2, 1));
    drop(hits);
    assert_eq!(text.differences(), []);
    no_way_back_from_a_call();
}

/// The CALL is switched, and what could not be done is told.
fn no_way_back_from_a_call() {
    let pages = Pages::new(&[NONE]);
    let (site, skip) = (pages.at(0) + 6, [0xeb, 0x03, 0x00, 0x00, 0x00]);
    let five = |at: usize| {
        // SAFETY: in a page of this test's own, which can be read.
        unsafe { (at as *const [u8; 5]).read() }
    };
    // Not by `mprotect`, which lets nothing become so any more.
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: replaces a page of this test's own.
    let exec = unsafe { libc::mmap(pages.at(0) as *mut _, PAGE, RX, flags, -1, 0) };
    assert_eq!(exec.addr(), pages.at(0));
    let before = unrestored_bytes();
    // SAFETY: no CALL yet: bytes of zero, which nobody executes.
    let error = unsafe { call::deactivate_call(site) }.unwrap_err();
    assert!(matches!(error, PatchError::NotACall { .. }), "{error}");
    assert_eq!((pages.rights(), unrestored_bytes()), (vec!["rwxp".to_owned()], before + PAGE));
    // SAFETY: it was left writable.
    unsafe { (site as *mut [u8; 5]).write([0xe8, 0x00, 0x00, 0x00, 0x00]) };
    // SAFETY: a CALL that nobody executes.
    let error = unsafe { call::deactivate_call(site) }.unwrap_err();
    let said = error.to_string();
    assert!(
        said.starts_with(&format!("{site:#x}: the instruction is as was asked for, but pages")),
        "{said}"
    );
    let PatchError::Text { addr, error } = error else { panic!("{error}") };
    assert_eq!((addr, five(site)), (site, skip));
    assert_eq!(error, TextError::Unrestored { pages: pages.0.clone(), errno: libc::EPERM });
}

fn no_maps() {
    let text = Text::of_this_process();
    // As where no descriptor is free, or `/proc` is not mounted: the sandbox lets no file be
    // opened.
    deny(libc::SYS_openat, argument(2), 0, 0);
    let at = first as fn(u64) -> u64 as usize;
    let error = OpenText::new(at..at + 1).unwrap_err();
    assert_eq!(error, TextError::Unknown { errno: libc::EPERM });
    let hits = select("patching::text_denied::*").unwrap().attach(Count::new()).unwrap();
    assert_eq!((first(1), second(1), hits.total()), (2, 2, 2));
    let report = hits.detach();
    assert_eq!((report.patched(), report.is_complete()), (2, true));
    assert_eq!(text.differences(), []);
    let refused = select("patching::text_denied::*").unwrap().strict(true).attach(Count::new()).unwrap_err();
    let Error::Refused(report) = &refused else { panic!("{refused}") };
    assert_eq!(*report.refusals()[0].reason(), RefusalReason::Unknown { errno: libc::EPERM });
    assert!(refused.to_string().contains("mount /proc, or leave a descriptor free"), "{refused}");
    let refused = select("patching::text_denied::*")
        .unwrap()
        .text_policy(TextPolicy::Alias)
        .attach(Count::new())
        .unwrap_err();
    let Error::Refused(report) = &refused else { panic!("{refused}") };
    assert_eq!(*report.refusals()[0].reason(), RefusalReason::NoAlias { errno: libc::EPERM });
    assert!(refused.to_string().contains("proc_mem.force_override"), "{refused}");
}

fn no_ioctl() {
    let pages = Pages::new(&[RX, R, NONE]);
    deny(libc::SYS_ioctl, argument(1), ALL, 0xc068_6611);
    let open = OpenText::new(pages.at(0) + 9..pages.at(2)).unwrap();
    assert_eq!(pages.rights(), ["rwxp", "rw-p", "---p"]);
    open.close().unwrap();
    assert_eq!(pages.rights(), ["r-xp", "r--p", "---p"]);
    assert_eq!(OpenText::new(pages.0.clone()).unwrap_err(), TextError::NotReadable { addr: pages.at(2) });
    let text = Text::of_this_process();
    assert_eq!(
        select("patching::text_denied::*").unwrap().attach(Count::new()).unwrap().detach().patched(),
        2
    );
    text.assert_as_in_file();
}

fn fork() {
    let pages = Pages::new(&[RX, RX]);
    let (inner, outer) = (OpenText::new(pages.at(0)..pages.at(1)), OpenText::new(pages.0.clone()));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stops = Stops(&stop);
        // The mutex is taken most of the time.
        scope.spawn(|| {
            let busy = Pages::new(&[RX]);
            while !stop.load(Ordering::Relaxed) {
                drop(OpenText::new(busy.0.clone()).unwrap());
            }
        });
        for _ in 0..50 {
            // SAFETY: the child calls what a child of a program with threads may, and the runtime,
            // which takes its locks across a fork.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: no pointers.
                unsafe { libc::alarm(20) };
                let done = std::panic::catch_unwind(|| {
                    let again = OpenText::new(pages.at(1)..pages.at(2)).unwrap();
                    drop(again);
                    assert_eq!(pages.rights(), ["rwxp", "rwxp"]);
                });
                // SAFETY: ends this process at once.
                unsafe { libc::_exit(i32::from(done.is_err())) };
            }
            let mut status = -1;
            // SAFETY: `status` is a place for the result.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0);
        }
        drop(stops);
    });
    drop(inner);
    assert_eq!(pages.rights(), ["rwxp", "rwxp"]);
    drop(outer);
    assert_eq!(pages.rights(), ["r-xp", "r-xp"]);
}
