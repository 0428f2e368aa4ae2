//! Plans windows, and executes them step by step.
//!
//! # When
//! ```text
//!            sampling interval                          next sampling interval
//! ├───────┬──────┬───────┬──────┬──────┬───────┬────────┼──── …
//!         warm   count   warm   time   end
//!         Sampled        Sampled, Counted: calls that begin in `time` are timed, to their ends
//! ```
//! Each sampling interval has one window. Its place is random and uniform, except that it must fit,
//! and its length does not depend on anything that it sees. So windows represent all of the time,
//! whatever the program does. A sampling interval is as long as its window costs, within limits,
//! and randomly up to half longer or shorter.
//!
//! Sites that were just switched take longer at first, because other processors fetch the code
//! anew. So a window begins a while after its functions' sites were switched.
//!
//! # Order of switching
//! Exits become active before entries, and all threads see both before the window opens. The window
//! closes before any site becomes latent. So the exit of each timed call is active for the whole
//! call, or the call is forgotten.

use super::controller::Controller;
use super::estimate::Untimed;
use super::function_state::Timestamp;
use super::rebalance::MeasureMode;
use super::sampler::Sampler;
use super::thread_state::FunctionTotals;
use crate::engine::registry::ProbeId;
use crate::engine::sites::Visibility;

/// The weight of the last window in running means over windows.
const LAST_WINDOW_WEIGHT: f64 = 0.25;

/// The part of its rehearsed cost that a counted hit takes of a window's time: between 0.2 and 1.6.
const WINDOW_HIT_FACTOR: f64 = 0.9;

impl Controller {
    /// Executes the steps that are due.
    pub(super) fn step(&mut self, sampler: &Sampler) {
        let now = self.now();
        let is_resting = self.windows.phase == Phase::Idle;
        if is_resting && now >= self.schedule.next() {
            self.rebalance(sampler);
        } else if is_resting && now >= self.schedule.next_due() {
            self.check_hot(sampler);
        }
        if now < self.windows.next() {
            return;
        }
        self.refused = 0;
        match std::mem::replace(&mut self.windows.phase, Phase::Idle) {
            Phase::Idle => self.begin_window(sampler),
            Phase::Warming(_) => self.begin_counting(sampler),
            Phase::Counting(since, calls) => {
                self.end_counting(sampler, since, &calls);
                self.begin_timing(sampler);
            }
            Phase::Timing(_) => self.end_timing(sampler),
        }
    }

    /// Returns the time of the next poll.
    pub(super) fn next(&self) -> f64 {
        let next = self.windows.next();
        if self.windows.phase == Phase::Idle { next.min(self.schedule.next_due()) } else { next }
    }

    /// Plans the next sampling interval.
    pub(super) fn plan(&mut self) {
        self.windows.plan(self.now(), self.income, self.debt());
    }

    fn begin_window(&mut self, sampler: &Sampler) {
        let now = self.now();
        self.account(sampler);
        // A large debt may come from a function that is timed at each call, and is called often by
        // now. Rebalancing does not help against one that comes from attaching or from windows.
        if self.debt() >= 1.0 && self.schedule.is_old(self.now()) && self.has_dear_hits() {
            self.rebalance(sampler);
        }
        if !self.windows.is_due(now) {
            return;
        }
        self.windows.spent_before = self.bucket.spent;
        if self.window_functions.is_empty() {
            return self.plan();
        }
        self.windows.begin(&self.window_functions);
        for (function, weight) in self.windows.weights() {
            #[expect(clippy::cast_possible_truncation, reason = "a number that is whole, or rounded")]
            let weight = weight as f32;
            self.states[function].weight = weight;
        }
        let is_sampled = |it: &usize| self.states[*it].mode == MeasureMode::Sampled;
        self.counted_in_window = self.windows.functions.iter().copied().filter(is_sampled).collect();
        if self.counted_in_window.is_empty() {
            return self.begin_timing(sampler);
        }
        self.switch_on(&sampler.entries(&self.counted_in_window), Visibility::Synchronous);
        self.cost.toggles += self.counted_in_window.len() as u64;
        self.windows.note_switched(self.counted_in_window.len());
        self.windows.phase = Phase::Warming(self.now());
    }

    fn begin_counting(&mut self, sampler: &Sampler) {
        let (since, readings) = self.read_at(sampler, &self.counted_in_window);
        let calls = readings.map(|seen| [seen.calls, seen.calls - seen.resumed]).collect();
        self.windows.phase = Phase::Counting(since, calls);
    }

    fn end_counting(&mut self, sampler: &Sampler, since: Timestamp, before: &[[f64; 2]]) {
        let (now, readings) = self.read_at(sampler, &self.counted_in_window);
        let took = (now.time - since.time).max(1.0);
        let calls = readings
            .zip(before)
            .map(|(seen, before)| [seen.calls - before[0], seen.calls - seen.resumed - before[1]]);
        let calls: Vec<_> = calls.collect();
        let costs = self.costs();
        let of_each = |(function, calls): (&usize, &[f64; 2])| {
            calls[0] * costs.counted(self.states[*function].is_in_place, self.loads.others_between(*function))
        };
        let time = self.counted_in_window.iter().zip(&calls).map(of_each).sum::<f64>();
        for (function, calls) in self.counted_in_window.iter().zip(&calls) {
            let state = &mut self.states[*function];
            let weight = f64::from(state.weight) / took;
            state.measured().add_window(weight, *calls, [since, now], WINDOW_HIT_FACTOR * time);
            state.rate += LAST_WINDOW_WEIGHT * (calls[0] / took - state.rate);
        }
        let counting_factor = self.windows.counting_factor();
        let calls: f64 = calls.iter().map(|it| it[0]).sum();
        self.spend(counting_factor * calls, counting_factor * time);
    }

    fn begin_timing(&mut self, sampler: &Sampler) {
        let inside = &self.windows.functions;
        let (functions, entries, exits) = (inside.len(), sampler.entries(inside), sampler.exits(inside));
        self.switch_on(&exits, Visibility::Eventual);
        // The entries count until all threads have seen that they deliver.
        self.switch.deliver(&entries);
        self.refused += self.switch.on(&[], Visibility::Synchronous).refused();
        self.cost.toggles += functions as u64;
        self.windows.note_switched(functions);
        let [delay, length, weight] = self.windows.timing_ticks(self.scale);
        sampler.open(delay, length, weight);
        self.windows.phase = Phase::Timing(self.now());
    }

    fn end_timing(&mut self, sampler: &Sampler) {
        let inside = std::mem::take(&mut self.windows.functions);
        sampler.close();
        // In this order: a latent site is redirected without a write.
        self.switch_off(&[sampler.exits(&inside), sampler.entries(&self.counted_in_window)].concat());
        self.switch.count(&sampler.entries(&inside));
        let (now, readings) = self.read_at(sampler, &inside);
        for (function, seen) in inside.iter().zip(readings) {
            let state = &mut self.states[*function];
            state.read(seen, now);
            state.measured().note_window();
        }
        self.account(sampler);
        let spent = self.bucket.spent - self.windows.spent_before;
        let sites = inside.iter().map(|it| u64::from(self.sites[*it])).sum();
        self.windows.record_cost(sites, spent, self.income);
        self.windows.timed += 1.0;
        self.plan();
    }

    /// Returns whether hits since the last rebalance have cost half of the income or more.
    fn has_dear_hits(&self) -> bool {
        let hits = self.cost.hits - self.schedule.hits;
        self.bucket.price(hits, f64::INFINITY) >= 0.5 * self.income * (self.now() - self.schedule.last.time)
    }

    /// Returns how long calls may have gone untimed, and the number of windows so far. That number
    /// is NaN if some windows have not had all functions.
    pub(super) fn untimed(&self, sampler: &Sampler, now: f64) -> Untimed {
        let of_mode = |mode| (0..self.states.len()).filter(move |it| self.states[*it].mode == mode);
        let is_called = || {
            let counted: Vec<_> = of_mode(MeasureMode::Counted).collect();
            // In parts: one of the first has most often been called.
            counted.chunks(64).any(|some| {
                let readings = self.read(sampler, some);
                some.iter().zip(readings).any(|(it, seen)| self.states[*it].has_untimed(&seen))
            })
        };
        // In most cases, this needs no reading.
        let lately = of_mode(MeasureMode::Sampled).next().is_some() || is_called();
        // As a rebalance would find it. There are few of these.
        let mut joining = self.joining.iter().zip(self.read(sampler, &self.joining));
        let last = self.schedule.last.time;
        let has_new = joining.any(|(it, seen)| {
            let state = &self.states[*it];
            state.added.time > last || state.has_untimed(&seen)
        });
        let since = |is_so| if is_so { now - last } else { 0.0 };
        Untimed {
            time: self.schedule.untimed + since(lately || has_new),
            unwatched: self.schedule.unwatched + since(has_new),
            windows: if self.windows.is_partial { f64::NAN } else { self.windows.timed },
        }
    }

    /// Reads the sums of these functions, with the moment of the reading.
    pub(super) fn read_at<'a>(
        &self,
        sampler: &'a Sampler,
        functions: &'a [usize],
    ) -> (Timestamp, impl Iterator<Item = FunctionTotals> + use<'a>) {
        (self.timestamp(), self.read(sampler, functions))
    }

    pub(super) fn switch_on(&mut self, probes: &[ProbeId], visibility: Visibility) {
        if !probes.is_empty() {
            self.refused += self.switch.on(probes, visibility).refused();
        }
    }

    pub(super) fn switch_off(&mut self, probes: &[ProbeId]) {
        if !probes.is_empty() {
            self.refused += self.switch.off(probes, Visibility::Eventual).refused();
        }
    }
}

/// The length of the part of a window that times calls, in nanoseconds. Other parts are in units of
/// it: the one that counts calls takes [`COUNTING_WINDOWS`].
const WINDOW_NS: f64 = 60e3;
const COUNTING_WINDOWS: f64 = 4.0;
/// The time until the code of hits is warm: a part of the window, and nanoseconds for each
/// function, up to another part.
const WARM_UP_WINDOWS: f64 = 0.3;
const WARM_UP_PER_FUNCTION_NS: f64 = 300.0;
const MAX_EXTRA_WARM_UP_WINDOWS: f64 = 1.5;
/// The longest sampling interval without a debt, and the longest time between two updates of the
/// accounts, in nanoseconds.
const MAX_INTERVAL_NS: f64 = 1e9;
const ACCOUNTING_INTERVAL_NS: f64 = 250e6;
/// The part of the income for windows.
const WINDOW_SHARE: f64 = 0.3;
/// How much rarer windows become with a large debt. With large savings, there are twice as many.
const DEBT_SLOWDOWN: f64 = 3.0;
/// A guess for the cost of switching a site for a window, in nanoseconds.
const SWITCH_SITE_NS: f64 = 100.0;
/// Windows of functions with no more sites than this have all of them, and so have those of a few
/// functions with up to four times as many. Of more sites, a window has those of the functions with
/// the largest shares of the CPU time, up to half of its sites, and of neighbours, from a random
/// one on: the sites of neighbours in the order of paths mostly share pages, and each run of pages
/// that is opened for a batch takes as long as dozens of sites.
const FEW_SITES: u64 = 2048;
const FEW_FUNCTIONS: usize = 256;
/// The smallest and the largest number of sites in a window that has not all.
const MIN_WINDOW_SITES: f64 = 128.0;
const MAX_WINDOW_SITES: f64 = 16_384.0;
/// The length of a sampling interval that pays for the number of sites in its window.
const PAYING_INTERVAL_NS: f64 = 60e6;

/// The state of sampling intervals and windows. Pure.
#[derive(Clone, Default, Debug)]
pub(super) struct Windows {
    phase: Phase,
    /// The minimum length of a sampling interval.
    min_interval: f64,
    /// The sampling interval: its beginning and end, and the beginning of its window.
    interval_start: f64,
    interval_end: f64,
    window_start: f64,
    /// The time of the next update of the accounts, at the latest.
    next_accounting: f64,
    /// The cost of a window, in units of the budget.
    pub(super) cost: f64,
    /// The total that had been spent when the window began.
    spent_before: f64,
    /// The time until the window is warm, in units of [`WINDOW_NS`].
    warm_up: f64,
    /// The number of sites in a window if there are more than [`FEW_SITES`].
    max_sites: f64,
    /// The functions in the window, those first that are in each window; the number of these; and
    /// the number of calls that each of their calls stands for, and each of the others'.
    pub(super) functions: Vec<usize>,
    in_each_window: usize,
    pub(super) weight: f64,
    weight_of_others: f64,
    /// The number of windows that have timed calls, and whether some have not had all functions.
    pub(super) timed: f64,
    pub(super) is_partial: bool,
    random: u64,
}

/// The part of the sampling interval, with the time since when it lasts.
#[derive(Clone, PartialEq, Default, Debug)]
enum Phase {
    #[default]
    Idle,
    Warming(f64),
    /// With two numbers for each function by then: its calls, and those of them that are not later
    /// polls of a future.
    Counting(Timestamp, Vec<[f64; 2]>),
    Timing(f64),
}

impl Windows {
    /// Plans for this number of functions; `seed` is any number. `price` returns the cost of a time
    /// and a number of calls.
    pub(super) fn new(
        seed: u64,
        functions: usize,
        min_interval: f64,
        price: impl Fn(f64, f64) -> f64,
    ) -> Self {
        let switching = (2.0 * functions as f64).min(FEW_SITES as f64) * SWITCH_SITE_NS;
        Self {
            min_interval,
            cost: price(2.0 * WINDOW_NS + switching, 100.0),
            warm_up: WARM_UP_WINDOWS,
            max_sites: FEW_SITES as f64,
            weight: 1.0,
            weight_of_others: 1.0,
            random: seed | 1,
            ..Self::default()
        }
    }

    /// Returns the time at which the next phase begins.
    pub(super) fn next(&self) -> f64 {
        match self.phase {
            Phase::Idle => self.window_start.min(self.next_accounting),
            Phase::Warming(since) => since + self.warm_up * WINDOW_NS,
            Phase::Counting(since, _) => since.time + COUNTING_WINDOWS * WINDOW_NS,
            Phase::Timing(since) => since + self.timing_windows() * WINDOW_NS,
        }
    }

    /// Fits the warm-up to the number of functions that were switched.
    fn note_switched(&mut self, functions: usize) {
        self.warm_up = WARM_UP_WINDOWS
            + (functions as f64 * WARM_UP_PER_FUNCTION_NS / WINDOW_NS).min(MAX_EXTRA_WARM_UP_WINDOWS);
    }

    /// Returns how long calls are counted, warming up included, as a multiple of the counting part.
    fn counting_factor(&self) -> f64 {
        (self.warm_up + COUNTING_WINDOWS) / COUNTING_WINDOWS
    }

    /// Returns the length of the part that times calls, in units of [`WINDOW_NS`].
    fn timing_windows(&self) -> f64 {
        self.warm_up + 2.0
    }

    /// Plans the next sampling interval. Its income pays for its window, and for a part of the
    /// debt. The window takes place in any case: otherwise windows would not represent all of the
    /// time.
    pub(super) fn plan(&mut self, now: f64, income: f64, debt: f64) {
        let income = income.max(f64::MIN_POSITIVE);
        let rarer = if debt > 0.0 { 1.0 + DEBT_SLOWDOWN * debt } else { 1.0 / (1.0 - debt) };
        let paid = (self.cost / (WINDOW_SHARE * income)).min(MAX_INTERVAL_NS) * rarer;
        // Random, so that it is not in step with the program.
        let length = paid.max(self.min_interval) * (0.5 + self.random_fraction());
        self.interval_start = self.interval_end.max(now - WINDOW_NS);
        self.interval_end = self.interval_start + length;
        let latest =
            (length - (COUNTING_WINDOWS + self.warm_up + self.timing_windows()) * WINDOW_NS).max(0.0);
        self.window_start = self.interval_start + latest * self.random_fraction();
        self.next_accounting = now + ACCOUNTING_INTERVAL_NS;
    }

    /// Returns whether it is time for the window, and not only for updating the accounts.
    fn is_due(&mut self, now: f64) -> bool {
        self.next_accounting = now + ACCOUNTING_INTERVAL_NS;
        now >= self.window_start
    }

    /// Begins the window of a sampling interval, for some of these functions.
    pub(super) fn begin(&mut self, all: &WindowFunctions) {
        let others = self.choose(all);
        self.is_partial |= self.functions.len() < all.functions.len();
        let weight =
            |share: f64| (share * (self.interval_end - self.interval_start) / WINDOW_NS).max(1.0).round();
        (self.weight, self.weight_of_others) = (weight(1.0), weight(others));
    }

    /// Iterates over the functions in the window, with the number of calls that each of their calls
    /// stands for.
    pub(super) fn weights(&self) -> impl Iterator<Item = (usize, f64)> {
        let weight = |at: usize| if at < self.in_each_window { self.weight } else { self.weight_of_others };
        self.functions.iter().enumerate().map(move |(at, function)| (*function, weight(at)))
    }

    /// Returns in how many ticks, of `scale` nanoseconds, the window is warm, how many ticks it
    /// lasts from then on, and the number of calls that each call stands for.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time")]
    fn timing_ticks(&self, scale: f64) -> [u64; 3] {
        [self.warm_up * WINDOW_NS / scale, WINDOW_NS / scale, self.weight].map(|it| it as u64)
    }

    /// Returns a random number from 0 to 1 (xorshift64*; Vigna, 2016).
    fn random_fraction(&mut self) -> f64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Records the cost of a window with this number of sites, and fits the next window's number to
    /// it.
    /// The number depends on earlier windows only, so it favours no function.
    fn record_cost(&mut self, sites: u64, spent: f64, income: f64) {
        self.cost = spent.max(self.cost + LAST_WINDOW_WEIGHT * (spent - self.cost));
        let paid = WINDOW_SHARE * income * PAYING_INTERVAL_NS;
        let fits = sites as f64 * paid / self.cost.max(f64::MIN_POSITIVE);
        self.max_sites = (self.max_sites + LAST_WINDOW_WEIGHT * (fits - self.max_sites))
            .clamp(MIN_WINDOW_SITES, MAX_WINDOW_SITES);
    }

    /// Chooses the first of these, and some of the others at random, each of which has the same
    /// probability. Returns the number of others that each chosen one stands for.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a chance")]
    fn choose(&mut self, all: &WindowFunctions) -> f64 {
        let sites = all.sites(all.functions.len());
        if sites <= FEW_SITES || (sites <= 4 * FEW_SITES && all.functions.len() <= FEW_FUNCTIONS) {
            self.functions.clone_from(&all.functions);
            self.in_each_window = self.functions.len();
            return 1.0;
        }
        let most = self.max_sites as u64;
        self.in_each_window = all.hot.min(all.first_with(most / 2));
        self.functions = all.functions[..self.in_each_window].to_vec();
        let taken = all.sites(self.in_each_window);
        let (left, rest) = (most - taken.min(most), sites - taken);
        // Those whose first site is among `left` sites from a random one on.
        let from = (rest as f64 * self.random_fraction()) as u64;
        let mut add = |sites: std::ops::Range<u64>| {
            let at = |site: u64| all.first_from(taken + site).max(self.in_each_window);
            self.functions.extend(&all.functions[at(sites.start)..at(sites.end)]);
        };
        if left >= rest {
            add(0..rest);
            return 1.0;
        }
        add(from..(from + left).min(rest));
        add(0..(from + left).saturating_sub(rest));
        rest as f64 / left.max(1) as f64
    }
}

/// The functions that windows sample, and their sites.
#[derive(Clone, Default, Debug)]
pub(super) struct WindowFunctions {
    functions: Vec<usize>,
    /// The number of those at the beginning that have the largest shares of the CPU time.
    hot: usize,
    /// The number of sites of each function and all before it.
    ends: Vec<u64>,
}

impl WindowFunctions {
    /// Lists functions, of which the first `hot` are to be in each window. `sites` returns the
    /// number of a function's sites.
    pub(super) fn new(functions: Vec<usize>, hot: usize, sites: impl Fn(usize) -> u32) -> Self {
        let mut end = 0;
        let ends = functions.iter().map(|it| {
            end += u64::from(sites(*it).max(1));
            end
        });
        let ends = ends.collect();
        Self { functions, hot, ends }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Returns the number of sites of the first functions.
    fn sites(&self, functions: usize) -> u64 {
        functions.checked_sub(1).map_or(0, |last| self.ends[last])
    }

    /// Returns how many of the first functions have no more sites than this.
    fn first_with(&self, sites: u64) -> usize {
        self.ends.partition_point(|end| *end <= sites)
    }

    /// Returns the first function all of whose sites are from this one on.
    fn first_from(&self, site: u64) -> usize {
        match site {
            0 => 0,
            _ => (self.ends.partition_point(|end| *end < site) + 1).min(self.functions.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "numbers that are exact")]

    use super::*;

    #[test]
    fn windows_are_anywhere_in_their_intervals() {
        let mut windows = Windows::new(1, 0, 1e7, |time, _| time);
        let (mut sum, mut least, mut most) = (0.0, f64::MAX, 0.0_f64);
        for round in 1..=1000 {
            // The poll is late, but the next sampling interval begins where the last one ended.
            let end = windows.interval_end;
            windows.plan(end + f64::from(round) % 50_000.0, 1.0, 0.0);
            let length = windows.interval_end - windows.interval_start;
            assert!(windows.interval_start == end && (0.5e7..1.5e7).contains(&length), "{length}");
            let at = (windows.next() - windows.interval_start) / length;
            (sum, least, most) = (sum + at, least.min(at), most.max(at));
        }
        // A window takes 0.378 ms of the sampling interval.
        assert!(least < 0.01 && most > 0.95 && most < 0.98, "{least} {most}");
        assert!((sum / 1000.0 - 0.479).abs() < 0.03, "{sum}");
    }

    #[test]
    fn intervals_pay_for_their_windows() {
        let mut windows = Windows::new(0, 0, 1e7, |time, _| time);
        let mut is_about = |debt, expected: f64| {
            windows.plan(windows.interval_end, 0.01, debt);
            let length = windows.interval_end - windows.interval_start;
            assert!((0.5 * expected..=1.5 * expected).contains(&length), "{length}");
        };
        // 120 µs at 0.3 of 1 %.
        is_about(0.0, 40e6);
        is_about(0.5, 100e6);
        is_about(1.0, 160e6);
        is_about(-1.0, 20e6);
    }

    /// Functions of this many sites each.
    fn listed(functions: usize, hot: usize, sites: u32) -> WindowFunctions {
        WindowFunctions::new((0..functions).collect(), hot, |_| sites)
    }

    #[test]
    fn a_call_stands_for_its_interval_and_for_functions_left_out() {
        let mut windows = Windows::new(0, 0, 6e6, |_, _| 0.0);
        windows.interval_end = 6e6;
        windows.begin(&listed(2, 0, 2));
        assert_eq!(windows.timing_ticks(0.5), [36_000, 120_000, 100]);
        assert_eq!(windows.weights().collect::<Vec<_>>(), [(0, 100.0), (1, 100.0)]);
        assert!(!windows.is_partial);
        // 4,096 sites, of which a window has 2,048: 100 of them those of the first functions.
        let many = listed(512, 10, 8);
        windows.max_sites = 1104.0;
        let mut met = vec![0.0; 512];
        for _ in 0..1000 {
            windows.begin(&many);
            assert_eq!(windows.weights().filter(|(_, weight)| *weight == 100.0).count(), 10);
            windows.weights().for_each(|(function, weight)| met[function] += weight / 100.0);
        }
        // Each one in a quarter of the windows, and weighed by that, within five standard errors.
        assert!(windows.is_partial && met[..10].iter().all(|it| *it == 1000.0), "{met:?}");
        assert!(met[10..].iter().all(|it| (690.0..1310.0).contains(it)), "{met:?}");
    }

    #[test]
    fn functions_of_any_number_of_sites_are_met_as_often_as_they_are_weighed() {
        let many = WindowFunctions::new((0..300).collect(), 0, |it| {
            if it % 7 == 0 { 90 } else { [1, 2, 3, 4, 5][it % 5] }
        });
        let mut windows = Windows::new(7, 0, 6e6, |_, _| 0.0);
        windows.interval_end = 6e6;
        windows.max_sites = 512.0;
        let mut met = vec![0.0; 300];
        for _ in 0..4000 {
            windows.begin(&many);
            windows.weights().for_each(|(function, weight)| met[function] += weight / 100.0);
        }
        // One in nine windows: within five standard errors.
        assert!(met.iter().all(|it| (3_000.0..5_000.0).contains(it)), "{met:?}");
    }

    #[test]
    fn windows_of_many_sites_have_as_many_as_they_pay_for() {
        let many = listed(30_000, 0, 10);
        let mut windows = Windows::new(0, 30_000, 1e7, |time, _| time);
        let mut inside = |each: f64, income: f64| {
            for _ in 0..200 {
                windows.begin(&many);
                let sites = 10 * windows.functions.len() as u64;
                windows.record_cost(sites, 20e3 + each * sites as f64, income);
            }
            windows.begin(&many);
            10 * windows.functions.len()
        };
        // 0.3 of 1 % of 60 ms are 180 µs.
        assert!((1500..=1700).contains(&inside(100.0, 0.01)));
        assert!((730..=870).contains(&inside(200.0, 0.01)));
        assert!((120..=130).contains(&inside(200.0, 0.0001)));
        for (functions, sites) in [(1024, 2), (256, 32)] {
            windows.begin(&listed(functions, 0, sites));
            assert_eq!(windows.functions.len(), functions);
        }
    }
}
