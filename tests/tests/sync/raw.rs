//! Locks of `parking_lot`, with `lock_api`'s methods and guards.

use std::thread;
use std::time::{Duration, Instant};

use probe_runtime::{Aggregate, Latency, select};
use probe_sync::parking_lot::{
    Mutex, MutexGuard, RawMutex, RawRwLock, ReentrantMutex, RwLock, RwLockReadGuard,
    RwLockUpgradableReadGuard, RwLockWriteGuard, const_mutex, const_rwlock,
};
use probe_tests::turn::turn;

use crate::recorder::{Holds, Recorder, calls, groups, thread_b};

const ALL: &str = "probe_sync::parking_lot::*";

#[test]
fn a_thread_waits_until_another_one_releases() {
    static LOCK: Mutex<u32> = Mutex::from_raw(RawMutex::named("contended"), 0);
    let _turn = turn();
    let recorded = Recorder::attached(ALL);
    let guard = LOCK.lock();
    thread::scope(|scope| {
        thread_b(scope, || *LOCK.lock() += 1);
        recorded.wait_for("b +lock");
        drop(guard);
    });
    let hits = [
        "a +lock lock=contended", "a -lock", "a +hold lock=contended", "a <hold", "b +lock lock=contended",
        "a >hold", "a -hold", "b -lock", "b +hold lock=contended", "b <hold", "b >hold", "b -hold",
    ];
    assert_eq!(recorded.of(""), hits);
}

#[test]
fn locks_have_names_or_places() {
    let _turn = turn();
    let waits = select("probe_sync::parking_lot::lock, probe_sync::parking_lot::read").unwrap();
    let waits = waits.attach(Aggregate::new("count by(lock)").unwrap()).unwrap();
    let (mutex, line) = (const_mutex(1), line!());
    let (lock, line_of_lock) = (const_rwlock(1), line!());
    drop((mutex.lock(), lock.read(), Mutex::new(1).lock(), Mutex::new(1).lock()));
    let place = |line| vec![format!("{}:{line}", file!())];
    let mut expected = [(place(line), 1), (place(line_of_lock), 1), (vec!["unnamed".to_owned()], 2)];
    expected.sort();
    let found: Vec<_> = groups(&waits).into_iter().map(|(keys, count, _)| (keys, count)).collect();
    assert_eq!(found, expected);
}

#[test]
fn all_ways_to_acquire_a_mutex_begin_a_hold() {
    let _turn = turn();
    let lock = Mutex::new((1, 2));
    let latency = select(ALL).unwrap().attach(Latency::new()).unwrap();
    drop(lock.lock());
    let guard = lock.try_lock().unwrap();
    assert!(lock.try_lock().is_none());
    assert!(lock.try_lock_for(Duration::ZERO).is_none());
    let second = MutexGuard::map(guard, |it| &mut it.1);
    assert_eq!(*second, 2);
    drop(second);
    drop(lock.try_lock_for(Duration::ZERO).unwrap());
    let mut guard = lock.lock();
    MutexGuard::unlocked(&mut guard, || assert!(!lock.is_locked()));
    MutexGuard::bump(&mut guard);
    MutexGuard::unlock_fair(guard);
    assert_eq!(
        calls(&latency),
        [
            ("parking_lot::hold".into(), 6, 12, 0),
            ("parking_lot::lock".into(), 3, 0, 0),
            ("parking_lot::lock_for".into(), 2, 0, 0),
        ]
    );
}

/// A thread that waits gets the lock in between.
#[test]
fn another_thread_holds_a_lock_during_a_bump() {
    let _turn = turn();
    let lock = Mutex::from_raw(RawMutex::named("bumped"), 0);
    let recorded = Recorder::attached(ALL);
    let holds = Holds::attached("probe_sync::parking_lot::hold");
    let mut guard = lock.lock();
    thread::scope(|scope| {
        thread_b(scope, || *lock.lock() += 1);
        recorded.wait_for("b +lock");
        // The waiter may not yet be in the queue, where alone a bump sees it.
        while *guard == 0 {
            MutexGuard::bump(&mut guard);
            thread::yield_now();
        }
    });
    drop(guard);
    let of_b = ["b +lock lock=bumped", "b -lock", "b +hold lock=bumped", "b <hold", "b >hold", "b -hold"];
    assert_eq!(recorded.of("b"), of_b);
    // One after the other.
    let count = holds.of_all().len() / 2;
    let expected: Vec<_> = (1..=count).flat_map(|it| [format!("+{it}"), format!("-{it}")]).collect();
    assert_eq!(holds.of_all(), expected);
}

#[test]
fn bumps_divide_holds_of_a_lock() {
    let _turn = turn();
    let lock = RwLock::new(1);
    let latency = select("probe_sync::parking_lot::hold_*").unwrap().attach(Latency::new()).unwrap();
    let mut reader = lock.read();
    RwLockReadGuard::bump(&mut reader);
    drop(reader);
    let mut writer = lock.write();
    RwLockWriteGuard::bump(&mut writer);
    RwLockWriteGuard::bump(&mut writer);
    drop(writer);
    assert_eq!(
        calls(&latency),
        [("parking_lot::hold_read".into(), 2, 4, 0), ("parking_lot::hold_write".into(), 3, 6, 0)]
    );
}

#[test]
fn readers_hold_a_lock_together() {
    let _turn = turn();
    let lock = RwLock::from_raw(RawRwLock::named("routes"), 1);
    let latency = select(ALL).unwrap().attach(Latency::new()).unwrap();
    let mine: RwLockReadGuard<'_, u32> = lock.read();
    thread::scope(|scope| {
        thread_b(scope, || drop(lock.read()));
    });
    assert!(lock.try_write().is_none());
    drop(mine);
    let writer = lock.write();
    let reader = RwLockWriteGuard::downgrade(writer);
    assert_eq!(*reader, 1);
    drop(reader);
    assert_eq!(
        calls(&latency),
        [
            ("parking_lot::hold_read".into(), 3, 6, 0),
            ("parking_lot::hold_write".into(), 1, 2, 0),
            ("parking_lot::read".into(), 2, 0, 0),
            ("parking_lot::write".into(), 1, 0, 0),
        ]
    );
}

#[test]
fn a_recursive_read_has_no_hold() {
    let _turn = turn();
    let lock = RwLock::new(1);
    let holds = Holds::attached("probe_sync::parking_lot::hold_read");
    let latency = select("probe_sync::parking_lot::hold_read").unwrap().attach(Latency::new()).unwrap();
    let (first, second) = (lock.read(), lock.read_recursive());
    drop(first);
    drop(second);
    drop(lock.read());
    let third = lock.read();
    drop(lock.try_read_recursive());
    drop(third);
    assert_eq!(holds.of_all(), ["+1", "~1", "-?", "-?", "+2", "-2", "+3", "~3", "-?", "-?"]);
    let latencies = latency.latencies();
    let unpaired = latencies[0].unpaired();
    assert_eq!((latencies[0].calls(), unpaired.cancelled, unpaired.without_entry), (1, 2, 4));
    assert_eq!((unpaired.without_exit, unpaired.pending), (0, 0));
}

#[test]
fn a_reader_becomes_a_writer() {
    let _turn = turn();
    let lock = RwLock::new(1);
    let latency = select(ALL).unwrap().attach(Latency::new()).unwrap();
    let reader = lock.upgradable_read();
    assert!(lock.try_upgradable_read().is_none());
    let mut writer = RwLockUpgradableReadGuard::upgrade(reader);
    *writer += 1;
    let reader = RwLockWriteGuard::downgrade_to_upgradable(writer);
    let writer = RwLockUpgradableReadGuard::try_upgrade(reader).unwrap();
    let reader = RwLockWriteGuard::downgrade_to_upgradable(writer);
    assert_eq!(*RwLockUpgradableReadGuard::downgrade(reader), 2);
    drop(lock.upgradable_read());
    assert_eq!(
        calls(&latency),
        [
            ("parking_lot::hold_read".into(), 1, 2, 0),
            ("parking_lot::hold_upgradable".into(), 4, 8, 0),
            ("parking_lot::hold_write".into(), 2, 4, 0),
            ("parking_lot::upgradable_read".into(), 2, 0, 0),
            ("parking_lot::upgrade".into(), 1, 0, 0),
        ]
    );
}

#[test]
fn each_way_to_acquire_with_a_limit_is_a_probe() {
    let _turn = turn();
    let (lock, soon) = (RwLock::new(1), Instant::now());
    let latency = select(ALL).unwrap().attach(Latency::new()).unwrap();
    drop((lock.try_read_for(Duration::ZERO), lock.try_read_recursive_for(Duration::ZERO)));
    drop((lock.try_write_for(Duration::ZERO), lock.try_write_until(soon)));
    drop(lock.try_read_recursive_until(soon));
    let mut reader = lock.try_upgradable_read_for(Duration::ZERO).unwrap();
    assert!(lock.try_upgradable_read_until(soon).is_none());
    RwLockUpgradableReadGuard::bump(&mut reader);
    let other = lock.read();
    let reader = RwLockUpgradableReadGuard::try_upgrade_for(reader, Duration::ZERO).unwrap_err();
    drop(other);
    drop(RwLockUpgradableReadGuard::try_upgrade_until(reader, soon).unwrap());
    RwLockUpgradableReadGuard::unlock_fair(lock.upgradable_read());
    let reentrant = ReentrantMutex::new(1);
    drop((reentrant.lock(), reentrant.lock()));
    let holds = [
        ("parking_lot::hold".into(), 1, 2, 0),
        ("parking_lot::hold_read".into(), 1, 6, 5),
        ("parking_lot::hold_upgradable".into(), 3, 6, 0),
        ("parking_lot::hold_write".into(), 2, 4, 0),
    ];
    // Of the recursive reads, each has an end of an unknown hold and cancels one, known or not.
    let names = [
        "lock", "read", "read_for", "read_recursive_for", "read_recursive_until", "upgradable_read",
        "upgradable_read_for", "upgradable_read_until", "upgrade_for", "upgrade_until", "write_for",
        "write_until",
    ];
    let waits = names.map(|name| (format!("parking_lot::{name}"), 1, 0, 0));
    assert_eq!(calls(&latency), [&holds[..], &waits[..]].concat());
}
