//! The schedule against programs whose every call is known. A tick is a nanosecond; a hit takes 10,
//! and a fifth of that if it is only counted, a reading 20, a look 5 µs on another processor; who
//! looks is some 60 µs late.

use super::super::budget::Budget;
use super::super::costs::Costs;
use super::super::mode::Mode;
use super::super::sampler::Seen;
use super::*;

const SECOND: f64 = 1e9;
const HIT: f64 = 10.0;
const READING: f64 = 20.0;
/// What hits are taken to cost.
const COSTS: Costs =
    Costs { counted: HIT / 5.0, delivered: HIT, reading: READING, inside: HIT + READING, doubt: 0.0 };

/// One thread that does nothing but call these functions, slowed down by what its hits cost.
struct Program {
    now: f64,
    /// By how much it has come forward.
    progress: f64,
    functions: Vec<Callee>,
    /// What hits, and looks, have really cost.
    hits: f64,
    own: f64,
}

struct Callee {
    /// Calls a second of progress, from when on.
    rates: fn(f64) -> f64,
    time: f64,
    /// Calls that were made, with the part of the next.
    calls: f64,
    /// What a hit of it takes, really, as a part of what it is taken to.
    weight: f64,
    armed: Option<Mode>,
    left: u64,
    seen: Seen,
}

impl Program {
    fn new(functions: &[(fn(f64) -> f64, f64)]) -> Self {
        let callee = |&(rates, time): &(fn(f64) -> f64, f64)| Callee {
            rates,
            time,
            calls: 0.0,
            weight: 1.0,
            armed: Some(Mode::Timing),
            left: 10,
            seen: Seen { shortest: u64::MAX, ..Seen::default() },
        };
        Self {
            now: 0.0,
            progress: 0.0,
            functions: functions.iter().map(callee).collect(),
            hits: 0.0,
            own: 0.0,
        }
    }

    /// Runs until then, in steps that are short beside anything of interest.
    fn run(&mut self, until: f64) {
        while self.now < until {
            let step = (until - self.now).min(10_000.0);
            let hits: f64 = (self.functions.iter()).map(|it| (it.rates)(self.now) / SECOND * it.hits()).sum();
            let progress = step / (1.0 + hits);
            self.hits += step - progress;
            for it in &mut self.functions {
                let before = it.calls.floor();
                it.calls += (it.rates)(self.now) / SECOND * progress;
                let calls = (it.calls.floor() - before) as u64;
                if let Some(mode) = it.armed {
                    it.hit(calls, mode);
                }
            }
            self.progress += progress;
            self.now += step;
        }
    }

    fn readings(&self) -> Vec<Reading> {
        (0..self.functions.len()).map(|function| self.reading(function)).collect()
    }

    fn reading(&self, function: usize) -> Reading {
        Reading { at: self.now as u64, progress: self.now, seen: self.functions[function].seen }
    }
}

impl Callee {
    /// What a call's hits take.
    fn hits(&self) -> f64 {
        self.weight
            * match self.armed {
                Some(Mode::Counting) => COSTS.counted,
                Some(Mode::Timing) => 2.0 * HIT,
                None => 0.0,
            }
    }

    fn hit(&mut self, calls: u64, mode: Mode) {
        let timed = if mode == Mode::Timing { calls.min(self.left) } else { 0 };
        // Between the two readings lie half of either hit.
        let measured = self.time + self.weight * HIT + READING;
        self.left -= timed;
        *(if mode == Mode::Counting { &mut self.seen.counted } else { &mut self.seen.delivered }) += calls;
        self.seen.begun += timed;
        self.seen.ended += timed;
        self.seen.times.usual.samples += timed;
        self.seen.times.usual.time += timed * measured as u64;
        self.seen.times.usual.squares += timed as f64 * measured * measured;
        if timed > 0 {
            self.seen.shortest = measured as u64;
        }
    }
}

fn settings(budget: Budget) -> Settings {
    Settings {
        sample_size: 10.0,
        epoch: 1e7,
        first_look: 3e4,
        ticks_per_second: SECOND,
        budget,
        budget_each: Budget::UNLIMITED,
    }
}

/// Profiles until then; `each` sees every look's schedule.
fn profile(
    program: &mut Program,
    settings: Settings,
    until: f64,
    mut each: impl FnMut(&Program, &Schedule),
) -> Schedule {
    let functions = program.functions.len();
    let mut schedule = Schedule::new(settings, COSTS, functions, 0);
    (0..functions).for_each(|function| schedule.opened(function, program.reading(function)));
    let (mut looked, mut own) = (0.0, 0.0);
    let mut late = 0.0;
    while program.now < until {
        late = (late + 17_000.0) % 50_000.0;
        let due = (schedule.next() as f64).max(program.now) + 40_000.0 + late;
        program.run(due.min(until));
        let used = program.now - looked + own;
        looked = program.now;
        let orders = schedule.look((program.now as u64, program.now), used, own, |functions| {
            functions.iter().map(|function| program.reading(*function)).collect()
        });
        orders.off.iter().for_each(|function| program.functions[*function].armed = None);
        let switching = 500.0 * orders.len() as f64;
        schedule.cost.switching += switching;
        own = 5_000.0 + switching;
        program.own += own;
        for (functions, mode) in [(orders.count, Mode::Counting), (orders.time, Mode::Timing)] {
            for function in functions {
                program.functions[function].armed = Some(mode);
                program.functions[function].left = 10;
                if schedule.is_opening(function) {
                    schedule.opened(function, program.reading(function));
                }
            }
        }
        each(program, &schedule);
    }
    schedule
}

#[test]
fn a_mix_is_estimated_within_a_tenth() {
    let mix: [(fn(f64) -> f64, f64); 7] = [
        (|_| 1e7, 15.0),
        (|_| 1e6, 100.0),
        (|_| 1e5, 700.0),
        (|_| 1e4, 3e3),
        (|_| 1e3, 2e4),
        (|_| 10.0, 1e5),
        (|_| 0.0, 1.0),
    ];
    for budget in [Budget::percent(1.0), Budget::percent(0.2), Budget::UNLIMITED] {
        let mut program = Program::new(&mix);
        let schedule = profile(&mut program, settings(budget), 2.0 * SECOND, |_, _| ());
        for (function, callee) in program.functions.iter().enumerate() {
            let estimate = schedule.estimate(function, &program.readings());
            let (calls, truth) = (estimate.calls(), callee.calls.floor());
            let off = (calls.value - truth).abs();
            assert!(
                off <= 0.1 * truth && off <= calls.error + 1.0,
                "{function}: {calls:?}, not {truth}; {budget}"
            );
            let off = estimate.mean(1.0).map(|mean| mean.value - callee.time);
            assert_eq!(off.is_some(), truth > 0.0);
            assert!(off.is_none_or(|off| off.abs() < 1.0), "{function}: {off:?}");
            let samples = callee.seen.ended;
            assert!(samples >= 1 || truth == 0.0);
        }
        let of = |function: usize| program.functions[function].seen;
        assert!(of(0).ended > of(4).ended.min(100), "hot ones more: {:?}", [of(0), of(4)]);
        assert!(of(5).calls() >= 19, "rare ones, nearly all of 20: {:?}", of(5));
    }
}

#[test]
fn calls_in_a_row_are_estimated_within_a_tenth() {
    // Each takes a fifth of the time, in calls that are as short as hits, or shorter.
    let mix: [(fn(f64) -> f64, f64); 4] =
        [(|_| 1e7, 20.0), (|_| 4e6, 50.0), (|_| 2e6, 100.0), (|_| 1e6, 200.0)];
    let alone: [(fn(f64) -> f64, f64); 1] = [(|_| 4e7, 20.0)];
    for functions in [&mix[..], &alone[..]] {
        // Also hits that take less or more than they are taken to.
        for hits in [[1.0; 4], [0.7; 4], [0.7, 1.3, 0.7, 1.3], [1.3; 4]] {
            let mut program = Program::new(functions);
            program.functions.iter_mut().zip(hits).for_each(|(function, weight)| function.weight = weight);
            let settings = settings(Budget::percent(1.0));
            let schedule = profile(&mut program, settings, 2.0 * SECOND, |_, _| ());
            for (function, callee) in program.functions.iter().enumerate() {
                let estimate = schedule.estimate(function, &program.readings());
                let (calls, truth) = (estimate.calls(), callee.calls.floor());
                let off = (calls.value - truth).abs();
                assert!(
                    off <= 0.1 * truth && off <= calls.error,
                    "{hits:?}, {function}: {calls:?}, not {truth}"
                );
                let (mean, time) = (estimate.mean(1.0).unwrap().value, callee.time);
                // As far as hits are off.
                assert!((mean - time).abs() <= 0.3 * HIT + 1.0, "{hits:?}, {function}: {mean}, not {time}");
            }
        }
    }
}

/// Cost, really, since some time: of all that the processors did.
fn share(program: &Program, (now, hits, own): (f64, f64, f64)) -> f64 {
    let own = program.own - own;
    100.0 * (program.hits - hits + own) / (program.now - now + own)
}

#[test]
fn a_budget_holds_while_the_rate_jumps_a_thousand_fold() {
    /// Seconds with 10,000 calls, then seconds with 10,000,000.
    fn jumping(now: f64) -> f64 {
        if ((now / SECOND) as u64).is_multiple_of(2) { 1e4 } else { 1e7 }
    }
    // Without a budget, so short an epoch would take a quarter of the time.
    let settings = Settings { epoch: 1e6, first_look: 3e4, ..settings(Budget::percent(1.0)) };
    let mut program = Program::new(&[(jumping, 20.0), (jumping, 30.0), (|_| 100.0, 1e5)]);
    let (mut at, mut shares) = ((0.0, 0.0, 0.0), Vec::new());
    let schedule = profile(&mut program, settings, 20.0 * SECOND, |program, _| {
        // Every two seconds: a calm one, and one that is not.
        if program.now >= at.0 + 2.0 * SECOND {
            shares.push(share(program, at));
            at = (program.now, program.hits, program.own);
        }
    });
    assert!(shares.len() >= 9);
    assert!(shares.iter().all(|share| (0.5..1.5).contains(share)), "{shares:?}");
    let all = share(&program, (0.0, 0.0, 0.0));
    let own = 100.0 * (schedule.cost.hits + schedule.cost.own) / schedule.cost.used;
    assert!((all - own).abs() < 0.05, "{all} % is accounted as {own} %");
    let calls = schedule.estimate(0, &program.readings()).calls();
    assert!((calls.value / program.functions[0].calls - 1.0).abs() < 0.1, "{calls:?}");
}

#[test]
fn on_next_to_nothing_there_is_one_sample_of_each() {
    let rates: [fn(f64) -> f64; 2] = [|_| 1e7, |_| 1e3];
    let mut program = Program::new(&rates.map(|rates| (rates, 50.0)));
    let schedule = profile(&mut program, settings(Budget::percent(1e-9)), 2.0 * SECOND, |_, _| ());
    let samples: Vec<_> = program.functions.iter().map(|it| it.seen.ended).collect();
    assert!(samples.iter().all(|samples| (1..=10).contains(samples)), "{samples:?}");
    assert_eq!((0..2).filter(|function| schedule.is_armed(*function)).count(), 0);
}

#[test]
fn a_quota_is_each_functions_own() {
    let rates: [fn(f64) -> f64; 2] = [|_| 1e6, |_| 2e3];
    let mut program = Program::new(&rates.map(|rates| (rates, 50.0)));
    let each = Settings { budget_each: Budget::calls_per_second(5e3), ..settings(Budget::UNLIMITED) };
    profile(&mut program, each, 10.0 * SECOND, |_, _| ());
    let [hot, cold] = [0, 1].map(|function| program.functions[function].seen.calls());
    assert!((45_000..55_000).contains(&hot), "{hot}");
    assert!(cold > 10_000, "below its quota: {cold}");
}

#[test]
fn looks_are_no_more_than_they_must_be() {
    let mut looks = 0;
    let mut program = Program::new(&[(|_| 50.0, 1e3)]);
    profile(&mut program, settings(Budget::percent(1.0)), SECOND, |_, _| looks += 1);
    assert!(looks <= 120, "{looks} a second, where there is nothing to do but to look each epoch");
}

#[test]
fn a_long_silence_says_nothing_of_what_comes_then() {
    /// Nothing, or little, for some seconds; then 10,000,000 calls a second.
    fn silent(now: f64) -> f64 {
        if now < 5.0 * SECOND { 0.0 } else { 1e7 }
    }
    fn rare(now: f64) -> f64 {
        if now < 3.0 * SECOND { 30.0 } else { 1e7 }
    }
    for (rates, until) in [(silent as fn(f64) -> f64, 7.0), (rare, 6.0)] {
        let mut program = Program::new(&[(rates, 20.0), (|_| 1e3, 50.0)]);
        let schedule = profile(&mut program, settings(Budget::percent(1.0)), until * SECOND, |_, _| ());
        let (calls, truth) = (schedule.estimate(0, &program.readings()).calls(), program.functions[0].calls);
        assert!((calls.value / truth - 1.0).abs() < 0.1, "{calls:?}, not {truth}");
    }
}

#[test]
fn short_epochs_hold_the_budget() {
    for epoch in [1e5, 2e5, 5e5] {
        let mut program = Program::new(&[(|_| 1e7, 20.0), (|_| 100.0, 1e5)]);
        let settings = Settings { epoch, ..settings(Budget::percent(1.0)) };
        profile(&mut program, settings, 4.0 * SECOND, |_, _| ());
        let share = share(&program, (0.0, 0.0, 0.0));
        assert!(share < 1.5, "{share} % in epochs of {epoch} ns");
    }
}

#[test]
fn an_idle_hour_is_not_paid_for_by_the_program() {
    // Looks go on while the program uses nothing.
    let mut bucket = Budget::percent(1.0).bucket(1e7, SECOND, 10.0);
    (0..360_000).for_each(|_| bucket.spend(Spent { cost: 20_000.0, calls: 0.0 }));
    assert!(bucket.until_room(1.0) <= 2.0 * SECOND);
}

#[test]
fn thousands_of_functions_are_looked_at() {
    let rate: fn(f64) -> f64 = |_| 50.0;
    let mut program = Program::new(&vec![(rate, 50.0); 3000]);
    let schedule = profile(&mut program, settings(Budget::percent(1.0)), 0.5 * SECOND, |_, _| ());
    let readings = program.readings();
    let exact = |function: &usize| schedule.estimate(*function, &readings).calls().error == 0.0;
    assert_eq!((0..3000).filter(exact).count(), 3000, "all are counted all the time");
}

#[test]
fn long_calls_are_timed_alone() {
    let mut program = Program::new(&[(|_| 1e7, 20.0), (|_| 1e3, 1e4), (|_| 2e3, 1e4)]);
    let mut epochs = Vec::new();
    profile(&mut program, settings(Budget::percent(1.0)), SECOND, |program, schedule| {
        let is_timed = |function: usize| program.functions[function].armed == Some(Mode::Timing);
        // At first, all are; and what takes longer than an epoch has others beside it then.
        if schedule.epochs % 8 == 4 && (is_timed(1) || is_timed(2)) {
            assert_eq!(program.functions[0].armed, None);
            epochs.push(schedule.epochs);
        }
    });
    epochs.dedup();
    assert!(epochs.len() > 5 && program.functions[0].seen.ended > 50, "{epochs:?}");
}

#[test]
fn what_is_counted_is_timed_beside_what_is_hot() {
    for budget in
        [Budget::percent(0.05), Budget::calls_per_second(1000.0), Budget::calls_per_second(20_000.0)]
    {
        let mut program = Program::new(&[(|_| 1e7, 20.0), (|_| 20.0, 1e4)]);
        profile(&mut program, settings(budget), 30.0 * SECOND, |_, _| ());
        let samples = program.functions[1].seen.ended;
        assert!(samples >= 20, "{budget}: {samples}");
    }
}
