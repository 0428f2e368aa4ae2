//! A *rebalance* reads all functions, and chooses their modes anew: timed at each call, counted at
//! each call, or counted in windows.
//!
//! # When
//! The first rebalance comes after 0.3 ms. The next ones come as often as a part of the budget pays
//! for, and ever less often. They do not come during a window.
//!
//! Functions that have become hot since the last rebalance may cost many times as much as it, since
//! each of their calls is counted. After such a surprise, the next rebalance comes sooner. The cost
//! of random surprises grows with the square of the time between rebalances. The sum of that and of
//! the rebalances' own cost is smallest where both are equal. So the time between rebalances is
//! multiplied by the root of the ratio of the two. Without a surprise, it is at most doubled.
//!
//! Between rebalances, the samples of the processor's clock tell which functions run now. A *hot
//! check* reads these few, and leads to a rebalance if their calls have become expensive.
//!
//! # Which mode
//! A function's *load* is the cost of its recent calls, as a part of the income of the same time.
//! Functions are taken in the order of their loads, the smallest first, so that as many as possible
//! are measured completely:
//!
//! ```text
//! loads:  0 … ▸ Timed, while all of them cost at most TIMED_SHARE of the income
//!             ▸ Counted, while all of them cost at most COUNTED_SHARE of it
//!             ▸ Sampled
//! ```
//! A function that would be measured more than now needs twice the room, so that it does not switch
//! back and forth.

use super::controller::Controller;
use super::estimate::Untimed;
use super::function_state::{FunctionState, Timestamp};
use super::sampler::Sampler;
use super::windows::WindowFunctions;
use crate::engine::sites::Visibility;

/// The time before the first rebalance, and the minimum time between two, in nanoseconds.
const MIN_REBALANCE_NS: f64 = 300e3;
/// The minimum time between two rebalances, as a part of all time so far, and the limit of that
/// minimum in nanoseconds. So a function that has become hot since the last rebalance has had only
/// that part of the time to cost anything.
const MIN_REBALANCE_SHARE: f64 = 0.05;
const SETTLED_REBALANCE_NS: f64 = 100e6;
/// The part of the income for rebalances. It is larger at first, by the ratio of these nanoseconds
/// to all time so far: a hot function costs more than rebalances do.
const REBALANCE_SHARE: f64 = 0.1;
const EARLY_NS: f64 = 20e6;
/// The cost of waking up and going to sleep, which takes some 13 to 28 µs on a virtual machine, in
/// nanoseconds.
const WAKEUP_COST_NS: f64 = 20e3;
/// The maximum time between two rebalances: a multiple of all time so far, and in nanoseconds.
const MAX_REBALANCE_FACTOR: f64 = 2.0;
const MAX_REBALANCE_NS: f64 = 4e9;
/// The minimum time between hot checks, in nanoseconds. If rebalances are closer together, there
/// are no hot checks.
const MIN_CHECK_NS: f64 = 10e6;
/// Calls shorter than this, in nanoseconds, are not timed one by one, even if they are few. By the
/// next rebalance there may be enough of them that timing takes as long as the calls do.
const SHORT_CALL_NS: f64 = 2e3;
/// The number of samples of the processor's clock from which on windows always have a function.
const HOT_SAMPLES: u32 = 3;
/// The part of the income for hot checks, which cost as much as waking up; and the part that the
/// functions of a hot check may have cost since the last rebalance.
const CHECK_SHARE: f64 = 0.05;
const EXPECTED_HIT_SHARE: f64 = 0.5;
/// A guess for the cost of switching a function, in nanoseconds.
const SWITCH_FUNCTION_NS: f64 = 400.0;

/// Decides when the next rebalance or hot check is due. Pure.
#[derive(Clone, Default, Debug)]
pub(super) struct RebalanceSchedule {
    pub(super) last: Timestamp,
    /// How long calls may have gone untimed by then, and how much of that no window looked at.
    pub(super) untimed: f64,
    pub(super) unwatched: f64,
    /// The time of all hits by then.
    pub(super) hits: f64,
    /// The cost of the last rebalance, in units of the budget.
    cost: f64,
    next_check: f64,
    interval: f64,
    /// The longest time until the next rebalance, since the last surprise.
    max_interval: f64,
}

impl RebalanceSchedule {
    /// Creates a schedule whose first rebalance is due after [`MIN_REBALANCE_NS`].
    pub(super) fn new() -> Self {
        Self { interval: MIN_REBALANCE_NS, max_interval: f64::INFINITY, ..Self::default() }
    }

    /// Returns the latest time of the next rebalance.
    pub(super) fn next(&self) -> f64 {
        self.last.time + self.interval
    }

    /// Returns the time of the next rebalance or hot check.
    pub(super) fn next_due(&self) -> f64 {
        if self.interval >= MIN_CHECK_NS { self.next().min(self.next_check) } else { self.next() }
    }

    /// Returns whether the last rebalance was at least [`SETTLED_REBALANCE_NS`] ago.
    pub(super) fn is_old(&self, now: f64) -> bool {
        now - self.last.time >= SETTLED_REBALANCE_NS
    }

    /// Plans the next rebalance. `cost` is that of the last one, `hits` that of all calls in the
    /// time before it, and `income` that of a nanosecond.
    fn plan(&mut self, elapsed: f64, [cost, hits]: [f64; 2], income: f64) {
        self.cost = cost;
        let now = self.last.time;
        let share = REBALANCE_SHARE * (1.0 + EARLY_NS / now.max(1.0));
        let paid = cost / (share * income).max(f64::MIN_POSITIVE);
        let least = (MIN_REBALANCE_SHARE * now).clamp(MIN_REBALANCE_NS, SETTLED_REBALANCE_NS);
        let surprise = hits - income * elapsed;
        self.max_interval = if surprise > cost {
            (elapsed * (cost / surprise).sqrt()).max(MIN_REBALANCE_NS)
        } else {
            2.0 * self.max_interval
        };
        // The price of a hit is known better after a while, too.
        self.interval =
            least.max(paid.min(MAX_REBALANCE_FACTOR * now)).min(MAX_REBALANCE_NS).min(self.max_interval);
    }
}

impl Controller {
    /// Reads all functions, and chooses their modes anew.
    pub(super) fn rebalance(&mut self, sampler: &Sampler) {
        self.account(sampler);
        let own_before = self.cost.own;
        let joined = self.promote(sampler);
        let (at, last) = (self.timestamp(), self.schedule.last);
        let elapsed = at.time - last.time;
        let mut lately = Vec::with_capacity(self.states.len());
        let mut has_untimed = false;
        // Windows have looked at no function that has joined since the last rebalance.
        let mut has_unwatched = !joined.is_empty();
        let all: Vec<_> = (0..self.states.len()).collect();
        self.read_and_account(sampler, &all, |_, state, seen| {
            has_untimed |= state.has_untimed(&seen);
            has_unwatched |= state.is_joining && state.has_untimed(&seen);
            let before = std::mem::replace(&mut state.rebalanced_calls, seen.calls);
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
        self.schedule.untimed += if has_untimed || has_unwatched { elapsed } else { 0.0 };
        self.schedule.unwatched += if has_unwatched { elapsed } else { 0.0 };
        self.loads.add(last.time, at.time, self.income * elapsed, lately.into_iter());
        self.schedule.last = at;
        let (costs, price) = (self.costs(), |time| self.bucket.price(time, 1.0));
        let timed = price(2.0 * costs.hit());
        let is_dear = timed > price(costs.counted);
        let now = |(number, it): (usize, &FunctionState)| {
            let price = price(costs.counted(it.is_in_place, self.loads.others_between(number)));
            ModeInput { mode: it.mode, price, may_be_timed: it.may_be_timed(SHORT_CALL_NS, is_dear) }
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
        self.list_window_functions();
        self.account(sampler);
        let price = |time| self.bucket.price(time, 0.0);
        let costs =
            [self.cost.own - own_before + WAKEUP_COST_NS, self.cost.hits - self.schedule.hits].map(price);
        self.schedule.plan(elapsed, costs, self.income);
        self.schedule.hits = self.cost.hits;
        // Last, since sampling begins with a call that the kernel takes 15 ms for.
        if self.schedule.interval >= MIN_CHECK_NS {
            self.read_shares(sampler);
        }
    }

    /// Looks at the functions that ran lately. Rebalances if their calls since the last rebalance
    /// have cost more than expected, by more than a rebalance.
    pub(super) fn check_hot(&mut self, sampler: &Sampler) {
        self.schedule.next_check = self.now()
            + match self.bucket.price(WAKEUP_COST_NS, 0.0) {
                // A budget of calls.
                0.0 => SETTLED_REBALANCE_NS,
                price => (price / (CHECK_SHARE * self.income).max(f64::MIN_POSITIVE)).max(MIN_CHECK_NS),
            };
        self.read_shares(sampler);
        let Some(shares) = self.shares.as_mut().filter(|it| it.is_sampling()) else {
            self.schedule.next_check = f64::INFINITY;
            return;
        };
        let mut lately = shares.take_recent();
        // A function that has just joined has no state before the next rebalance.
        lately.retain(|it| self.states.get(*it).is_some_and(|it| it.mode != MeasureMode::Sampled));
        let costs = self.costs();
        let (mut calls, mut time) = (0.0, 0.0);
        for (function, seen) in lately.iter().zip(self.read(sampler, &lately)) {
            let state = &self.states[*function];
            let each = match state.mode {
                MeasureMode::Timed => 2.0 * costs.hit(),
                _ => costs.counted(state.is_in_place, self.loads.others_between(*function)),
            };
            calls += seen.calls - state.rebalanced_calls;
            time += (seen.calls - state.rebalanced_calls) * each;
        }
        let expected = EXPECTED_HIT_SHARE * self.income * (self.now() - self.schedule.last.time);
        if self.bucket.price(time, calls) > expected + self.schedule.cost {
            self.rebalance(sampler);
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
            self.bucket.account(0.0, self.bucket.price(took, 0.0));
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
        let RebalanceSchedule { untimed: time, unwatched, .. } = self.schedule;
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
    fn list_window_functions(&mut self) {
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
        self.window_functions = WindowFunctions::new(functions, hot, |it| self.sites[it]);
    }
}

/// How much of a function is measured.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) enum MeasureMode {
    /// Calls are counted, and timed, in windows.
    Sampled,
    /// Each call is counted. Times come from windows.
    #[default]
    Counted,
    /// Each call is timed.
    Timed,
}

/// The parts of the income for functions that are timed or counted at each call. The rest is for
/// windows, for polls, and for the cost of attaching.
const TIMED_SHARE: f64 = 0.2;
const COUNTED_SHARE: f64 = 0.3;
/// The half-life of calls, in nanoseconds and as a part of all time so far; the smaller one counts.
/// The first millisecond says little about the tenth.
const HALF_LIFE_NS: f64 = 1e9;
const HALF_LIFE_SHARE: f64 = 0.25;
/// A smaller number of calls is set to zero.
const FORGOTTEN_CALLS: f64 = 1e-3;
/// The number of functions that evict each other's counters, and the code that counts, from the
/// nearest cache if they are called in turns.
const CACHED_FUNCTIONS: f64 = 256.0;

/// The figures of a function that decide its mode.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
struct ModeInput {
    pub(super) mode: MeasureMode,
    /// The cost of counting a call, in units of the budget.
    pub(super) price: f64,
    /// Whether each call may be timed, if the budget pays for it.
    pub(super) may_be_timed: bool,
}

/// The recent costs of functions. Pure.
#[derive(Clone, Default, Debug)]
pub(super) struct Loads {
    calls: Vec<f64>,
    /// The functions, those called least first. Those not called are last.
    order: Vec<u32>,
    /// How many other functions are called between two calls of a function.
    others_between: Vec<f32>,
    /// The income while they were called.
    income: f64,
    /// How much the functions evict each other from the nearest cache: from 0 to 1.
    pub(super) cache_pressure: f64,
}

impl Loads {
    pub(super) fn new(functions: usize) -> Self {
        let mut loads = Self::default();
        loads.extend(functions);
        loads
    }

    /// Makes room for this number of functions. Those added last have not been called.
    pub(super) fn extend(&mut self, functions: usize) {
        self.calls.resize(functions, 0.0);
        self.others_between.resize(functions, 0.0);
        let more = u32::try_from(functions).unwrap_or(u32::MAX);
        self.order.extend(u32::try_from(self.order.len()).unwrap_or(more)..more);
    }

    /// Adds the income and the calls of each function between two moments.
    pub(super) fn add(&mut self, from: f64, to: f64, income: f64, calls: impl Iterator<Item = f64>) {
        let half = HALF_LIFE_NS.min(HALF_LIFE_SHARE * to).max(1.0);
        let kept = ((from - to) / half).exp2();
        self.income = self.income * kept + income;
        for (all, calls) in self.calls.iter_mut().zip(calls) {
            let left = *all * kept + calls;
            *all = if left < FORGOTTEN_CALLS { 0.0 } else { left };
        }
        // The number of functions that would be as unpredictable if all were called equally often:
        // the exponential of the entropy.
        let called = || self.calls.iter().filter(|it| **it > 0.0);
        let sum: f64 = called().sum();
        let entropy =
            if sum > 0.0 { sum.ln() - called().map(|it| it * it.ln()).sum::<f64>() / sum } else { 0.0 };
        self.cache_pressure = (entropy.exp() / CACHED_FUNCTIONS).min(1.0);
        // Functions that are not called cost nothing, and are last.
        let key = |it: &u32| match self.calls[*it as usize] {
            0.0 => f64::INFINITY,
            calls => calls,
        };
        crate::engine::order::sort_by(&mut self.order, |a, b| key(a).total_cmp(&key(b)));
        let called = called().count();
        // Of those called less often, each call comes between two of its own with that probability.
        let mut below = 0.0;
        for (rank, function) in self.order[..called].iter().enumerate() {
            let calls = self.calls[*function as usize];
            #[expect(clippy::cast_possible_truncation, reason = "a rough number")]
            let between = (below / calls + (called - 1 - rank) as f64) as f32;
            self.others_between[*function as usize] = between;
            below += calls;
        }
    }

    /// Returns how many other functions are called between two calls of a function.
    pub(super) fn others_between(&self, function: usize) -> f64 {
        self.others_between[function].into()
    }

    /// Returns whether a function was called recently.
    pub(super) fn is_called(&self, function: usize) -> bool {
        self.calls[function] > 0.0
    }

    /// Chooses the mode of each function. `timed` is the price of a timed call; at most `more`
    /// functions are newly timed.
    fn choose(&self, now: &[ModeInput], timed: f64, more: usize) -> Vec<MeasureMode> {
        let mut chosen: Vec<_> = now.iter().map(|it| it.mode).collect();
        if self.income <= 0.0 {
            return chosen;
        }
        let (mut of_timed, mut of_counted, mut left) = (0.0, 0.0, more);
        for function in self.order.iter().map(|it| *it as usize) {
            let (ModeInput { mode, price, may_be_timed }, calls) = (now[function], self.calls[function]);
            let hysteresis = |than: MeasureMode| if mode < than { 2.0 } else { 1.0 };
            let as_timed = calls * timed / self.income;
            // A lower estimate of its calls, so that a random burst does not make it count in
            // windows from then on.
            let as_counted = (calls - 2.0 * calls.sqrt()).max(0.0) * price / self.income;
            let may_be_timed = may_be_timed && (mode == MeasureMode::Timed || left > 0);
            chosen[function] =
                if may_be_timed && of_timed + as_timed * hysteresis(MeasureMode::Timed) <= TIMED_SHARE {
                    of_timed += as_timed;
                    left -= usize::from(mode != MeasureMode::Timed);
                    MeasureMode::Timed
                } else if of_counted + as_counted * hysteresis(MeasureMode::Counted) <= COUNTED_SHARE {
                    of_counted += as_counted;
                    MeasureMode::Counted
                } else {
                    MeasureMode::Sampled
                };
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::MeasureMode::{Counted, Sampled, Timed};
    use super::*;

    /// Returns the times between rebalances that cost 0.1 ms each, at 1 % of a processor, if calls
    /// between two of them cost `hits` milliseconds.
    fn between(hits: &[f64]) -> Vec<f64> {
        let mut schedule = RebalanceSchedule::new();
        let each = |hits: &f64| {
            let elapsed = schedule.interval;
            schedule.last.time += elapsed;
            schedule.plan(elapsed, [100e3, hits * 1e6], 0.01);
            schedule.interval / 1e6
        };
        hits.iter().map(each).collect()
    }

    #[test]
    fn hot_checks_come_between_rebalances_that_are_far_apart() {
        let mut schedule = RebalanceSchedule { next_check: 20e6, ..RebalanceSchedule::new() };
        assert!(schedule.next_due() < 20e6, "the next rebalance comes soon");
        schedule.interval = 300e6;
        assert!((schedule.next_due() - 20e6).abs() < 1e-6);
        schedule.next_check = f64::INFINITY;
        assert!((schedule.next_due() - 300e6).abs() < 1e-6, "no thread is sampled");
    }

    #[test]
    fn rebalances_come_sooner_after_a_surprise() {
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

    fn loads(calls: &[f64]) -> Loads {
        let mut loads = Loads::new(calls.len());
        loads.add(0.0, 1000.0, 1000.0, calls.iter().copied());
        loads
    }

    fn chosen(loads: &Loads, now: &[MeasureMode], may_be_timed: bool, more: usize) -> Vec<MeasureMode> {
        let now: Vec<_> =
            now.iter().map(|mode| ModeInput { mode: *mode, price: 1.0, may_be_timed }).collect();
        loads.choose(&now, 50.0, more)
    }

    #[test]
    fn functions_called_seldom_come_first() {
        // 200 for times: four calls. 300 for counts: the lower estimate of 100 is 80, and that of
        // 260 is 227.
        let loads = loads(&[100.0, 2.0, 0.0, 260.0, 2.0, 1.0]);
        let new = chosen(&loads, &[Counted; 6], true, 9);
        assert_eq!(new, [Counted, Counted, Timed, Sampled, Counted, Timed], "twice the room to come in");
        let kept = chosen(&loads, &[Counted, Timed, Timed, Counted, Counted, Timed], true, 9);
        assert_eq!(kept, [Counted, Timed, Timed, Sampled, Counted, Timed]);
        for (may_be_timed, more) in [(true, 0), (false, 9)] {
            let none = chosen(&loads, &[Counted; 6], may_be_timed, more);
            assert_eq!(none, [Counted, Counted, Counted, Sampled, Counted, Counted]);
        }
    }

    #[test]
    fn many_functions_in_turns_evict_each_other_from_the_cache() {
        let cache_pressure = |calls: &[f64]| 256.0 * loads(calls).cache_pressure;
        assert!((cache_pressure(&[16.0; 64]) - 64.0).abs() < 1e-9);
        assert!((cache_pressure(&[16.0; 512]) - 256.0).abs() < 1e-9);
        assert!((cache_pressure(&[1e6, 1.0, 0.0]) - 1.0).abs() < 1e-4);
    }

    #[test]
    fn rare_functions_have_more_others_in_between() {
        let all = loads(&[4.0, 0.0, 2.0, 400.0, 1.0]);
        for (function, between) in [(0, 1.75), (2, 2.5), (3, 7.0 / 400.0), (4, 3.0)] {
            assert!((all.others_between(function) - between).abs() < 1e-6, "{all:?}");
        }
        // In turns, all others.
        assert!((0..9).all(|it| (loads(&[5.0; 9]).others_between(it) - 8.0).abs() < 1e-6));
    }

    #[test]
    fn calls_of_long_ago_are_forgotten() {
        let mut loads = loads(&[400.0, 0.0]);
        // Two half-lives.
        loads.add(1000.0, 2000.0, 1000.0, [0.0, 7.0].into_iter());
        assert!((loads.calls[0] - 100.0).abs() < 1e-9 && loads.is_called(1), "{loads:?}");
        assert!((loads.income - 1250.0).abs() < 1e-9, "{loads:?}");
        assert_eq!(chosen(&Loads::new(1), &[Sampled], true, 9), [Sampled]);
    }

    #[test]
    fn a_single_call_is_forgotten_within_an_hour() {
        let mut loads = loads(&[1.0, 1e6]);
        for rebalance in 1..36_000 {
            let from = f64::from(rebalance) * 1e8;
            loads.add(from, from + 1e8, 1000.0, [0.0, 1e5].into_iter());
        }
        assert!(!loads.is_called(0) && loads.cache_pressure < 0.01, "{loads:?}");
    }
}
