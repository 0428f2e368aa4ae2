//! The schedule against programs whose every call is known. A tick is a nanosecond; a hit takes 10 unless said otherwise, a reading 20, a look 5 µs on another
//! processor; who looks is some 60 µs late.

use super::super::budget::Budget;
use super::super::mode::Mode;
use super::super::sampler::Seen;
use super::*;

const SECOND: f64 = 1e9;
const HIT: f64 = 10.0;
const READING: f64 = 20.0;

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
    /// What a hit of it takes.
    hit: f64,
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
            hit: HIT,
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
            let hits: f64 = (self.functions.iter())
                .map(|it| (it.rates)(self.now) / SECOND * it.armed.map_or(0.0, Mode::hits) * it.hit)
                .sum();
            // A part of them is done beside the work.
            let progress = step / 1_f64.hypot(hits);
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

    fn reading(&self, function: usize) -> Reading {
        Reading { at: self.now as u64, progress: self.now, seen: self.functions[function].seen }
    }
}

impl Callee {
    fn hit(&mut self, calls: u64, mode: Mode) {
        let timed = if mode == Mode::Timing { calls.min(self.left) } else { 0 };
        // Between the two readings lie half of either hit.
        let measured = self.time + self.hit + READING;
        self.left -= timed;
        self.seen.calls += calls;
        self.seen.begun += timed;
        self.seen.ended += timed;
        self.seen.time += timed * measured as u64;
        self.seen.squares += timed as f64 * measured * measured;
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
        reading: READING,
        hit: (HIT / 2.0, HIT),
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
    let mut schedule = Schedule::new(settings, functions, 0);
    (0..functions).for_each(|function| schedule.opened(function, program.reading(function)));
    let (mut looked, mut own) = (0.0, 0.0);
    let mut late = 0.0;
    while program.now < until {
        late = (late + 17_000.0) % 50_000.0;
        let due = (schedule.next() as f64).max(program.now) + 40_000.0 + late;
        program.run(due.min(until));
        let used = program.now - looked + own;
        looked = program.now;
        let orders = schedule.look(program.now as u64, used, own, |function| program.reading(function));
        orders.off.iter().for_each(|function| program.functions[*function].armed = None);
        own = 5_000.0 + 500.0 * (orders.off.len() + orders.on.len()) as f64;
        program.own += own;
        for function in orders.on {
            program.functions[function].armed = Some(schedule.mode(function));
            program.functions[function].left = 10;
            schedule.opened(function, program.reading(function));
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
            let estimate = schedule.estimate(function, program.reading(function));
            let (calls, truth) = (estimate.calls(), callee.calls.floor());
            let off = (calls.value - truth).abs();
            assert!(
                off <= 0.1 * truth && off <= calls.error + 1.0,
                "{function}: {calls:?}, not {truth}; {budget}"
            );
            // Of calls that are hardly disturbed, hits and readings are a part, unless others tell what they take.
            let off = estimate.mean().map(|mean| mean.value - callee.time);
            assert_eq!(off.is_some(), truth > 0.0);
            assert!(off.is_none_or(|off| (-HIT..=HIT + READING).contains(&off)), "{function}: {off:?}");
            let samples = callee.seen.ended;
            assert!(samples >= 1 || truth == 0.0);
        }
        let of = |function: usize| program.functions[function].seen;
        assert!(of(0).ended > of(3).ended.min(100), "hot ones more: {:?}", [of(0), of(3)]);
        assert!(of(5).calls >= 19, "rare ones, nearly all of 20: {:?}", of(5));
    }
}

#[test]
fn calls_in_a_row_are_estimated_within_a_tenth() {
    // Each takes a fifth of the time, in calls that are as short as hits, or shorter.
    let mix: [(fn(f64) -> f64, f64); 4] =
        [(|_| 1e7, 20.0), (|_| 4e6, 50.0), (|_| 2e6, 100.0), (|_| 1e6, 200.0)];
    let alone: [(fn(f64) -> f64, f64); 1] = [(|_| 4e7, 20.0)];
    for functions in [&mix[..], &alone[..]] {
        // Also hits that take more than could be guessed.
        for hits in [[7.0; 4], [10.0, 12.0, 10.0, 12.0], [60.0; 4]] {
            let mut program = Program::new(functions);
            program.functions.iter_mut().zip(hits).for_each(|(function, hit)| function.hit = hit);
            let settings = Settings { hit: (4.0, 25.0), ..settings(Budget::percent(1.0)) };
            let schedule = profile(&mut program, settings, 2.0 * SECOND, |_, _| ());
            for (function, callee) in program.functions.iter().enumerate() {
                let estimate = schedule.estimate(function, program.reading(function));
                let (calls, truth) = (estimate.calls(), callee.calls.floor());
                let off = (calls.value - truth).abs();
                assert!(
                    off <= 0.1 * truth && off <= calls.error,
                    "{hits:?}, {function}: {calls:?}, not {truth}"
                );
                let (mean, time) = (estimate.mean().unwrap().value, callee.time);
                assert!(
                    (mean - time).abs() <= 0.1 * (time + callee.hit + READING),
                    "{hits:?}, {function}: {mean}, not {time}"
                );
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
    jumps(HIT, &settings, jumping);
    // Hits that take more than could be guessed.
    jumps(60.0, &Settings { hit: (4.0, 25.0), ..settings }, jumping);
}

fn jumps(hit: f64, settings: &Settings, jumping: fn(f64) -> f64) {
    let mut program = Program::new(&[(jumping, 20.0), (jumping, 30.0), (|_| 100.0, 1e5)]);
    program.functions.iter_mut().for_each(|function| function.hit = hit);
    let (mut at, mut shares) = ((0.0, 0.0, 0.0), Vec::new());
    let schedule = profile(&mut program, settings.clone(), 20.0 * SECOND, |program, _| {
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
    let calls = schedule.estimate(0, program.reading(0)).calls();
    assert!((calls.value / program.functions[0].calls - 1.0).abs() < 0.1, "{calls:?}");
}

#[test]
fn without_a_budget_there_is_one_sample_of_each() {
    let rates: [fn(f64) -> f64; 3] = [|_| 1e7, |_| 1e3, |now| if now > 1.5 * SECOND { 10.0 } else { 0.0 }];
    let mut program = Program::new(&rates.map(|rates| (rates, 50.0)));
    let schedule = profile(&mut program, settings(Budget::percent(0.0)), 2.0 * SECOND, |_, _| ());
    let samples: Vec<_> = program.functions.iter().map(|it| it.seen.ended).collect();
    assert!(samples.iter().all(|samples| (1..=10).contains(samples)), "{samples:?}");
    assert!(program.functions[2].seen.calls <= 2, "latent since its first");
    assert_eq!((0..3).filter(|function| schedule.is_armed(*function)).count(), 0);
}

#[test]
fn a_quota_is_each_functions_own() {
    let rates: [fn(f64) -> f64; 2] = [|_| 1e6, |_| 2e3];
    let mut program = Program::new(&rates.map(|rates| (rates, 50.0)));
    let each = Settings { budget_each: Budget::calls_per_second(5e3), ..settings(Budget::UNLIMITED) };
    profile(&mut program, each, 10.0 * SECOND, |_, _| ());
    let [hot, cold] = [0, 1].map(|function| program.functions[function].seen.calls);
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
