//! A program with libraries built against incompatible runtimes: one registry sees both sets.
//! Prints what `link/transcript` prints.

use std::hint::black_box;

use probe_runtime::losses::unreadable_records;
use probe_runtime::registry::ProbeState;
use probe_runtime::{Attachment, Count, probe, probes, select};

/// Hits of one call: `double` 2, `old::keep` 1, `triple` 3, `new::keep` 2, `app::work` 1, and as
/// many points as calls.
#[probe]
#[inline(never)]
fn work() {
    assert_eq!(old::double(1) + old::double(2), 6);
    assert_eq!(new::triple(1) + new::triple(2) + new::triple(3), 18);
    assert_eq!(old::keep(black_box(1_u8)), 1);
    assert_eq!((new::keep(black_box(1_u8)), new::keep(black_box(2_u64))), (1, 2));
}

fn counts(hits: &Attachment<Count>) {
    for count in hits.counts() {
        println!("hits {} {} {}", count.probe.path(), count.probe.kind().name(), count.hits);
    }
}

fn one_runtime() {
    for probe in probes() {
        println!("probe {} {} {}", probe.path(), probe.kind().name(), probe.sites());
    }
    assert_eq!(unreadable_records(), 0);
    let hits = select("**").expect("probes").attach(Count::new()).expect("attach");
    assert!(hits.report().is_complete(), "{}", hits.report());
    println!("patched {}", hits.report().patched());
    work();
    counts(&hits);
    println!("restored {}", hits.detach().patched());
    work();
    assert!(probes().iter().all(|probe| probe.state() == ProbeState::Latent));
    // The process ends with everything attached.
    let hits = select("**").expect("probes").attach(Count::new()).expect("attach");
    work();
    println!("at exit {}", hits.total());
    std::mem::forget(hits);
}

/// Each of the two runtimes listens to some probes of each version, at the same time.
#[cfg(feature = "two-runtimes")]
fn two_runtimes() {
    assert_eq!(new::runtime::known(), probes().len());
    let selectors = ["old::double, new::triple", "old::keep, new::keep, app::work kind=entry"];
    let ours = select(selectors[0]).expect("probes").attach(Count::new()).expect("attach");
    let theirs = new::runtime::attach(selectors[1]).unwrap_or_else(|refused| panic!("{refused} refused"));
    work();
    println!("ours {} of {}", ours.total(), ours.report().patched());
    println!("theirs {} of {}", theirs.total(), theirs.patched());
    // A runtime is refused the probes that another one has attached.
    println!("refused {}", new::runtime::attach(selectors[0]).err().expect("taken"));
    println!("restored {} {}", ours.detach().patched(), theirs.detach());
    let again = select(selectors[0]).expect("probes").attach(Count::new()).expect("attach");
    let theirs = new::runtime::attach(selectors[1]).unwrap_or_else(|refused| panic!("{refused} refused"));
    work();
    println!("at exit {} {}", again.total(), theirs.total());
    std::mem::forget((again, theirs));
}

fn main() {
    work();
    #[cfg(feature = "two-runtimes")]
    two_runtimes();
    if cfg!(not(feature = "two-runtimes")) {
        one_runtime();
    }
    println!("ok");
}
