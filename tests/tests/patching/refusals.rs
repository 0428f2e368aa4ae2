//! Refused operations: a debugger's breakpoint on a site, text that the system does not let become
//! writable, no `membarrier`. Each is reported, other sites work, and no operation is half done. A
//! process of its own; the sandboxed scenarios run in children, since a seccomp filter can't be
//! taken off.
#![cfg(not(probe_portable))]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use probe_runtime::patch::{RefusalReason, TextPolicy, Visibility};
use probe_runtime::registry::ProbeState;
use probe_runtime::{Consumer, Count, Error, Event, select};
use probe_tests::sandbox::{argument, deny};
use probe_tests::scenario;
use probe_tests::text::{Difference, Text, write_byte};
// The tests compare the whole text.
use probe_tests::stops::Stops;
use probe_tests::turn::turn;

probe_tests::first_and_second!();

/// Returns the address of a probe's only site: the first byte that attaching changes.
fn site(selector: &str, text: &Text) -> usize {
    let hits = select(selector).unwrap().attach(Count::new()).unwrap();
    assert_eq!(hits.report().patched(), 1);
    let differences = text.differences();
    assert_eq!((differences[0].file, differences[0].memory), (0x0f, 0xe9));
    drop(hits);
    assert_eq!(text.differences(), []);
    differences[0].at
}

fn five_bytes(at: usize) -> [u8; 5] {
    // SAFETY: a site in the text.
    unsafe { *(at as *const [u8; 5]) }
}

#[test]
fn a_breakpoint_is_reported_and_left_alone() {
    let _turn = turn();
    let text = Text::of_this_process();
    assert_eq!((first(1), second(1)), (2, 2));
    let at = site("patching::refusals::**::first", &text);
    let nop = [0x0f, 0x1f, 0x44, 0x00, 0x08];
    assert_eq!(five_bytes(at), nop);
    write_byte(at, 0xcc);
    let broken = [Difference { at, file: 0x0f, memory: 0xcc }];
    let found = [0xcc, 0x1f, 0x44, 0x00, 0x08];

    // With other sites: these work.
    let hits = select("patching::refusals::*").unwrap().attach(Count::new()).unwrap();
    let report = hits.report();
    assert_eq!((report.patched(), report.unchanged(), report.refused()), (1, 0, 1));
    assert!(!report.is_complete());
    let [refusal] = report.refusals() else { panic!("{report}") };
    assert_eq!(refusal.site(), at);
    assert_eq!(*refusal.reason(), RefusalReason::Foreign { expected: nop, found });
    let shown = format!(
        "1 patched, 0 unchanged, 1 refused\n  site {at:#x}: expected [0f, 1f, 44, 00, 08], \
         found [cc, 1f, 44, 00, 08]: a debugger's breakpoint, or a tracer's (a uprobe): remove it"
    );
    assert_eq!(report.to_string(), shown);
    second(1);
    assert_eq!(hits.total(), 1);
    assert_eq!(five_bytes(at), found);
    // The other site becomes latent again; the breakpoint hides the bytes of this one.
    let report = hits.detach();
    assert_eq!((report.patched(), report.refused()), (1, 1));
    assert_eq!(text.differences(), broken);

    // Alone: no site could be activated, and no attachment remains.
    let error = select("patching::refusals::**::first").unwrap().attach(Count::new()).unwrap_err();
    let Error::Refused(report) = &error else { panic!("{error}") };
    assert_eq!((report.patched(), report.unchanged(), report.refused()), (0, 0, 1));
    assert!(error.to_string().starts_with("no site could be activated: 0 patched, 0 unchanged, 1 refused"));
    let [probe] = &select("patching::refusals::**::first").unwrap().probes()[..] else { panic!("one probe") };
    assert_eq!((probe.state(), probe.foreign().len()), (ProbeState::Foreign, 1));
    assert_eq!(text.differences(), broken);

    // Without the breakpoint, the site works again.
    write_byte(at, 0x0f);
    let hits = select("patching::refusals::**::first").unwrap().attach(Count::new()).unwrap();
    first(1);
    assert_eq!(hits.total(), 1);
    // A breakpoint on the active site stays until the debugger removes it.
    let active = five_bytes(at);
    write_byte(at, 0xcc);
    let report = hits.detach();
    assert_eq!((report.patched(), report.refused()), (0, 1));
    let [refusal] = report.refusals() else { panic!("{report}") };
    let [_, rest @ ..] = active;
    let found = [0xcc, rest[0], rest[1], rest[2], rest[3]];
    assert_eq!(*refusal.reason(), RefusalReason::Foreign { expected: active, found });
    write_byte(at, 0xe9);
    assert_eq!(first(1), 2, "active, but nobody listens");
    // The next attachment finds the site active, and leaves it latent.
    let hits = select("patching::refusals::**::first").unwrap().attach(Count::new()).unwrap();
    assert_eq!((hits.report().patched(), hits.report().unchanged()), (0, 1));
    first(1);
    assert_eq!(hits.total(), 1);
    drop(hits);
    text.assert_as_in_file();
}

#[test]
fn sealed_text_is_refused_and_nothing_changes() {
    scenario::runs_in_a_child("sandboxed", "mprotect");
}

#[test]
fn text_that_is_open_already_can_be_patched_all_the_same() {
    scenario::runs_in_a_child("sandboxed", "mprotect while open");
}

#[test]
fn without_membarrier_it_works_all_the_same() {
    scenario::runs_in_a_child("sandboxed", "membarrier");
}

/// The scenarios of the children.
#[test]
#[ignore = "other tests play it, in children"]
fn sandboxed() {
    let asked = scenario::to_play();
    match asked.as_str() {
        "mprotect" => mprotect_denied(),
        "mprotect while open" => mprotect_denied_while_open(),
        "membarrier" => membarrier_denied(),
        other => panic!("no scenario {other}"),
    }
    println!("done: {asked}");
}

const WRITE_EXEC: u32 = (libc::PROT_WRITE | libc::PROT_EXEC).unsigned_abs();

fn mprotect_denied() {
    let text = Text::of_this_process();
    let set = select("patching::refusals::*").unwrap();
    deny(libc::SYS_mprotect, argument(2), WRITE_EXEC, WRITE_EXEC);
    let error = set.attach(Count::new()).unwrap_err();
    let Error::Refused(report) = &error else { panic!("{error}") };
    assert_eq!((report.patched(), report.unchanged(), report.refused()), (0, 0, 2));
    for refusal in report.refusals() {
        assert_eq!(*refusal.reason(), RefusalReason::Protected { errno: libc::EPERM });
        assert!(refusal.to_string().ends_with(
            ": the system does not let its page be written: Operation not permitted (os error 1)"
        ));
    }
    let error = set.clone().text_policy(TextPolicy::Open).attach(Count::new()).unwrap_err();
    let Error::TextProtected { text: range, error: reason, .. } = &error else { panic!("{error}") };
    assert_eq!((range.start, range.end), (text.range().start, text.range().end));
    assert_eq!(reason.raw_os_error(), Some(libc::EPERM));
    let shown = format!(
        "text at {:#x}..{:#x} can't be kept writable: Operation not permitted (os error 1); \
         TextPolicy::Alias works here: write `.text_policy(TextPolicy::Alias)` in code, or `text=alias` in PROBES, as in \
         `count(text=alias)`",
        range.start, range.end
    );
    assert_eq!(error.to_string(), shown);
    assert!(set.text_policy(TextPolicy::Open).hold().is_err());
    assert_eq!((first(1), second(1)), (2, 2));
    text.assert_as_in_file();
    assert!(probe_runtime::probes().iter().all(|probe| probe.state() == ProbeState::Latent));
}

fn mprotect_denied_while_open() {
    let set = select("patching::refusals::**::first").unwrap().text_policy(TextPolicy::Open);
    let open = set.attach(Count::new()).unwrap();
    deny(libc::SYS_mprotect, argument(2), WRITE_EXEC, WRITE_EXEC);
    let sealed = select("patching::refusals::**::second").unwrap().attach(Count::new()).unwrap();
    assert_eq!(sealed.report().patched(), 1);
    assert_eq!((first(1), second(1)), (2, 2));
    assert_eq!((open.total(), sealed.total()), (1, 1));
    assert_eq!(sealed.detach().patched(), 1);
    assert_eq!(open.detach().patched(), 1);
    Text::of_this_process().assert_as_in_file();
}

/// A consumer that checks that it is not called after its drop.
struct Alive(AtomicU64);

impl Consumer for Alive {
    fn hit(&self, _event: &Event<'_>) {
        let value = self.0.load(Ordering::Relaxed);
        assert_eq!(value, 0x5555);
        self.0.store(value, Ordering::Relaxed);
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.store(0xdead, Ordering::Relaxed);
    }
}

fn membarrier_denied() {
    deny(libc::SYS_membarrier, argument(0), 0, 0);
    // SAFETY: takes no pointer.
    assert_eq!(unsafe { libc::syscall(libc::SYS_membarrier, 0, 0, 0) }, -1, "denied");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let stops = Stops(&stop);
        let worker = scope.spawn(|| {
            let mut calls = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                assert_eq!(first(calls), calls + 1);
                calls += 1;
            }
            calls
        });
        for round in 0..2_000 {
            let policy = if round % 2 == 0 { TextPolicy::Sealed } else { TextPolicy::Open };
            let set = select("patching::refusals::**::first")
                .unwrap()
                .text_policy(policy)
                .visibility(Visibility::Synchronous);
            let alive = set.attach(Alive(AtomicU64::new(0x5555))).unwrap();
            assert_eq!(alive.failure(), None);
            drop(alive);
        }
        drop(stops);
        assert!(worker.join().unwrap() > 0);
    });
    let hits = select("patching::refusals::*").unwrap().attach(Count::new()).unwrap();
    for _ in 0..100 {
        assert_eq!((first(1), second(1)), (2, 2));
    }
    assert_eq!(hits.total(), 200);
    drop(hits);
    Text::of_this_process().assert_as_in_file();
}
