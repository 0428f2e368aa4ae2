//! Locks of `std`: waits, holds, guards and names.

use std::fmt::Debug;
use std::mem::size_of;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, TryLockError};
use std::thread;
use std::time::Duration;

use probe_runtime::spec::attach_spec;
use probe_runtime::{Aggregate, Count, Latency, select};
use probe_sync::{Condvar, Guard, Mutex, Name, Probed, RwLock, RwLockReadGuard};
use probe_tests::turn::turn;

use crate::recorder::{Holds, Recorder, calls, groups, thread_b};

const MUTEX: &str = "probe_sync::std::mutex::*";
const ALL: &str = "probe_sync::std::**";

#[test]
fn a_thread_waits_until_another_one_releases() {
    let _turn = turn();
    let lock = Mutex::named("contended", 0);
    let recorded = Recorder::attached(MUTEX);
    let guard = lock.lock().unwrap();
    thread::scope(|scope| {
        thread_b(scope, || *lock.lock().unwrap() += 1);
        recorded.wait_for("b +lock");
        drop(guard);
    });
    let hits = [
        "a +lock lock=contended", "a -lock", "a +hold lock=contended", "a <hold", "b +lock lock=contended",
        "a >hold", "a -hold", "b -lock", "b +hold lock=contended", "b <hold", "b >hold", "b -hold",
    ];
    assert_eq!(recorded.of(""), hits);
    assert_eq!(*lock.lock().unwrap(), 1);
}

#[test]
fn holds_end_in_any_order() {
    let _turn = turn();
    let (one, other) = (Mutex::named("one", 1), Mutex::named("other", 2));
    let latency = select(MUTEX).unwrap().attach(Latency::new()).unwrap();
    let holds =
        select("probe_sync::**::hold").unwrap().attach(Aggregate::new("latency by(lock)").unwrap()).unwrap();
    for _ in 0..10 {
        let first = one.lock().unwrap();
        let second = other.lock().unwrap();
        drop(first);
        let again = one.try_lock().unwrap();
        drop((second, again));
    }
    assert_eq!(
        calls(&latency),
        [("std::mutex::hold".into(), 30, 60, 0), ("std::mutex::lock".into(), 20, 0, 0)]
    );
    let holds: Vec<_> = groups(&holds).into_iter().map(|(keys, calls, _)| (keys, calls)).collect();
    assert_eq!(holds, [(vec!["one".to_owned()], 20), (vec!["other".to_owned()], 10)]);
}

#[test]
fn a_lock_that_begins_where_another_one_does_is_told_apart() {
    let _turn = turn();
    let outer = Mutex::new(Mutex::new(()));
    let latency = select(MUTEX).unwrap().attach(Latency::new()).unwrap();
    let outer = outer.lock().unwrap();
    drop(outer.lock().unwrap());
    drop(outer);
    assert_eq!(calls(&latency), [("std::mutex::hold".into(), 2, 4, 0), ("std::mutex::lock".into(), 2, 0, 0)]);
}

#[test]
fn readers_hold_a_lock_together() {
    let _turn = turn();
    let lock = RwLock::named("routes", 1);
    let recorded = Recorder::attached("probe_sync::std::rw_lock::*");
    let latency = select("probe_sync::std::rw_lock::*").unwrap().attach(Latency::new()).unwrap();
    let mine: RwLockReadGuard<'_, u32> = lock.read().unwrap();
    thread::scope(|scope| {
        thread_b(scope, || drop(lock.read().unwrap())).join().unwrap();
        assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
        thread_b(scope, || *lock.write().unwrap() += 1);
        recorded.wait_for("b +write");
        drop(mine);
    });
    assert_eq!(*lock.read().unwrap(), 2);
    assert_eq!(
        calls(&latency),
        [
            ("std::rw_lock::hold_read".into(), 3, 6, 0),
            ("std::rw_lock::hold_write".into(), 1, 2, 0),
            ("std::rw_lock::read".into(), 3, 0, 0),
            ("std::rw_lock::write".into(), 1, 0, 0),
        ]
    );
    let of_b = "+read lock=routes, -read, +hold_read lock=routes, <hold_read, >hold_read, -hold_read, \
                +write lock=routes, -write, +hold_write lock=routes, <hold_write, >hold_write, -hold_write";
    let found: Vec<_> = recorded.of("b").iter().map(|hit| hit[2..].to_owned()).collect();
    assert_eq!(found.join(", "), of_b);
}

#[test]
fn reads_of_a_thread_end_in_any_order() {
    let _turn = turn();
    let lock = RwLock::new(1);
    let holds = Holds::attached("probe_sync::std::rw_lock::hold_read");
    let latency = select("probe_sync::std::rw_lock::hold_read").unwrap().attach(Latency::new()).unwrap();
    let (first, second) = (lock.read().unwrap(), lock.read().unwrap());
    drop(first);
    let third = lock.try_read().unwrap();
    drop((third, second));
    assert_eq!(holds.of_all(), ["+1", "+2", "-1", "+3", "-3", "-2"]);
    assert_eq!(calls(&latency), [("std::rw_lock::hold_read".into(), 3, 6, 0)]);
}

#[test]
fn a_hold_ends_where_a_condition_is_waited_for() {
    let _turn = turn();
    let (lock, is_ready) = (Mutex::named("ready", false), Condvar::new());
    let recorded = Recorder::attached(ALL);
    thread::scope(|scope| {
        thread_b(scope, || {
            let guard = is_ready.wait_while(lock.lock().unwrap(), |ready| !*ready).unwrap();
            assert!(*guard);
        });
        recorded.wait_for("b +wait");
        *lock.lock().unwrap() = true;
        is_ready.notify_all();
    });
    let of_b = [
        "b +lock lock=ready", "b -lock", "b +hold lock=ready", "b <hold", "b >hold", "b -hold",
        "b +wait lock=ready", "b -wait", "b +hold lock=ready", "b <hold", "b >hold", "b -hold",
    ];
    assert_eq!(recorded.of("b"), of_b);
}

#[test]
fn a_condition_is_waited_for_until_a_time() {
    let _turn = turn();
    let (lock, never) = (Mutex::new(1), Condvar::new());
    let latency = select(ALL).unwrap().attach(Latency::new()).unwrap();
    let (guard, result) = never.wait_timeout_while(lock.lock().unwrap(), Duration::ZERO, |_| true).unwrap();
    assert!(result.timed_out());
    let (guard, _) = never.wait_timeout(guard, Duration::ZERO).unwrap();
    drop(guard);
    assert_eq!(
        calls(&latency),
        [
            ("std::condvar::wait".into(), 2, 0, 0),
            ("std::mutex::hold".into(), 3, 6, 0),
            ("std::mutex::lock".into(), 1, 0, 0),
        ]
    );
}

#[test]
fn a_poisoned_lock_is_held_all_the_same() {
    let _turn = turn();
    let lock = Mutex::new(1);
    let latency = select(MUTEX).unwrap().attach(Latency::new()).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _guard = lock.lock().unwrap();
        panic!("while it is held, as the test wants");
    }));
    assert!(panicked.is_err() && lock.is_poisoned());
    assert_eq!(*lock.lock().unwrap_err().into_inner(), 1);
    assert!(matches!(lock.try_lock(), Err(TryLockError::Poisoned(it)) if **it.get_ref() == 1));
    lock.clear_poison();
    assert_eq!(*lock.lock().unwrap(), 1);
    assert_eq!(calls(&latency), [("std::mutex::hold".into(), 4, 8, 0), ("std::mutex::lock".into(), 3, 0, 0)]);
    assert_eq!(lock.into_inner().unwrap(), 1);
}

#[test]
fn the_hold_of_an_original_guard_is_cancelled() {
    let _turn = turn();
    let lock = Mutex::new(1);
    let latency = select(MUTEX).unwrap().attach(Latency::new()).unwrap();
    let original: std::sync::MutexGuard<'_, u32> = Guard::into_original(lock.lock().unwrap());
    drop(original);
    drop(lock.lock().unwrap());
    let latencies = latency.latencies();
    let hold = latencies.iter().find(|it| it.function().path().ends_with("hold")).unwrap();
    assert_eq!((hold.calls(), hold.unpaired().cancelled, hold.unpaired().total()), (1, 1, 0));
}

#[test]
fn attempts_that_fail_are_no_hits() {
    let _turn = turn();
    let lock = Mutex::new(1);
    let guard = lock.lock().unwrap();
    let hits = select(ALL).unwrap().attach(Count::new()).unwrap();
    assert!(matches!(lock.try_lock(), Err(TryLockError::WouldBlock)));
    assert_eq!(hits.total(), 0);
    drop(guard);
    // The end of the hold, which had begun before.
    assert_eq!(hits.total(), 2);
}

#[test]
fn locks_have_names_or_places() {
    static NAMED: Mutex<u32> = Mutex::named("named", 1);
    static PLACED: Mutex<u32> = Mutex::new(1);
    let _turn = turn();
    let line = line!() - 2;
    let locks = select("probe_sync::std::mutex::lock").unwrap();
    let places = locks.attach(Aggregate::new("count by(lock)").unwrap()).unwrap();
    let of = |predicate: &str| locks.attach_if(&predicate.parse().unwrap(), Count::new()).unwrap();
    let (named, here) = (of("name == \"named\""), of("name ~ \"*/sync/locks.rs\""));
    drop((NAMED.lock().unwrap(), PLACED.lock().unwrap()));
    let (default, line_of_default) = (Mutex::<u32>::default(), line!());
    let (from, line_of_from) = (Mutex::from(7), line!());
    drop((default.lock().unwrap(), from.lock().unwrap(), NAMED.lock().unwrap()));
    let place = |line| vec![format!("{}:{line}", file!())];
    let mut expected = [
        (vec!["named".to_owned()], 2),
        (place(line), 1),
        (place(line_of_default), 1),
        (place(line_of_from), 1),
    ];
    expected.sort();
    let found: Vec<_> = groups(&places).into_iter().map(|(keys, count, _)| (keys, count)).collect();
    assert_eq!(found, expected);
    // Entries and exits.
    assert_eq!((named.total(), here.total()), (4, 6));
}

#[test]
fn locks_of_one_name_are_told_apart_by_address() {
    let _turn = turn();
    let locks = [Mutex::named("same", 1), Mutex::named("same", 2)];
    let of = |probe: &str| {
        let set = select(&format!("probe_sync::std::mutex::{probe}")).unwrap();
        set.attach(Aggregate::new("latency by(lock, at)").unwrap()).unwrap()
    };
    let (waits, holds) = (of("lock"), of("hold"));
    for lock in [&locks[0], &locks[1], &locks[0]] {
        drop(lock.lock().unwrap());
    }
    let counts =
        |of: &Aggregate| groups(of).into_iter().map(|(keys, count, _)| (keys, count)).collect::<Vec<_>>();
    let (waits, holds) = (counts(&waits), counts(&holds));
    assert_eq!(waits, holds);
    let (mut counts, names): (Vec<_>, Vec<_>) =
        holds.into_iter().map(|(keys, count)| (count, keys[0].clone())).unzip();
    counts.sort_unstable();
    assert_eq!((counts, names), (vec![1, 2], vec!["same".to_owned(); 2]));
}

#[test]
fn types_are_what_the_originals_are() {
    fn is_shared<T: Send + Sync>(_: &T) {}
    let _turn = turn();
    let dynamic: Arc<Mutex<dyn Debug + Send>> = Arc::new(Mutex::new(7));
    is_shared(&dynamic);
    assert_eq!(format!("{dynamic:?}"), format!("{:?}", std::sync::Mutex::new(7)));
    assert_eq!(format!("{:?}", dynamic.lock().unwrap()), "7");
    assert_eq!(size_of::<Mutex<u64>>(), size_of::<std::sync::Mutex<u64>>() + size_of::<Name>());
    assert_eq!(size_of::<Name>(), 16);
    let mut lock: Probed<std::sync::RwLock<u32>> = RwLock::from(3);
    *lock.get_mut().unwrap() = 4;
    assert_eq!(lock.into_inner().unwrap(), 4);
}

#[test]
fn the_commands_of_the_recipe_fit_the_probes() {
    let _turn = turn();
    let lines = include_str!("../../../docs/recipes.md").lines();
    let commands = lines.filter(|it| it.starts_with("PROBES=") && it.contains("probe_sync::"));
    let specs = commands.map(|it| it.split('\'').nth(1).unwrap());
    let attached: Vec<_> = specs.map(|spec| attach_spec(spec).unwrap().len()).collect();
    assert_eq!(attached, [1, 1, 1, 2]);
}

/// Each probe is in one set of the table, and in no other one.
#[test]
fn the_selectors_of_the_table_divide_the_probes() {
    fn paths(selector: &str) -> Vec<String> {
        let probes = select(selector).unwrap().probes();
        probes.iter().map(|it| format!("{} {:?}", it.path(), it.kind())).collect()
    }
    let _turn = turn();
    let table = include_str!("../../../probe-sync/src/lib.rs").split("| selector |").nth(1).unwrap();
    let rows = table.lines().skip(2).map_while(|line| line.strip_prefix("//! | `"));
    let selectors = rows.flat_map(|row| row.split('|').next().unwrap().split('`').step_by(2));
    let mut found: Vec<_> = selectors.filter(|it| !it.trim().is_empty()).flat_map(paths).collect();
    let mut all = paths("probe_sync::**");
    found.sort();
    all.sort();
    assert_eq!(found, all);
}
