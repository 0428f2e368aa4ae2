//! Channels of `std` and of `crossbeam-channel`: how long ends wait, and how full queues are.

use std::thread;
use std::time::Duration;

use probe_runtime::{Aggregate, Count, Latency, select};
use probe_sync::crossbeam_channel::{
    Receiver, RecvTimeoutError, Select, TryRecvError, bounded, select as either, unbounded,
};
use probe_sync::mpsc::{self, IntoIter, Iter};
use probe_sync::{named, tokio::mpsc as future};
use probe_tests::turn::turn;

use crate::recorder::{Recorder, calls, groups, thread_b};

const CROSSBEAM: &str = "probe_sync::crossbeam_channel::*";
const STD: &str = "probe_sync::std::mpsc::*";

#[test]
fn a_send_waits_for_a_place() {
    let _turn = turn();
    let (sender, receiver) = bounded(1);
    let place = format!("{}:{}", file!(), line!() - 1);
    let recorded = Recorder::attached(CROSSBEAM);
    sender.send(1).unwrap();
    thread::scope(|scope| {
        thread_b(scope, || sender.send(2).unwrap());
        recorded.wait_for("b +send");
        assert_eq!((receiver.recv(), receiver.recv()), (Ok(1), Ok(2)));
    });
    assert_eq!(recorded.of("b"), [format!("b +send channel={place} len=1"), "b -send".into()]);
    let hits = recorded.of("");
    let position = |hit: &str| hits.iter().position(|it| it.starts_with(hit));
    assert!(position("a +recv") < position("b -send"), "{hits:?}");
}

#[test]
fn a_receiver_waits_for_a_message() {
    let _turn = turn();
    let (sender, receiver) = mpsc::channel();
    let recorded = Recorder::attached(STD);
    thread::scope(|scope| {
        thread_b(scope, move || assert_eq!(receiver.recv(), Ok(1)));
        recorded.wait_for("b +recv");
        sender.send(1).unwrap();
    });
    let hits = recorded.of("");
    let position = |hit: &str| hits.iter().position(|it| it.starts_with(hit));
    assert!(position("a +send") < position("b -recv"), "{hits:?}");
    assert_eq!(hits.len(), 4);
}

#[test]
fn queues_tell_their_lengths() {
    let _turn = turn();
    let (sender, receiver) = unbounded();
    let place = format!("{}:{}", file!(), line!() - 1);
    let sends = select("probe_sync::crossbeam_channel::send").unwrap();
    let receipts = select("probe_sync::crossbeam_channel::recv").unwrap();
    let sent = sends.attach(Aggregate::new("sum(len) by(channel)").unwrap()).unwrap();
    let taken = receipts.attach(Aggregate::new("sum(len)").unwrap()).unwrap();
    let long = sends.attach_if(&"len > 2".parse().unwrap(), Count::new()).unwrap();
    for n in 0..5 {
        sender.send(n).unwrap();
    }
    drop(sender);
    assert_eq!(receiver.iter().sum::<u64>(), 10);
    assert_eq!(groups(&sent), [(vec![place], 5, "10".into())]);
    // The last one finds the channel closed.
    assert_eq!(groups(&taken), [(vec![], 6, "15".into())]);
    // The entries and exits of the last two.
    assert_eq!(long.total(), 4);
}

#[test]
fn channels_have_names_or_places() {
    let _turn = turn();
    let sends = select("probe_sync::**::*send*").unwrap();
    let sent = sends.attach(Aggregate::new("count by(channel)").unwrap()).unwrap();
    let (jobs, results) = (named("jobs", mpsc::channel()), named("results", bounded(1)));
    let (events, line) = (future::unbounded_channel(), line!());
    jobs.0.clone().send(1).unwrap();
    results.0.send(2).unwrap();
    events.0.send(3).unwrap();
    assert_eq!((jobs.1.recv(), results.1.recv()), (Ok(1), Ok(2)));
    let place = format!("{}:{line}", file!());
    let found: Vec<_> = groups(&sent).into_iter().map(|(keys, count, _)| (keys[0].clone(), count)).collect();
    assert_eq!(found, [("jobs".to_owned(), 1), ("results".to_owned(), 1), (place, 1)]);
}

#[test]
fn each_way_to_send_and_receive_is_a_probe() {
    let _turn = turn();
    let latency = select(&format!("{CROSSBEAM}, {STD}")).unwrap().attach(Latency::new()).unwrap();
    let soon = std::time::Instant::now();
    let (sender, receiver) = bounded(2);
    sender.try_send(1).unwrap();
    sender.send_timeout(2, Duration::ZERO).unwrap();
    assert!(sender.send_deadline(3, soon).is_err());
    assert!(sender.try_send(3).is_err());
    assert_eq!(receiver.recv_timeout(Duration::ZERO), Ok(1));
    assert_eq!(receiver.recv_deadline(soon), Ok(2));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(receiver.try_iter().next(), None);

    let (sender, receiver) = mpsc::sync_channel(2);
    sender.send(1).unwrap();
    sender.clone().try_send(2).unwrap();
    assert!(sender.try_send(3).is_err());
    drop(sender);
    assert_eq!(receiver.recv_timeout(Duration::ZERO), Ok(1));
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [2]);
    for _ in &receiver {}
    assert_eq!(receiver.into_iter().next(), None);
    let names = [
        ("crossbeam_channel::recv_deadline", 1),
        ("crossbeam_channel::recv_timeout", 1),
        ("crossbeam_channel::send_deadline", 1),
        ("crossbeam_channel::send_timeout", 1),
        ("crossbeam_channel::try_recv", 2),
        ("crossbeam_channel::try_send", 2),
        ("std::mpsc::recv", 2),
        ("std::mpsc::recv_timeout", 1),
        ("std::mpsc::sync_send", 1),
        ("std::mpsc::try_recv", 2),
        ("std::mpsc::try_send", 2),
    ];
    assert_eq!(calls(&latency), names.map(|(name, calls)| (name.to_owned(), calls, 0, 0)));
}

#[test]
fn the_originals_methods_and_macros_take_the_ends() {
    let _turn = turn();
    let (sender, receiver): (_, Receiver<u32>) = bounded(2);
    let hits = select(CROSSBEAM).unwrap().attach(Count::new()).unwrap();
    either! {
        send(sender, 7) -> sent => sent.unwrap(),
    }
    assert_eq!((receiver.len(), receiver.capacity(), sender.is_full()), (1, Some(2), false));
    assert!(sender.same_channel(&sender.clone()));
    either! {
        recv(receiver) -> message => assert_eq!(message, Ok(7)),
    }
    assert_eq!(hits.total(), 0);
}

/// The usual imports are there, and types of iterators have the originals' parameters.
#[test]
fn a_program_changes_its_use_lines() {
    fn sum(messages: Iter<'_, u32>) -> u32 {
        messages.sum()
    }
    let (sender, receiver) = mpsc::channel();
    sender.send(1).unwrap();
    sender.send(2).unwrap();
    drop(sender);
    assert_eq!(sum(receiver.iter()), 3);
    let mut messages: IntoIter<u32> = receiver.into_iter();
    assert_eq!(messages.next(), None);

    let (_sender, receiver): (_, Receiver<u32>) = unbounded();
    assert_eq!(receiver.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
    let mut operations = Select::new();
    operations.recv(&receiver);
    assert!(operations.try_ready().is_err());

    let (sender, mut receiver) = future::channel::<u32>(1);
    let weak: future::WeakSender<u32> = sender.downgrade();
    let permit: future::OwnedPermit<u32> = weak.upgrade().unwrap().try_reserve_owned().unwrap();
    assert_eq!(receiver.try_recv(), Err(future::error::TryRecvError::Empty));
    drop(permit.send(7));
    assert_eq!(receiver.try_recv(), Ok(7));
}
