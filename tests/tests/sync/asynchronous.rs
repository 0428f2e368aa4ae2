//! Locks and channels of `tokio`: waits are futures, and guards move between threads.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::thread;

use probe_runtime::{Aggregate, Latency, select};
use probe_sync::tokio::{Mutex, RwLock, mpsc};
use probe_tests::futures::block_on;
use probe_tests::turn::turn;

use crate::recorder::{Recorder, calls, groups, thread_b};

const MUTEX: &str = "probe_sync::tokio::mutex::*";
const RW_LOCK: &str = "probe_sync::tokio::rw_lock::*";
const MPSC: &str = "probe_sync::tokio::mpsc::*";

#[test]
fn a_future_waits_until_another_one_releases() {
    let _turn = turn();
    let lock = Mutex::named("contended", 0);
    let recorded = Recorder::attached(MUTEX);
    let guard = block_on(lock.lock());
    let mut second = pin!(lock.lock());
    let mut poll = || second.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending());
    drop(guard);
    assert!(poll().is_ready());
    let hits = [
        "a +lock lock=contended", "a -lock", "a +hold lock=contended", "a <hold", "a +lock lock=contended",
        "a <lock", "a >hold", "a -hold", "a >lock", "a -lock", "a +hold lock=contended", "a <hold",
        "a >hold", "a -hold",
    ];
    assert_eq!(recorded.of(""), hits);
}

#[test]
fn a_wait_is_cancelled() {
    let _turn = turn();
    let lock = Mutex::new(0);
    let latency = select(MUTEX).unwrap().attach(Latency::new()).unwrap();
    let guard = lock.try_lock().unwrap();
    {
        let mut second = pin!(lock.lock());
        assert!(second.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    drop(guard);
    drop(block_on(lock.lock()));
    let latencies = latency.latencies();
    let found = latencies.iter().map(|it| (it.function().path(), it.calls(), it.unpaired().cancelled));
    let mut found: Vec<_> = found.filter(|it| it.1 > 0).collect();
    found.sort_unstable();
    assert_eq!(found, [("probe_sync::tokio::mutex::hold", 2, 0), ("probe_sync::tokio::mutex::lock", 1, 1)]);
}

#[test]
fn guards_end_on_other_threads() {
    let _turn = turn();
    let (mutex, lock) = (Mutex::new(0), RwLock::new(0));
    let latency = select(&format!("{MUTEX}, {RW_LOCK}")).unwrap().attach(Latency::new()).unwrap();
    let guard = block_on(mutex.lock());
    let (first, second) = (block_on(lock.read()), block_on(lock.read()));
    thread::scope(|scope| {
        scope.spawn(|| drop((guard, first)));
    });
    drop(second);
    *block_on(lock.write()) += 1;
    let writer = lock.blocking_write();
    let reader = writer.downgrade();
    assert_eq!((*lock.try_read().unwrap(), *reader), (1, 1));
    drop(reader);
    assert_eq!(
        calls(&latency),
        [
            ("tokio::mutex::hold".into(), 1, 2, 0),
            ("tokio::mutex::lock".into(), 1, 1, 0),
            ("tokio::rw_lock::blocking_write".into(), 1, 0, 0),
            ("tokio::rw_lock::hold_read".into(), 4, 8, 0),
            ("tokio::rw_lock::hold_write".into(), 2, 4, 0),
            ("tokio::rw_lock::read".into(), 2, 2, 0),
            ("tokio::rw_lock::write".into(), 1, 1, 0),
        ]
    );
}

#[test]
fn holds_that_began_unseen_are_no_others() {
    let _turn = turn();
    let lock = RwLock::new(0);
    let unseen = (block_on(lock.read()), block_on(lock.read()));
    let latency = select(RW_LOCK).unwrap().attach(Latency::new()).unwrap();
    let seen = block_on(lock.read());
    drop(unseen);
    drop(seen);
    let latencies = latency.latencies();
    let hold = latencies.iter().find(|it| it.function().path().ends_with("hold_read")).unwrap();
    assert_eq!((hold.calls(), hold.unpaired().without_entry, hold.unpaired().pending), (1, 2, 0));
}

#[test]
fn a_send_waits_for_a_place() {
    let _turn = turn();
    let (sender, mut receiver) = mpsc::channel(1);
    let recorded = Recorder::attached(MPSC);
    block_on(sender.send(1)).unwrap();
    thread::scope(|scope| {
        thread_b(scope, || sender.blocking_send(2).unwrap());
        recorded.wait_for("b +blocking_send");
        assert_eq!(block_on(receiver.recv()), Some(1));
        assert_eq!(block_on(receiver.recv()), Some(2));
    });
    let hits = recorded.of("");
    let position = |hit: &str| hits.iter().position(|it| it.starts_with(hit));
    assert!(position("a +recv") < position("b -blocking_send"), "{hits:?}");
    let of_b: Vec<_> =
        recorded.of("b").iter().map(|hit| hit.rsplit(' ').next().unwrap().to_owned()).collect();
    assert_eq!(of_b, ["len=1", "-blocking_send"]);
}

#[test]
fn queues_tell_their_lengths() {
    let _turn = turn();
    let (sender, mut receiver) = mpsc::channel(8);
    let (unbounded, mut unbounded_receiver) = mpsc::unbounded_channel();
    let all = select(MPSC).unwrap();
    let latency = all.attach(Latency::new()).unwrap();
    let of = |name: &str| {
        let set = select(&format!("probe_sync::tokio::mpsc::{name}")).unwrap();
        set.attach(Aggregate::new("sum(len)").unwrap()).unwrap()
    };
    let lengths = ["send", "try_send", "reserve", "recv", "try_recv", "unbounded_recv"].map(of);
    for n in 0..3 {
        block_on(sender.send(n)).unwrap();
    }
    sender.try_send(3).unwrap();
    block_on(sender.reserve()).unwrap().send(4);
    for n in 0..4 {
        assert_eq!(block_on(receiver.recv()), Some(n));
        unbounded.send(n).unwrap();
    }
    assert_eq!(receiver.try_recv(), Ok(4));
    for n in 0..4 {
        assert_eq!(block_on(unbounded_receiver.recv()), Some(n));
    }
    let sums = lengths.map(|it| groups(&it)[0].2.clone());
    assert_eq!(sums, ["3", "3", "4", "14", "1", "10"]);
    assert_eq!(
        calls(&latency),
        [
            ("tokio::mpsc::recv".into(), 4, 4, 0),
            ("tokio::mpsc::reserve".into(), 1, 1, 0),
            ("tokio::mpsc::send".into(), 3, 3, 0),
            ("tokio::mpsc::try_recv".into(), 1, 0, 0),
            ("tokio::mpsc::try_send".into(), 1, 0, 0),
            ("tokio::mpsc::unbounded_recv".into(), 4, 4, 0),
            ("tokio::mpsc::unbounded_send".into(), 4, 0, 0),
        ]
    );
}

#[test]
fn places_are_reserved_and_messages_received_by_the_dozen() {
    let _turn = turn();
    let (sender, mut receiver) = mpsc::channel(4);
    let (unbounded, mut unbounded_receiver) = mpsc::unbounded_channel();
    let latency = select(MPSC).unwrap().attach(Latency::new()).unwrap();
    for (n, permit) in (0..).zip(block_on(sender.reserve_many(2)).unwrap()) {
        permit.send(n);
    }
    drop(block_on(sender.reserve_owned()).unwrap().send(2));
    unbounded.send(3).unwrap();
    let mut messages = Vec::new();
    assert_eq!(receiver.blocking_recv_many(&mut messages, 8), 3);
    assert_eq!(unbounded_receiver.blocking_recv_many(&mut messages, 8), 1);
    assert_eq!(messages, [0, 1, 2, 3]);
    assert_eq!(
        calls(&latency),
        [
            ("tokio::mpsc::blocking_recv_many".into(), 1, 0, 0),
            ("tokio::mpsc::reserve_many".into(), 1, 1, 0),
            ("tokio::mpsc::reserve_owned".into(), 1, 1, 0),
            ("tokio::mpsc::unbounded_blocking_recv_many".into(), 1, 0, 0),
            ("tokio::mpsc::unbounded_send".into(), 1, 0, 0),
        ]
    );
}

#[test]
fn owned_guards_keep_their_locks() {
    fn sent<T: Send>(it: T) -> T {
        it
    }
    let _turn = turn();
    let latency = select(&format!("{MUTEX}, {RW_LOCK}")).unwrap().attach(Latency::new()).unwrap();
    let (mutex, lock) = (Arc::new(Mutex::new(1)), Arc::new(RwLock::new(2)));
    let (of_mutex, of_lock) = (Arc::downgrade(&mutex), Arc::downgrade(&lock));
    let guard = block_on(Arc::clone(&mutex).lock_owned());
    {
        let mut second = pin!(sent(Arc::clone(&mutex).lock_owned()));
        assert!(second.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(of_mutex.strong_count(), 3);
    }
    assert!(Arc::clone(&mutex).try_lock_owned().is_err());
    *block_on(Arc::clone(&lock).write_owned()) += 1;
    let readers = (block_on(Arc::clone(&lock).read_owned()), lock.try_read_owned().unwrap());
    drop(mutex);
    assert_eq!((of_mutex.strong_count(), of_lock.strong_count()), (1, 2));
    assert_eq!((*guard, *readers.0, *readers.1), (1, 3, 3));
    thread::scope(|scope| {
        scope.spawn(|| drop((guard, readers)));
    });
    assert_eq!((of_mutex.strong_count(), of_lock.strong_count()), (0, 0));
    assert_eq!(
        calls(&latency),
        [
            ("tokio::mutex::hold".into(), 1, 2, 0),
            ("tokio::mutex::lock".into(), 1, 2, 1),
            ("tokio::rw_lock::hold_read".into(), 2, 4, 0),
            ("tokio::rw_lock::hold_write".into(), 1, 2, 0),
            ("tokio::rw_lock::read".into(), 1, 1, 0),
            ("tokio::rw_lock::write".into(), 1, 1, 0),
        ]
    );
}

#[test]
fn readers_beyond_a_limit_wait() {
    let _turn = turn();
    let lock = RwLock::with_max_readers(1, 1);
    let line = line!() - 1;
    assert_eq!(lock.name().to_string(), format!("{}:{line}", file!()));
    let first = lock.try_read().unwrap();
    assert!(lock.try_read().is_err());
    drop(first);
    assert_eq!(*lock.try_read().unwrap(), 1);
}

/// As tasks of an executor with threads use them.
#[test]
fn tasks_share_locks_and_channels() {
    let _turn = turn();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let latency = select(&format!("{MUTEX}, {MPSC}")).unwrap().attach(Latency::new()).unwrap();
    let total = Arc::new(Mutex::new(0));
    runtime.block_on(async {
        let (sender, mut receiver) = mpsc::channel(2);
        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let (sender, total) = (sender.clone(), Arc::clone(&total));
                tokio::spawn(async move {
                    for n in 0..50 {
                        *total.lock().await += n;
                        sender.send(n).await.unwrap();
                    }
                })
            })
            .collect();
        drop(sender);
        let mut messages = 0;
        while receiver.recv().await.is_some() {
            messages += 1;
        }
        assert_eq!(messages, 200);
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(*runtime.block_on(total.lock()), 4 * 1225);
    let calls: Vec<_> = calls(&latency).into_iter().map(|it| (it.0, it.1, it.3)).collect();
    assert_eq!(
        calls,
        [
            ("tokio::mpsc::recv".into(), 201, 0),
            ("tokio::mpsc::send".into(), 200, 0),
            ("tokio::mutex::hold".into(), 201, 0),
            ("tokio::mutex::lock".into(), 201, 0),
        ]
    );
}
