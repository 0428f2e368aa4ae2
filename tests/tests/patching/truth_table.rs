//! Which hits are counted in which state: attached, paused, held, detached, in every order, with
//! one and with two consumers. A process of its own: after each step the states and sites of its
//! probes are compared as a whole.
//!
//! | attached | paused | held | hits |
//! |---|---|---|---|
//! | no | – | any | none |
//! | yes | no | no | counted |
//! | yes | yes | any | not counted |
//! | yes | any | yes | not counted |
//!
//! The table holds for one site in text that stays open, where no thread waits, and for the sites
//! of a function in sealed text.

use std::sync::atomic::{AtomicU64, Ordering};

use probe_runtime::control::Hold;
use probe_runtime::patch::{Report, TextPolicy, Visibility};
use probe_runtime::registry::ProbeState;
use probe_runtime::{Attachment, Consumer, Count, Event, ProbeInfo, ProbeSet, probe, select};
// The tests share the probes.
use probe_tests::turn::turn;
use probe_tests::whole;

#[probe]
#[inline(never)]
fn work(x: u64) -> u64 {
    x + 1
}

#[probe]
#[inline(never)]
#[allow(dead_code)]
fn never_called() {}

fn state() -> ProbeState {
    select("patching::truth_table::work kind=entry").unwrap().probes()[0].state()
}

/// How the probes are selected.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Both of a function.
    Default,
    /// One, which is toggled by a single write.
    Rapid,
}

impl Way {
    fn select(self) -> ProbeSet {
        match self {
            Self::Default => select("patching::truth_table::work").unwrap(),
            Self::Rapid => {
                let set = select("patching::truth_table::work kind=entry").unwrap();
                set.text_policy(TextPolicy::Open).visibility(Visibility::Eventual)
            }
        }
    }
}

/// The attachments to the probes, and their expected counts.
struct Model {
    way: Way,
    attached: [Option<Attachment<Count>>; 2],
    paused: [bool; 2],
    counted: [u64; 2],
    holds: Vec<Hold>,
}

/// One step of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Attach(usize),
    Detach(usize),
    Pause(usize),
    Resume(usize),
    Hold,
    Release,
}

use Step::{Attach, Detach, Pause, Release, Resume};

impl Model {
    fn new(way: Way) -> Self {
        Self { way, attached: [None, None], paused: [false; 2], counted: [0; 2], holds: Vec::new() }
    }

    fn listens(&self, who: usize) -> bool {
        self.attached[who].is_some() && !self.paused[who] && self.holds.is_empty()
    }

    fn expected_state(&self) -> ProbeState {
        match (self.attached.iter().any(Option::is_some), (0..2).any(|who| self.listens(who))) {
            (false, _) => ProbeState::Latent,
            (true, true) => ProbeState::Active,
            (true, false) => ProbeState::Held,
        }
    }

    /// Whether the step makes sense now.
    fn allows(&self, step: Step) -> bool {
        match step {
            Attach(who) => self.attached[who].is_none(),
            Detach(who) | Pause(who) | Resume(who) => self.attached[who].is_some(),
            Step::Hold => self.holds.len() < 2,
            Release => !self.holds.is_empty(),
        }
    }

    fn take(&mut self, step: Step) {
        let set = self.way.select();
        let was_active = self.expected_state() == ProbeState::Active;
        let sites: usize = set.probes().iter().map(ProbeInfo::sites).sum();
        let report = match step {
            Attach(who) => {
                (self.paused[who], self.counted[who]) = (false, 0);
                let attachment = set.attach(Count::new()).unwrap();
                let report = attachment.report().clone();
                self.attached[who] = Some(attachment);
                Some(report)
            }
            Detach(who) => Some(self.attached[who].take().unwrap().detach()),
            Pause(who) => {
                self.paused[who] = true;
                Some(self.attached[who].as_ref().unwrap().pause())
            }
            Resume(who) => {
                self.paused[who] = false;
                Some(self.attached[who].as_ref().unwrap().resume())
            }
            Step::Hold => {
                let hold = set.hold().unwrap();
                let report = hold.report().clone();
                self.holds.push(hold);
                Some(report)
            }
            Release => {
                drop(self.holds.pop());
                None
            }
        };
        let is_active = self.expected_state() == ProbeState::Active;
        if let Some(report) = report {
            let switched = if was_active == is_active { 0 } else { sites };
            assert_eq!(numbers(&report), (switched, sites - switched, 0), "{step:?}");
        }
    }

    /// Asserts that hits are counted where they should be.
    fn check(&mut self, path: &[Step]) {
        assert_eq!(state(), self.expected_state(), "after {path:?}");
        assert_eq!(work(1), 2);
        for who in 0..2 {
            let hits = if let Way::Default = self.way { 2 } else { 1 };
            self.counted[who] += if self.listens(who) { hits } else { 0 };
            if let Some(attached) = &self.attached[who] {
                assert_eq!(
                    attached.total(),
                    self.counted[who],
                    "consumer {who} after {path:?}, {:?}",
                    self.way
                );
            }
        }
    }
}

fn numbers(report: &Report) -> (usize, usize, usize) {
    (report.patched(), report.unchanged(), report.refused())
}

fn walk(path: &[Step]) {
    [Way::Default, Way::Rapid].into_iter().for_each(|way| walk_by(way, path));
}

fn walk_by(way: Way, path: &[Step]) {
    let mut model = Model::new(way);
    for (at, step) in path.iter().enumerate() {
        model.take(*step);
        model.check(&path[..=at]);
    }
}

#[test]
fn one_consumer_walks_the_table() {
    let _turn = turn();
    walk(&[Attach(0), Pause(0), Pause(0), Resume(0), Resume(0), Step::Hold, Release, Detach(0)]);
    walk(&[Step::Hold, Attach(0), Release, Step::Hold, Step::Hold, Release, Release, Detach(0)]);
}

#[test]
fn a_pause_outlasts_a_hold() {
    let _turn = turn();
    walk(&[Attach(0), Pause(0), Step::Hold, Release, Resume(0), Detach(0)]);
    walk(&[Attach(0), Step::Hold, Pause(0), Release, Resume(0), Detach(0)]);
    walk(&[Attach(0), Step::Hold, Pause(0), Resume(0), Release, Detach(0)]);
}

#[test]
fn a_paused_consumer_stays_paused_beside_another() {
    let _turn = turn();
    walk(&[Attach(0), Pause(0), Attach(1), Resume(0), Detach(1), Detach(0)]);
}

#[test]
fn a_paused_consumer_comes_back_after_another_has_left() {
    let _turn = turn();
    walk(&[Attach(0), Attach(1), Pause(0), Detach(1), Resume(0), Detach(0)]);
}

/// Every path of up to five steps that makes sense; a slice has those of up to four.
#[test]
fn every_short_path() {
    let _turn = turn();
    let all = [
        Attach(0),
        Attach(1),
        Detach(0),
        Detach(1),
        Pause(0),
        Pause(1),
        Resume(0),
        Resume(1),
        Step::Hold,
        Release,
    ];
    let mut walked = 0;
    let mut paths: Vec<Vec<Step>> = vec![Vec::new()];
    let (steps, expected) = if whole::is_asked_for() { (5, 2711) } else { (4, 475) };
    for _ in 0..steps {
        let mut longer = Vec::new();
        for path in &paths {
            let mut model = Model::new(Way::Default);
            path.iter().for_each(|step| model.take(*step));
            longer.extend(
                all.iter().filter(|step| model.allows(**step)).map(|step| [path, &[*step][..]].concat()),
            );
        }
        longer.iter().for_each(|path| walk(path));
        walked += longer.len();
        paths = longer;
    }
    assert_eq!(walked, expected);
    assert_eq!(state(), ProbeState::Latent);
}

/// Counts by being called, not by a tally.
#[derive(Default)]
struct Calls(AtomicU64);

impl Consumer for Calls {
    fn hit(&self, _event: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn two_kinds_of_consumer_leave_in_either_order() {
    let _turn = turn();
    let set = select("patching::truth_table::work kind=exit").unwrap();
    for tally_first in [true, false] {
        let tally = set.attach(Count::new()).unwrap();
        let calls = set.attach(Calls::default()).unwrap();
        work(1);
        assert_eq!((tally.total(), calls.0.load(Ordering::Relaxed)), (1, 1));
        if tally_first {
            assert_eq!(tally.detach().patched(), 0);
            work(1);
            assert_eq!(calls.0.load(Ordering::Relaxed), 2);
            assert_eq!(calls.detach().patched(), set.probes()[0].sites());
        } else {
            assert_eq!(calls.detach().patched(), 0);
            work(1);
            assert_eq!(tally.total(), 2);
            assert_eq!(tally.detach().patched(), set.probes()[0].sites());
        }
        assert_eq!(set.probes()[0].state(), ProbeState::Latent);
    }
}

#[test]
#[cfg(not(probe_portable))]
fn a_probe_without_sites_can_be_attached_to() {
    let _turn = turn();
    let set = select("patching::truth_table::never_called").unwrap();
    assert_eq!(set.probes().iter().map(ProbeInfo::sites).collect::<Vec<_>>(), [0, 0]);
    let hits = set.attach(Count::new()).unwrap();
    assert_eq!(numbers(hits.report()), (0, 0, 0));
    assert!(hits.report().is_complete());
    assert_eq!(hits.counts().iter().map(|count| count.hits).collect::<Vec<_>>(), [0, 0]);
    assert_eq!(numbers(&hits.pause()), (0, 0, 0));
    assert_eq!(numbers(&hits.resume()), (0, 0, 0));
    assert_eq!(numbers(&hits.detach()), (0, 0, 0));
}
