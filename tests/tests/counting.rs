//! Several attachments count hits of the same probes. Each has its own counts, while others attach,
//! detach, pause, are switched, or have the same hits delivered.
//! A process of its own: it counts all hits of its probes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;

use probe_runtime::{
    Attachment, Consumer, Count, Event, Hold, ProbeId, Switch, TextPolicy, Visibility, Wants, point, select,
};
use probe_tests::random::Random;

#[inline(never)]
fn walked_0(x: u64) -> u64 {
    point!("walked_0");
    x + 1
}

#[inline(never)]
fn walked_1(x: u64) -> u64 {
    point!("walked_1");
    x + 1
}

#[inline(never)]
fn walked_2(x: u64) -> u64 {
    point!("walked_2");
    x + 1
}

const WALKED: [fn(u64) -> u64; 3] = [walked_0, walked_1, walked_2];

/// Counts delivered hits by the number at the end of the probe's name.
#[derive(Clone)]
struct Told {
    hits: Arc<[AtomicU64; 3]>,
    wants: Wants,
}

impl Told {
    fn new(wants: Wants) -> Self {
        Self { hits: Arc::default(), wants }
    }

    fn all(&self) -> [u64; 3] {
        std::array::from_fn(|at| self.hits[at].load(Relaxed))
    }
}

impl Consumer for Told {
    fn wants(&self) -> Wants {
        self.wants
    }

    fn hit(&self, event: &Event<'_>) {
        let at = usize::from(event.path().as_bytes().last().copied().unwrap_or_default() - b'0');
        self.hits[at].fetch_add(1, Relaxed);
    }
}

/// An attachment of either type.
enum Attached {
    Count(Attachment<Count>),
    Told(Attachment<Told>),
}

/// Calls the same method of either type.
macro_rules! either {
    ($attached:expr, $it:ident => $call:expr) => {
        match $attached {
            Attached::Count($it) => $call,
            Attached::Told($it) => $call,
        }
    };
}

/// The expected hits of one probe.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Expected {
    counted: u64,
    delivered: u64,
}

/// An attachment and its expected state.
struct Modelled {
    attached: Attached,
    wants: Wants,
    has: [bool; 3],
    is_off: [bool; 3],
    is_counting: [bool; 3],
    is_paused: bool,
    expected: [Expected; 3],
    /// The hits that resets have returned.
    told: u64,
}

impl Modelled {
    fn hit(&mut self, probe: usize, times: u64) {
        if self.is_paused || self.is_off[probe] || !self.has[probe] {
            return;
        }
        let is_counted = match self.wants {
            Wants::Counts => true,
            Wants::Switchable => self.is_counting[probe],
            _ => false,
        };
        let expected = &mut self.expected[probe];
        *(if is_counted { &mut expected.counted } else { &mut expected.delivered }) += times;
    }

    fn check(&self, ids: &[ProbeId; 3], context: &str) {
        let counted = either!(&self.attached, it => it.switch()).counted(ids);
        let delivered = match &self.attached {
            Attached::Count(_) => [0; 3],
            Attached::Told(told) => told.all(),
        };
        let said: Vec<_> = counted.into_iter().zip(delivered).collect();
        let expected: Vec<_> = self.expected.iter().map(|it| (it.counted, it.delivered)).collect();
        assert_eq!(said, expected, "{context}");
        let total: u64 = self.expected.iter().map(|it| it.counted).sum();
        let counts = either!(&self.attached, it => it.counts());
        assert_eq!(counts.total(), total - self.told, "{context}");
    }
}

struct World {
    ids: [ProbeId; 3],
    random: Random,
    attached: Vec<Modelled>,
    holds: Vec<(usize, Hold)>,
    hits: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let id = |at| select(&format!("counting::walked_{at}")).unwrap().ids()[0];
        let random = Random::new(seed);
        Self { ids: [0, 1, 2].map(id), random, attached: Vec::new(), holds: Vec::new(), hits: 0 }
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.random.below(end as u64)).unwrap()
    }

    fn attach(&mut self) {
        let first = self.below(3);
        let has: [bool; 3] = std::array::from_fn(|at| at == first || self.below(2) == 0);
        let names: Vec<_> = has
            .iter()
            .zip(0..)
            .filter(|(has, _)| **has)
            .map(|(_, at)| format!("counting::walked_{at}"))
            .collect();
        let text = [TextPolicy::Sealed, TextPolicy::Open][self.below(2)];
        let set = select(&names.join(", ")).unwrap().text_policy(text);
        let wants = [Wants::Counts, Wants::Counts, Wants::Switchable, Wants::Hits][self.below(4)];
        let attached = match wants {
            Wants::Counts => Attached::Count(set.attach(Count::new()).unwrap()),
            _ => Attached::Told(set.attach(Told::new(wants)).unwrap()),
        };
        let (is_off, is_counting, expected) = ([false; 3], [false; 3], [Expected::default(); 3]);
        let is_paused = false;
        let one = Modelled { attached, wants, has, is_off, is_counting, is_paused, expected, told: 0 };
        self.attached.push(one);
    }

    /// Changes one of the attachments at random; returns a description.
    fn change(&mut self) -> &'static str {
        let (which, probe, act) = (self.below(self.attached.len()), self.below(3), self.below(8));
        let id = self.ids[probe];
        let one = &mut self.attached[which];
        let switch = either!(&one.attached, it => it.switch());
        match act {
            0 => {
                drop(self.attached.swap_remove(which));
                "detached"
            }
            1 => {
                one.is_paused = true;
                either!(&one.attached, it => it.pause());
                "paused"
            }
            2 | 3 => {
                one.is_paused = false;
                either!(&one.attached, it => it.resume());
                "resumed"
            }
            4 => {
                one.is_off[probe] = one.has[probe];
                switch.off(&[id], Visibility::Synchronous);
                "switched off"
            }
            5 => {
                one.is_off[probe] = false;
                switch.on(&[id], Visibility::Synchronous);
                "switched on"
            }
            6 => {
                one.is_counting[probe] = !one.is_counting[probe];
                let change = if one.is_counting[probe] { Switch::count } else { Switch::deliver };
                change(&switch, &[id]);
                "counted or delivered"
            }
            _ => {
                if let Attached::Count(count) = &one.attached {
                    let total: u64 = one.expected.iter().map(|it| it.counted).sum();
                    assert_eq!(count.reset().total(), total - one.told);
                    one.told = total;
                }
                "reset"
            }
        }
    }

    fn hold(&mut self) -> &'static str {
        if self.holds.len() == 2 || (!self.holds.is_empty() && self.below(2) == 0) {
            drop(self.holds.swap_remove(0));
            return "released";
        }
        let probe = self.below(3);
        let held = select(&format!("counting::walked_{probe}")).unwrap().hold().unwrap();
        self.holds.push((probe, held));
        "held"
    }

    fn hit(&mut self) {
        for (probe, walk) in WALKED.iter().enumerate() {
            let times = self.random.below(4);
            (0..times).for_each(|_| self.hits = walk(self.hits));
            if !self.holds.iter().any(|(held, _)| *held == probe) {
                self.attached.iter_mut().for_each(|one| one.hit(probe, times));
            }
        }
    }

    fn step(&mut self) -> &'static str {
        match self.below(10) {
            0 | 1 if self.attached.len() < 4 => {
                self.attach();
                "attached"
            }
            2 => self.hold(),
            _ if self.attached.is_empty() => "nothing",
            _ => self.change(),
        }
    }
}

#[test]
fn as_a_model_that_counts_each_attachments_hits() {
    let _turn = probe_tests::turn::turn();
    for seed in 0..20 {
        let mut world = World::new(seed);
        for step in 0..150 {
            let done = world.step();
            let context = format!("seed {seed}, step {step}: {done}");
            world.attached.iter().for_each(|one| one.check(&world.ids, &context));
            world.hit();
            world.attached.iter().for_each(|one| one.check(&world.ids, &format!("{context}, then hit")));
        }
    }
}

#[inline(never)]
fn crowded(x: u64) -> u64 {
    point!("crowded");
    x + 1
}

#[test]
fn one_of_several_is_paused_meanwhile() {
    let _turn = probe_tests::turn::turn();
    let set = select("counting::crowded").unwrap();
    let work = |calls: u64| assert_eq!((0..calls).fold(0, |x, _| crowded(x)), calls);
    let first = set.attach(Count::new()).unwrap();
    work(3);
    let second = set.attach(Count::new()).unwrap();
    work(5);
    second.pause();
    work(7);
    assert_eq!((first.total(), second.total()), (15, 5));
    second.resume();
    work(11);
    assert_eq!((first.total(), second.total()), (26, 16));
    first.pause();
    work(13);
    // The attachment is alone then, and does not receive the other's counts.
    drop(second);
    work(17);
    assert_eq!(first.total(), 26);
    first.resume();
    work(19);
    assert_eq!(first.total(), 45);
    let third = set.attach(Count::new()).unwrap();
    first.switch().off(set.ids(), Visibility::Synchronous);
    work(23);
    drop(third);
    first.switch().on(set.ids(), Visibility::Synchronous);
    work(29);
    assert_eq!(first.total(), 74);
}

#[inline(never)]
fn shared(x: u64) -> u64 {
    point!("shared");
    x + 1
}

const THREADS: u64 = 3;

/// One attachment has all hits; one has those of the phases in which it is not paused; one has each
/// hit once, counted or delivered. Others attach and detach.
#[test]
fn each_has_its_own_while_threads_run() {
    const PHASES: u64 = 40;
    const CALLS: u64 = 2_000;
    let _turn = probe_tests::turn::turn();
    let set = select("counting::shared").unwrap();
    let probe = set.ids()[0];
    let all = set.attach(Count::new()).unwrap();
    let at_times = set.attach(Count::new()).unwrap();
    let told = Arc::new(AtomicU64::new(0));
    let either = {
        let told = Arc::clone(&told);
        set.attach(Either(told)).unwrap()
    };
    let switch = either.switch();
    let [begin, end] = [(); 2].map(|()| Barrier::new(1 + usize::try_from(THREADS).unwrap()));
    let running = AtomicU64::new(0);
    let (mut expected, mut said, mut due) = (0, Vec::new(), Vec::new());
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..PHASES {
                    begin.wait();
                    assert_eq!((0..CALLS).fold(0, |x, _| shared(x)), CALLS);
                    running.fetch_sub(1, Relaxed);
                    end.wait();
                }
            });
        }
        for phase in 0..PHASES {
            let is_paused = phase % 3 == 1;
            if is_paused {
                at_times.pause()
            } else {
                at_times.resume()
            };
            running.store(THREADS, Relaxed);
            begin.wait();
            // At least once, even if the threads have already finished.
            loop {
                switch.count(&[probe]);
                let guest = set.attach(Count::new()).unwrap();
                switch.deliver(&[probe]);
                guest.pause();
                let paused = guest.total();
                switch.count(&[probe]);
                let other = set.attach(Count::new()).unwrap();
                said.push((guest.total(), 0));
                due.push((paused, 0));
                guest.resume();
                switch.deliver(&[probe]);
                drop(guest);
                drop(other);
                if phase % 2 == 0 {
                    switch.count(&[probe]);
                }
                if running.load(Relaxed) == 0 {
                    break;
                }
            }
            end.wait();
            expected += if is_paused { 0 } else { THREADS * CALLS };
            said.push((all.total(), at_times.total()));
            due.push(((phase + 1) * THREADS * CALLS, expected));
        }
    });
    // Not inside of the scope: after a panic, the threads would wait for ever at the barrier.
    assert_eq!(said, due);
    assert_eq!(told.load(Relaxed) + switch.counted(&[probe])[0], PHASES * THREADS * CALLS);
}

/// Counts delivered hits.
struct Either(Arc<AtomicU64>);

impl Consumer for Either {
    fn wants(&self) -> Wants {
        Wants::Switchable
    }

    fn hit(&self, _event: &Event<'_>) {
        self.0.fetch_add(1, Relaxed);
    }
}

#[inline(never)]
fn hurried(x: u64) -> u64 {
    point!("hurried");
    x + 1
}

/// Attachments that exist for a part of the calls count no more than the calls meanwhile, and no
/// fewer than the calls while they were surely attached.
#[test]
fn who_comes_while_threads_run_has_what_comes_after() {
    let _turn = probe_tests::turn::turn();
    let set = select("counting::hurried").unwrap();
    let all = set.attach(Count::new()).unwrap();
    let (is_over, mut seen) = (AtomicBool::new(false), Vec::new());
    let calls: u64 = thread::scope(|scope| {
        let worker = || {
            let mut calls = 0;
            while !is_over.load(Relaxed) {
                calls = hurried(calls);
            }
            calls
        };
        let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(worker)).collect();
        for _ in 0..200 {
            let before = all.total();
            let guest = set.attach(Count::new()).unwrap();
            let there = all.total();
            while all.total() < there + 10 {
                thread::yield_now();
            }
            let still_there = all.total();
            seen.push((guest.total(), still_there - there, all.total() - before));
        }
        is_over.store(true, Relaxed);
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(all.total(), calls);
    for (counted, surely, at_most) in seen {
        assert!((surely..=at_most).contains(&counted), "{counted} of {surely} to {at_most}");
    }
}
