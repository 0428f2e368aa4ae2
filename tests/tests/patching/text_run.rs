//! Runs of pages that can't be opened as a whole: one page that may not be read, or that is sealed,
//! refuses its own sites and no others, each for its own reason, however sites are written; and
//! nothing is read that nobody may read. Each scenario is a process of its own: it changes the
//! rights of the program's text.
#![cfg(all(target_arch = "x86_64", target_os = "linux", not(any(probe_portable, probe_off))))]

use std::arch::asm;

use probe_runtime::patch::{OpenText, RefusalReason, Report, TextError, TextPolicy, unrestored_bytes};
use probe_runtime::{Count, Error, point, select};
use probe_tests::pages::{NONE, PAGE, RWX, RX, rights};
use probe_tests::sandbox::{ALL, argument, deny};
use probe_tests::scenario;
use probe_tests::text::Text;

#[inline(always)]
fn site() {
    point!("site");
}

/// Three sites, each at the beginning of a page of its own, side by side; on the one in the middle
/// there is nothing else.
#[inline(never)]
fn spread() {
    site();
    // SAFETY: jumps over padding.
    unsafe { asm!("jmp 2f", ".p2align 12, 0x90", "2:", options(nomem, nostack)) };
    site();
    // SAFETY: as above.
    unsafe { asm!("jmp 2f", ".p2align 12, 0x90", "2:", options(nomem, nostack)) };
    site();
}

/// The three sites. Found through the kernel, so that nothing is known of their pages.
fn sites(text: &Text) -> [usize; 3] {
    let hits = select("patching::text_run::**::site")
        .unwrap()
        .text_policy(TextPolicy::Alias)
        .attach(Count::new())
        .unwrap();
    spread();
    assert_eq!((hits.total(), hits.report().patched()), (3, 3));
    let changed: Vec<_> =
        text.differences().into_iter().filter(|it| it.file == 0x0f).map(|it| it.at).collect();
    drop(hits);
    assert_eq!(text.differences(), []);
    let sites: [usize; 3] = changed.try_into().unwrap();
    assert_eq!(sites.map(|it| it / PAGE), [0, 1, 2].map(|page| sites[0] / PAGE + page));
    sites
}

fn page(site: usize) -> std::ops::Range<usize> {
    let start = site & !(PAGE - 1);
    start..start + PAGE
}

fn protect(site: usize, rights: i32) {
    // SAFETY: a page of this program's text, which nobody executes while it can't be.
    assert_eq!(unsafe { libc::mprotect(page(site).start as *mut _, PAGE, rights) }, 0);
}

/// Attaches and detaches: two sites are switched, and the one in the middle is refused.
fn refuses_one(policy: TextPolicy, strict: bool, middle: usize, reason: &RefusalReason) {
    let set = select("patching::text_run::**::site").unwrap().text_policy(policy).strict(strict);
    let hits = set.attach(Count::new()).unwrap();
    let check = |report: &Report, refused| {
        let counts = (report.patched(), report.unchanged(), report.refused(), report.unsealed());
        assert_eq!(counts, (2, 1 - refused, refused, 0), "{policy:?}, strict: {strict}: {report}");
        for refusal in report.refusals() {
            assert_eq!((refusal.site(), refusal.reason()), (middle, reason), "{policy:?}, strict: {strict}");
        }
    };
    check(hits.report(), 1);
    // If the bytes are readable, they are as wanted after detaching.
    let is_seen = *reason != RefusalReason::Unreadable;
    check(&hits.detach(), usize::from(!is_seen));
}

#[test]
fn a_page_that_may_not_be_read_refuses_its_own_sites() {
    scenario::pass("unreadable", &[]);
}

#[test]
fn a_sealed_page_refuses_its_own_sites() {
    scenario::pass("sealed", &[]);
}

#[test]
fn what_a_batch_knows_is_forgotten_where_a_guard_asks() {
    scenario::pass("known", &[]);
}

#[test]
fn nothing_is_read_where_nobody_says_that_it_can_be() {
    scenario::pass("unknown", &[]);
}

#[test]
#[ignore = "other tests play it, in children"]
fn scenario() {
    let asked = scenario::to_play();
    match asked.as_str() {
        "unreadable" => unreadable(),
        "sealed" => sealed(),
        "known" => known(),
        "unknown" => unknown(),
        other => panic!("no scenario {other}"),
    }
}

fn unreadable() {
    let text = Text::of_this_process();
    let [first, middle, last] = sites(&text);
    protect(middle, NONE);
    let all = page(first).start..page(last).end;
    for strict in [false, true] {
        for policy in [TextPolicy::Sealed, TextPolicy::Alias] {
            refuses_one(policy, strict, middle, &RefusalReason::Unreadable);
            assert_eq!(rights(&all), ["r-xp", "---p", "r-xp"]);
        }
    }
    // Text that stays open is opened whole.
    let open = select("patching::text_run::**::site")
        .unwrap()
        .text_policy(TextPolicy::Open)
        .attach(Count::new())
        .unwrap_err();
    assert!(matches!(open, Error::TextProtected { .. }), "{open}");
    assert_eq!(rights(&all), ["r-xp", "---p", "r-xp"]);
    protect(middle, RX);
    text.assert_as_in_file();
    assert_eq!(unrestored_bytes(), 0);
}

fn sealed() {
    const SYS_MSEAL: libc::c_long = 462;
    let text = Text::of_this_process();
    let [first, middle, last] = sites(&text);
    // SAFETY: from here on the page's rights can't be changed, which nobody has to.
    if unsafe { libc::syscall(SYS_MSEAL, page(middle).start, PAGE, 0) } != 0 {
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOSYS));
        println!("skipped: this kernel has no mseal(2)");
        return;
    }
    for strict in [false, true] {
        let reason = RefusalReason::Protected { errno: libc::EPERM };
        refuses_one(TextPolicy::Sealed, strict, middle, &reason);
        assert_eq!(rights(&(page(first).start..page(last).end)), ["r-xp"; 3]);
        let set =
            select("patching::text_run::**::site").unwrap().text_policy(TextPolicy::Alias).strict(strict);
        let hits = set.attach(Count::new()).unwrap();
        spread();
        assert_eq!((hits.report().patched(), hits.total(), hits.detach().patched()), (3, 3, 3));
    }
    text.assert_as_in_file();
    assert_eq!(unrestored_bytes(), 0);
}

fn known() {
    let text = Text::of_this_process();
    let [_, middle, _] = sites(&text);
    let whole = || {
        let hits = select("patching::text_run::**::site").unwrap().attach(Count::new()).unwrap();
        assert_eq!((hits.report().patched(), hits.detach().patched()), (3, 3));
    };
    whole();
    protect(middle, NONE);
    // It asks, even where it is refused.
    let guard = OpenText::new(page(middle)).unwrap_err();
    assert_eq!(guard, TextError::NotReadable { addr: page(middle).start });
    refuses_one(TextPolicy::Sealed, false, middle, &RefusalReason::Unreadable);
    protect(middle, RX);
    whole();
    text.assert_as_in_file();
}

fn unknown() {
    let text = Text::of_this_process();
    let [_, middle, _] = sites(&text);
    protect(middle, NONE);
    // No file can be opened, and nothing be made writable and executable.
    deny(libc::SYS_openat, argument(2), 0, 0);
    deny(libc::SYS_mprotect, argument(2), ALL, RWX.unsigned_abs());
    let errno = libc::EPERM;
    for (policy, strict, reason) in [
        (TextPolicy::Sealed, false, RefusalReason::Protected { errno }),
        (TextPolicy::Sealed, true, RefusalReason::Unknown { errno }),
        (TextPolicy::Alias, false, RefusalReason::NoAlias { errno }),
        (TextPolicy::Alias, true, RefusalReason::NoAlias { errno }),
    ] {
        let error = select("patching::text_run::**::site")
            .unwrap()
            .text_policy(policy)
            .strict(strict)
            .attach(Count::new())
            .unwrap_err();
        let Error::Refused(report) = &error else { panic!("{error}") };
        assert_eq!(
            (report.patched(), report.unchanged(), report.refused()),
            (0, 0, 3),
            "{policy:?}: {error}"
        );
        assert!(report.refusals().iter().all(|refusal| *refusal.reason() == reason), "{policy:?}: {error}");
    }
    protect(middle, RX);
    assert_eq!(text.differences(), []);
}
