//! `Switch`: some probes of an attachment off and on while it stays attached, beside others'
//! attachments, pauses and holds. Counts are exact, and so are the bytes.
//! A process of its own: it compares the text with the file.
#![cfg(not(probe_portable))]

use std::sync::Mutex;

use probe_runtime::control::Switch;
use probe_runtime::patch::{TextPolicy, Visibility};
use probe_runtime::registry::{ProbeId, ProbeState};
use probe_runtime::{Attachment, Consumer, Count, Error, Event, Kind, point, select};
use probe_tests::text::Text;

const SYNC: Visibility = Visibility::Synchronous;

#[inline(never)]
fn one(x: u64) -> u64 {
    point!("one");
    x + 1
}

#[inline(never)]
fn two(x: u64) -> u64 {
    point!("two");
    x + 2
}

#[inline(never)]
fn three(x: u64) -> u64 {
    point!("three");
    x + 3
}

fn all() -> u64 {
    one(1) + two(1) + three(1)
}

fn ids(names: &str) -> Vec<ProbeId> {
    select(names).unwrap().ids().to_vec()
}

fn hits(of: &Attachment<Count>) -> [u64; 3] {
    ["one", "two", "three"]
        .map(|name| of.counts().hits(&format!("patching::switch::{name}"), Kind::Point).unwrap())
}

fn states(of: &Attachment<Count>) -> [ProbeState; 3] {
    ["one", "two", "three"].map(|name| {
        let probes = of.probes();
        probes.iter().find(|probe| probe.path() == format!("patching::switch::{name}")).unwrap().state()
    })
}

fn alone(policy: TextPolicy) {
    use ProbeState::{Active, Held};
    let count = select("patching::switch::*").unwrap().text_policy(policy).attach(Count::new()).unwrap();
    let switch = count.switch();
    let off = ids("patching::switch::one, patching::switch::three");
    all();
    assert_eq!(switch.off(&off, SYNC).patched(), 2);
    assert_eq!((switch.off(&off, SYNC).patched(), switch.off(&off, SYNC).unchanged()), (0, 2));
    assert_eq!(states(&count), [Held, Active, Held]);
    all();
    assert_eq!(hits(&count), [1, 2, 1]);
    // Pausing and resuming leaves probes off that are off.
    assert_eq!(count.pause().patched(), 1);
    all();
    assert_eq!(switch.on(&ids("patching::switch::one"), SYNC).patched(), 0, "paused");
    assert_eq!(count.resume().patched(), 2);
    assert_eq!(states(&count), [Active, Active, Held]);
    all();
    assert_eq!(hits(&count), [2, 3, 1]);
    // A hold comes on top.
    let hold = select("patching::switch::*").unwrap().hold().unwrap();
    assert_eq!(switch.on(&ids("patching::switch::three"), SYNC).patched(), 0);
    all();
    assert_eq!(hold.release().patched(), 3);
    all();
    assert_eq!(hits(&count), [3, 4, 2]);
    assert_eq!((count.pause().patched(), count.resume().patched()), (3, 3), "all in one again");
    switch.off(&off, Visibility::Eventual);
    assert_eq!(count.detach().patched(), 1);
    let gone = switch.on(&off, SYNC);
    assert_eq!((gone.patched(), gone.unchanged(), gone.refused()), (0, 0, 0));
}

fn beside_another() {
    use ProbeState::Active;
    let first = select("patching::switch::*").unwrap().attach(Count::new()).unwrap();
    let second = select("patching::switch::two").unwrap().attach(Count::new()).unwrap();
    let switch = first.switch();
    let off = ids("patching::switch::one, patching::switch::two");
    // The one that is shared continues.
    let report = switch.off(&off, SYNC);
    assert_eq!((report.patched(), report.unchanged()), (1, 1));
    all();
    assert_eq!((hits(&first), second.total()), ([0, 0, 1], 1));
    assert_eq!(states(&first)[1], Active);
    // The remaining attachment stays off.
    assert_eq!(second.detach().patched(), 1);
    all();
    assert_eq!(hits(&first), [0, 0, 2]);
    let third = select("patching::switch::two").unwrap().attach(Count::new()).unwrap();
    all();
    assert_eq!((hits(&first), third.total()), ([0, 0, 3], 1));
    assert_eq!(switch.on(&off, SYNC).patched(), 1);
    all();
    assert_eq!((hits(&first), third.total()), ([1, 1, 4], 2));
    // An attachment that has the number of one that is gone is not switched.
    drop(first);
    let next = select("patching::switch::*").unwrap().attach(Count::new()).unwrap();
    assert_eq!(switch.off(&ids("patching::switch::*"), SYNC).unchanged(), 0);
    all();
    assert_eq!(hits(&next), [1, 1, 1]);
}

/// Keeps its switch, or fails to.
#[derive(Default)]
struct Keeps {
    switch: Mutex<Option<Switch>>,
    fails: bool,
}

impl Consumer for Keeps {
    fn attached(&self, switch: Switch) -> Result<(), Error> {
        if self.fails {
            return Err(Error::Thread(std::io::Error::other("none left")));
        }
        *self.switch.lock().unwrap() = Some(switch);
        Ok(())
    }

    fn hit(&self, event: &Event<'_>) {
        assert_ne!(event.path(), "patching::switch::three", "it panics there");
    }
}

fn of_a_consumer(text: &Text) {
    let set = select("patching::switch::*").unwrap();
    let failed = set.attach(Keeps { fails: true, ..Keeps::default() }).unwrap_err();
    assert_eq!(failed.to_string(), "the consumer's thread can't be started: none left");
    text.assert_as_in_file();
    let keeps = set.attach(Keeps::default()).unwrap();
    let switch = keeps.switch.lock().unwrap().clone().unwrap();
    assert_eq!(switch.off(set.ids(), SYNC).patched(), 3);
    text.assert_as_in_file();
    assert_eq!(switch.on(set.ids(), SYNC).patched(), 3);
    all();
    assert!(keeps.failure().is_some());
    assert_eq!(switch.on(set.ids(), SYNC).refused(), 3, "it has failed");
    drop(keeps);
}

#[test]
fn some_are_off_while_others_are_on() {
    let text = Text::of_this_process();
    all();
    for policy in [TextPolicy::Sealed, TextPolicy::Open] {
        alone(policy);
        text.assert_as_in_file();
    }
    beside_another();
    text.assert_as_in_file();
    of_a_consumer(&text);
    text.assert_as_in_file();
}
