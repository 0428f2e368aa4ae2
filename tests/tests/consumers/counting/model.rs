//! Attachments change at random. After each step, each has the counts that a model expects.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use probe_runtime::consumer::DeliveryMode;
use probe_runtime::control::{Hold, Switch};
use probe_runtime::patch::{TextPolicy, Visibility};
use probe_runtime::registry::ProbeId;
use probe_runtime::{Attachment, Consumer, Count, Event, point, select};
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
    mode: DeliveryMode,
}

impl Told {
    fn new(mode: DeliveryMode) -> Self {
        Self { hits: Arc::default(), mode }
    }

    fn all(&self) -> [u64; 3] {
        std::array::from_fn(|at| self.hits[at].load(Relaxed))
    }
}

impl Consumer for Told {
    fn delivery_mode(&self) -> DeliveryMode {
        self.mode
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
    mode: DeliveryMode,
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
        let is_counted = match self.mode {
            DeliveryMode::Counted => true,
            DeliveryMode::Switchable => self.is_counting[probe],
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
        let id = |at| select(&format!("consumers::counting::model::walked_{at}")).unwrap().ids()[0];
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
            .map(|(_, at)| format!("consumers::counting::model::walked_{at}"))
            .collect();
        let text = [TextPolicy::Sealed, TextPolicy::Open][self.below(2)];
        let set = select(&names.join(", ")).unwrap().text_policy(text);
        let mode =
            [DeliveryMode::Counted, DeliveryMode::Counted, DeliveryMode::Switchable, DeliveryMode::Delivered]
                [self.below(4)];
        let attached = match mode {
            DeliveryMode::Counted => Attached::Count(set.attach(Count::new()).unwrap()),
            _ => Attached::Told(set.attach(Told::new(mode)).unwrap()),
        };
        let (is_off, is_counting, expected) = ([false; 3], [false; 3], [Expected::default(); 3]);
        let is_paused = false;
        let one = Modelled { attached, mode, has, is_off, is_counting, is_paused, expected, told: 0 };
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
        let held = select(&format!("consumers::counting::model::walked_{probe}")).unwrap().hold().unwrap();
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
