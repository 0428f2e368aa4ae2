//! Surveys: all functions are read, and their modes chosen anew ([`plan`](super::plan)).
//!
//! Surveys begin after 0.3 ms, and are made as often as a part of the budget pays for, but less and
//! less often. None is made during a window.
//!
//! Functions that have become hot since the last survey may cost many times as much as it, since
//! each of their calls is counted. Then the next one comes sooner. If surprises come at random,
//! they cost the time between surveys, squared, times something; the sum of that and of the surveys
//! themselves is smallest where both are equal. So the time between is multiplied by the root of
//! the ratio of the two, and at most doubled where nothing has surprised.
//!
//! Between surveys, the samples of the processor's clock tell which functions run now. A *glance*
//! reads these few, and leads to a survey if their calls have become dear.

use super::core::Running;
use super::estimate::Untimed;
use super::function_state::{FunctionState, Moment};
use super::plan::{MeasureMode, Now};
use super::sampler::Sampler;
use super::stretch::Listed;
use crate::engine::sites::Visibility;

/// The time before the first survey, and the minimum time between two, in nanoseconds.
const MIN_REBALANCE_NS: f64 = 300e3;
/// The minimum time between two surveys, as a part of all time so far, and its limit in
/// nanoseconds. So a function that has become hot since the last survey has had only that part of
/// the time to cost anything.
const MIN_REBALANCE_SHARE: f64 = 0.05;
const SETTLED_REBALANCE_NS: f64 = 100e6;
/// The part of the income for surveys. It is larger at first, by the ratio of these nanoseconds to
/// all time so far: a hot function costs more than surveys do.
const REBALANCE_SHARE: f64 = 0.1;
const EARLY_NS: f64 = 20e6;
/// The cost of waking up and going to sleep, which takes some 13 to 28 µs on a virtual machine, in
/// nanoseconds.
const WAKEUP_COST_NS: f64 = 20e3;
/// The maximum time between two surveys: a multiple of all time so far, and in nanoseconds.
const MAX_REBALANCE_FACTOR: f64 = 2.0;
const MAX_REBALANCE_NS: f64 = 4e9;
/// The time between surveys from which on there is time for more than surveys.
const MIN_CHECK_NS: f64 = 10e6;
/// Calls shorter than this, in nanoseconds, are not timed one by one, even if they are few. By the
/// next survey they may be so many that timing them takes as long as they do.
const SHORT_CALL_NS: f64 = 2e3;
/// The number of samples of the processor's clock from which on windows always have a function.
const HOT_SAMPLES: u32 = 3;
/// The part of the income for glances, which cost as much as waking up; and the part that the
/// functions of a glance may have cost since the last survey.
const CHECK_SHARE: f64 = 0.05;
const EXPECTED_HIT_SHARE: f64 = 0.5;
/// A guess for the cost of switching a function, in nanoseconds.
const SWITCH_FUNCTION_NS: f64 = 400.0;

#[derive(Clone, Debug)]
pub(super) struct Surveys {
    pub(super) last: Moment,
    /// How long calls may have gone untimed by then, and how much of it windows did not look at.
    pub(super) untimed: f64,
    pub(super) unwatched: f64,
    /// The time of all hits by then.
    pub(super) hits: f64,
    /// The cost of the last survey, in units of the budget.
    cost: f64,
    next_glance: f64,
    between: f64,
    /// The longest time until the next survey, since the last surprise.
    soon: f64,
}

impl Surveys {
    /// Begins soon.
    pub(super) fn new() -> Self {
        Self {
            last: Moment::default(),
            untimed: 0.0,
            unwatched: 0.0,
            hits: 0.0,
            cost: 0.0,
            next_glance: 0.0,
            between: MIN_REBALANCE_NS,
            soon: f64::INFINITY,
        }
    }

    /// Returns the latest time of the next survey.
    pub(super) fn next(&self) -> f64 {
        self.last.time + self.between
    }

    /// Returns the time of the next survey or glance.
    pub(super) fn next_look(&self) -> f64 {
        if self.between >= MIN_CHECK_NS { self.next().min(self.next_glance) } else { self.next() }
    }

    /// Returns whether the last survey was at least [`SETTLED_REBALANCE_NS`] ago.
    pub(super) fn is_old(&self, now: f64) -> bool {
        now - self.last.time >= SETTLED_REBALANCE_NS
    }

    /// Plans the next survey. `cost` is that of the last one, `hits` that of all calls in the time
    /// before it, and `income` that of a nanosecond.
    fn plan(&mut self, elapsed: f64, [cost, hits]: [f64; 2], income: f64) {
        self.cost = cost;
        let now = self.last.time;
        let share = REBALANCE_SHARE * (1.0 + EARLY_NS / now.max(1.0));
        let paid = cost / (share * income).max(f64::MIN_POSITIVE);
        let least = (MIN_REBALANCE_SHARE * now).clamp(MIN_REBALANCE_NS, SETTLED_REBALANCE_NS);
        let surprise = hits - income * elapsed;
        self.soon = if surprise > cost {
            (elapsed * (cost / surprise).sqrt()).max(MIN_REBALANCE_NS)
        } else {
            2.0 * self.soon
        };
        // The price of a hit is known better after a while, too.
        self.between = least.max(paid.min(MAX_REBALANCE_FACTOR * now)).min(MAX_REBALANCE_NS).min(self.soon);
    }
}

impl Running {
    /// Reads all functions, and chooses their modes anew.
    pub(super) fn survey(&mut self, sampler: &Sampler) {
        self.book(sampler);
        let own_before = self.cost.own;
        let joined = self.admit(sampler);
        let (at, last) = (self.moment(), self.surveys.last);
        let elapsed = at.time - last.time;
        let mut lately = Vec::with_capacity(self.states.len());
        let mut has_untimed = false;
        // Windows have looked at no function that has joined since the last survey.
        let mut has_unwatched = !joined.is_empty();
        let all: Vec<_> = (0..self.states.len()).collect();
        self.read_and_book(sampler, &all, |_, state, seen| {
            has_untimed |= state.has_untimed(&seen);
            has_unwatched |= state.is_joining && state.has_untimed(&seen);
            let before = std::mem::replace(&mut state.surveyed, seen.calls);
            state.is_known = before != 0.0;
            state.read(seen, at);
            // For `Sampled` functions, windows give the rate.
            let calls = seen.calls - before;
            if state.mode == MeasureMode::Sampled {
                lately.push(state.rate * elapsed);
            } else {
                let since = if state.added.time > last.time { state.added } else { last };
                state.rate = calls / (at.time - since.time).max(1.0);
                state.worked_rate = calls / (at.worked - since.worked).max(1.0);
                lately.push(calls);
            }
        });
        self.surveys.untimed += if has_untimed || has_unwatched { elapsed } else { 0.0 };
        self.surveys.unwatched += if has_unwatched { elapsed } else { 0.0 };
        self.loads.add(last.time, at.time, self.income * elapsed, lately.into_iter());
        self.surveys.last = at;
        let (costs, price) = (self.costs(), |time| self.bucket.price(time, 1.0));
        let timed = price(2.0 * costs.hit());
        let is_dear = timed > price(costs.counted);
        let now = |(number, it): (usize, &FunctionState)| {
            let price = price(costs.counted(it.is_in_place, self.loads.between(number)));
            Now { mode: it.mode, price, may_be_timed: it.may_be_timed(SHORT_CALL_NS, is_dear) }
        };
        let now: Vec<_> = self.states.iter().enumerate().map(now).collect();
        let arming = timed + self.bucket.price(SWITCH_FUNCTION_NS, 0.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number")]
        let more = (self.bucket.level / arming.max(f64::MIN_POSITIVE)).clamp(0.0, 1e9) as usize;
        let mut chosen = self.loads.choose(&now, timed, more);
        let is_unlimited = self.bucket.is_unlimited();
        joined.iter().filter(|_| is_unlimited).for_each(|it| chosen[*it] = MeasureMode::Timed);
        self.joining.iter().for_each(|it| chosen[*it] = MeasureMode::Counted);
        let is_new = |it: &usize| self.states[*it].mode != chosen[*it];
        let changed: Vec<_> = (0..self.states.len()).filter(is_new).collect();
        self.change(sampler, &changed, &chosen);
        self.list();
        self.book(sampler);
        let price = |time| self.bucket.price(time, 0.0);
        let costs =
            [self.cost.own - own_before + WAKEUP_COST_NS, self.cost.hits - self.surveys.hits].map(price);
        self.surveys.plan(elapsed, costs, self.income);
        self.surveys.hits = self.cost.hits;
        // Last, since sampling begins with a call that the kernel takes 15 ms for.
        if self.surveys.between >= MIN_CHECK_NS {
            self.read_shares(sampler);
        }
    }

    /// Looks at the functions that ran lately, and makes a survey if their calls since the last one
    /// have cost more than was to be expected, by more than a survey.
    pub(super) fn glance(&mut self, sampler: &Sampler) {
        self.surveys.next_glance = self.now()
            + match self.bucket.price(WAKEUP_COST_NS, 0.0) {
                // A budget of calls.
                0.0 => SETTLED_REBALANCE_NS,
                price => (price / (CHECK_SHARE * self.income).max(f64::MIN_POSITIVE)).max(MIN_CHECK_NS),
            };
        self.read_shares(sampler);
        let Some(shares) = self.shares.as_mut().filter(|it| it.is_sampling()) else {
            self.surveys.next_glance = f64::INFINITY;
            return;
        };
        let mut lately = shares.take_lately();
        // One that has joined is known from the next survey on.
        lately.retain(|it| self.states.get(*it).is_some_and(|it| it.mode != MeasureMode::Sampled));
        let costs = self.costs();
        let (mut calls, mut time) = (0.0, 0.0);
        for (function, seen) in lately.iter().zip(self.read(sampler, &lately)) {
            let state = &self.states[*function];
            let each = match state.mode {
                MeasureMode::Timed => 2.0 * costs.hit(),
                _ => costs.counted(state.is_in_place, self.loads.between(*function)),
            };
            calls += seen.calls - state.surveyed;
            time += (seen.calls - state.surveyed) * each;
        }
        let expected = EXPECTED_HIT_SHARE * self.income * (self.now() - self.surveys.last.time);
        if self.bucket.price(time, calls) > expected + self.surveys.cost {
            self.survey(sampler);
        }
    }

    /// Reads the samples of the processor's clock.
    pub(super) fn read_shares(&mut self, sampler: &Sampler) {
        // A budget of calls says nothing about time.
        let budget = self.bucket.income(0.0, 1.0);
        let budget = if budget > 0.0 { budget } else { 0.01 };
        if let Some(shares) = &mut self.shares {
            let took = shares.read(sampler, budget);
            self.cost.own += took;
            self.bucket.book(0.0, self.bucket.price(took, 0.0));
        }
    }

    /// Gives these functions their chosen modes. `chosen` is indexed by all functions.
    pub(super) fn change(&mut self, sampler: &Sampler, changed: &[usize], chosen: &[MeasureMode]) {
        if changed.is_empty() {
            return;
        }
        let (mut off, mut on, mut counted, mut delivered) = (vec![], vec![], vec![], vec![]);
        for &function in changed {
            let (entries, exits) = sampler.probes(function);
            let (from, to) = (self.states[function].mode, chosen[function]);
            if to == MeasureMode::Timed {
                delivered.extend(entries);
                on.extend(exits.iter().chain(entries));
                continue;
            }
            if from == MeasureMode::Timed {
                counted.extend(entries);
                off.extend(exits);
            }
            if to == MeasureMode::Counted { &mut on } else { &mut off }.extend(entries);
            sampler.set_mode(function, to);
        }
        self.switch.count(&counted);
        self.switch_off(&off);
        self.switch.deliver(&delivered);
        self.switch_on(
            &on,
            if delivered.is_empty() { Visibility::Eventual } else { Visibility::Synchronous },
        );
        let Surveys { untimed: time, unwatched, .. } = self.surveys;
        let others = Untimed { time, unwatched, windows: self.windows.timed };
        // Everything seen until now was seen in the earlier mode.
        let (now, readings) = self.read_at(sampler, changed);
        for (&function, seen) in changed.iter().zip(readings) {
            sampler.set_mode(function, chosen[function]);
            let state = &mut self.states[function];
            // Created before it is read: otherwise `begin` would create it without the calls so
            // far.
            state.measured();
            state.read(seen, now);
            state.begin(chosen[function], now, others);
        }
        self.cost.toggles += changed.len() as u64;
    }

    /// Lists the functions that windows sample, so that windows need not look at all functions.
    fn list(&mut self) {
        let (states, loads) = (&self.states, &self.loads);
        let is_for = |it: &usize| match states[*it].mode {
            _ if states[*it].is_joining => false,
            MeasureMode::Timed => false,
            MeasureMode::Counted => loads.is_called(*it),
            MeasureMode::Sampled => true,
        };
        // Those whose share is known best, the largest first.
        let share = |it: &usize| self.shares.as_ref().map_or(0, |shares| shares.seen(*it));
        let (mut functions, others): (Vec<_>, Vec<_>) =
            (0..states.len()).filter(is_for).partition(|it| share(it) >= HOT_SAMPLES);
        crate::engine::order::sort_by(&mut functions, |a, b| share(b).cmp(&share(a)));
        let hot = functions.len();
        functions.extend(others);
        self.in_windows = Listed::new(functions, hot, |it| self.sites[it]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the times between surveys that cost 0.1 ms each, at 1 % of a processor, if calls
    /// between two of them cost so many milliseconds.
    fn between(hits: &[f64]) -> Vec<f64> {
        let mut surveys = Surveys::new();
        let each = |hits: &f64| {
            let elapsed = surveys.between;
            surveys.last.time += elapsed;
            surveys.plan(elapsed, [100e3, hits * 1e6], 0.01);
            surveys.between / 1e6
        };
        hits.iter().map(each).collect()
    }

    #[test]
    fn glances_come_between_surveys_that_are_far_apart() {
        let mut surveys = Surveys { next_glance: 20e6, ..Surveys::new() };
        assert!(surveys.next_look() < 20e6, "the next survey comes soon");
        surveys.between = 300e6;
        assert!((surveys.next_look() - 20e6).abs() < 1e-6);
        surveys.next_glance = f64::INFINITY;
        assert!((surveys.next_look() - 300e6).abs() < 1e-6, "no thread is sampled");
    }

    #[test]
    fn surveys_come_sooner_after_a_surprise() {
        let calm = between(&[0.0; 20]);
        // Calls that the income pays for are no surprise.
        assert_eq!(between(&[0.001; 20]), calm);
        // A tenth of 1 % pays for 0.1 ms in 100 ms, and for more of them early.
        assert!((90.0..100.0).contains(&calm[19]), "{calm:?}");
        let mut hits = [0.0; 40];
        hits[20] = 10.0;
        let surprised = between(&hits);
        let [before, after] = [surprised[19], surprised[20]];
        // The root of 0.1 ms in 10 ms, less what the income paid.
        assert!((after / before - 0.1).abs() < 0.01, "{before} {after}");
        let doubled = surprised[21..25].windows(2).all(|two| two[1] > 1.9 * two[0] || two[1] > 50.0);
        assert!(doubled && (90.0..=100.0).contains(&surprised[39]), "{surprised:?}");
        // As often as at first, and not more.
        assert!(between(&[1e3; 30]).iter().all(|it| (0.3..100.0).contains(it)));
    }
}
