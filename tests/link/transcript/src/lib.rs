//! The output of every fixture: lines of words, which the driver compares.
//!
//! ```text
//! probe <path> <kind> <sites>      for each probe listed
//! none                             if `**` matches no probe
//! patched <sites>                  what attaching switched
//! hits <path> <kind> <hits>        for each probe, after one run of the work
//! restored <sites>                 what detaching switched
//! ok                               if the rest, which is asserted here, was right
//! ```

use probe_runtime::registry::ProbeState;
use probe_runtime::{Attachment, Count, Error, probes, select};

/// Lists, attaches, counts one run of `work`, pauses, resumes, detaches.
pub fn run(work: fn()) {
    list();
    let set = match select("**") {
        Ok(set) => set,
        Err(Error::NoMatch { probes: 0, .. }) => {
            work();
            println!("none\nok");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    work();
    let hits = set.attach(Count::new()).expect("attach");
    assert!(hits.report().is_complete(), "{}", hits.report());
    println!("patched {}", hits.report().patched());
    work();
    counts(&hits);
    let once = hits.total();
    assert!(hits.pause().is_complete());
    work();
    assert_eq!(hits.total(), once, "counted while paused");
    assert!(hits.resume().is_complete());
    work();
    assert_eq!(hits.total(), 2 * once, "after the pause");
    let report = hits.detach();
    assert!(report.is_complete(), "{report}");
    println!("restored {}", report.patched());
    work();
    assert!(probes().iter().all(|probe| probe.state() == ProbeState::Latent));
    println!("ok");
}

/// The `probe` lines.
pub fn list() {
    for probe in probes() {
        println!("probe {} {} {}", probe.path(), probe.kind().name(), probe.sites());
    }
    assert_eq!(probe_runtime::losses::unreadable_records(), 0);
}

/// The `hits` lines.
pub fn counts(hits: &Attachment<Count>) {
    for count in hits.counts() {
        println!("hits {} {} {}", count.probe.path(), count.probe.kind().name(), count.hits);
    }
}
