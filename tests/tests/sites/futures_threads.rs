//! Futures under a work-stealing executor: the hits of one pair up although its threads differ, and
//! its time on the processor comes apart from the time that it awaits. A process of its own: it
//! listens to all of its probes.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use probe_runtime::{Attachment, Consumer, Event, Kind, probe, select};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

/// Follows each future from its entry to its end.
#[derive(Default)]
struct Follow(Mutex<Followed>);

#[derive(Default)]
struct Followed {
    alive: HashMap<(String, usize), Invocation>,
    ended: Vec<(String, Kind, Invocation)>,
    /// Hits without an entry before them, or in an order that is impossible.
    astray: Vec<String>,
}

#[derive(Debug)]
struct Invocation {
    began: Instant,
    /// When the current poll began, and its thread.
    polled: Option<(Instant, ThreadId)>,
    on_cpu: Duration,
    total: Duration,
    polls: u32,
    threads: HashSet<ThreadId>,
}

impl Consumer for Follow {
    fn hit(&self, event: &Event<'_>) {
        let (now, thread) = (Instant::now(), thread::current().id());
        let key = (event.path().to_owned(), event.future().expect("a future's probe"));
        let mut all = self.0.lock().unwrap();
        let is_right = match event.kind() {
            Kind::Entry => {
                let (on_cpu, total) = Default::default();
                let polled = Some((now, thread));
                let invocation = Invocation {
                    began: now,
                    polled,
                    on_cpu,
                    total,
                    polls: 1,
                    threads: HashSet::from([thread]),
                };
                all.alive.insert(key.clone(), invocation).is_none()
            }
            Kind::Resume => all.alive.get_mut(&key).is_some_and(|it| {
                it.polls += 1;
                it.threads.insert(thread);
                it.polled.replace((now, thread)).is_none()
            }),
            Kind::Suspend => all.alive.get_mut(&key).is_some_and(|it| it.leave(now, thread)),
            kind => all.alive.remove(&key).is_some_and(|mut it| {
                // A future is dropped by whoever holds it: no thread is in it then.
                let is_right = if kind == Kind::Drop { it.polled.is_none() } else { it.leave(now, thread) };
                it.total = now - it.began;
                all.ended.push((key.0.clone(), kind, it));
                is_right
            }),
        };
        if !is_right {
            all.astray.push(format!("{} {} {thread:?}", key.0, event.kind()));
        }
    }
}

impl Invocation {
    fn leave(&mut self, now: Instant, thread: ThreadId) -> bool {
        self.polled.take().is_some_and(|(since, polled_by)| {
            self.on_cpu += now - since;
            polled_by == thread
        })
    }
}

const NAP: Duration = Duration::from_millis(20);
const WORK: Duration = Duration::from_millis(2);

/// Works, sleeps, works.
#[probe]
async fn sleeper(n: u32) -> u32 {
    spin();
    sleep(NAP).await;
    spin();
    leaf(n).await
}

/// Yields `n` times.
#[probe]
async fn leaf(n: u32) -> u32 {
    for _ in 0..n {
        tokio::task::yield_now().await;
    }
    n
}

#[probe]
async fn never() {
    std::future::pending::<()>().await;
}

fn spin() {
    let began = Instant::now();
    while began.elapsed() < WORK {
        std::hint::spin_loop();
    }
}

fn executor() -> Runtime {
    Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap()
}

/// Runs tasks until several threads have polled one. Returns their number, and takes the record.
fn run(follow: &Attachment<Follow>) -> (u32, Followed) {
    let executor = executor();
    let mut tasks = 0;
    loop {
        let spawned: Vec<_> = (0..50).map(|n| executor.spawn(sleeper(n))).collect();
        tasks += 50;
        executor.block_on(async {
            for (n, task) in (0..).zip(spawned) {
                assert_eq!(task.await.unwrap(), n);
            }
        });
        let mut all = follow.0.lock().unwrap();
        if all.ended.iter().any(|(.., it)| it.threads.len() > 1) {
            return (tasks, std::mem::take(&mut all));
        }
    }
}

#[test]
fn hits_pair_up() {
    let follow = select("sites::futures_threads::*").unwrap().attach(Follow::default()).unwrap();
    let (tasks, all) = run(&follow);
    assert_eq!(all.astray, [""; 0]);
    assert!(all.alive.is_empty(), "{:?}", all.alive);
    let mut ended: BTreeMap<&str, u32> = BTreeMap::new();
    for (path, kind, it) in &all.ended {
        assert_eq!(*kind, Kind::Exit, "{path}");
        *ended.entry(path).or_default() += 1;
        assert!(it.on_cpu <= it.total, "{path}: {it:?}");
        if path == "sites::futures_threads::sleeper" {
            // On a loaded machine, too, each future works and sleeps for at least this long.
            assert!(it.on_cpu >= 2 * WORK, "{it:?}");
            assert!(it.total >= it.on_cpu + NAP, "{it:?}");
        }
    }
    assert_eq!(
        ended,
        BTreeMap::from([("sites::futures_threads::leaf", tasks), ("sites::futures_threads::sleeper", tasks)])
    );
    let polls = |name: &str| -> u32 {
        all.ended.iter().filter(|(path, ..)| path.ends_with(name)).map(|(.., it)| it.polls).sum()
    };
    // One poll, and one more for each time that it yields or sleeps. 0 + 1 + … + 49, for every
    // fifty.
    let yields = tasks / 50 * (49 * 50 / 2);
    assert_eq!(polls("leaf"), tasks + yields);
    assert_eq!(polls("sleeper"), 2 * tasks + yields);

    // Cancelled, by the executor's end: those that have begun.
    let executor = executor();
    let begun: Vec<_> = (0..10).map(|_| executor.spawn(never())).collect();
    while follow.0.lock().unwrap().alive.values().filter(|it| it.polled.is_none()).count() < begun.len() {
        thread::yield_now();
    }
    drop(executor);
    let all = std::mem::take(&mut *follow.0.lock().unwrap());
    assert_eq!((all.astray.len(), all.alive.len(), all.ended.len()), (0, 0, 10));
    assert!(all.ended.iter().all(|(path, kind, it)| {
        (path.as_str(), *kind, it.polls) == ("sites::futures_threads::never", Kind::Drop, 1)
    }));
}
