//! Surveys: all functions are read, and their modes chosen anew ([`plan`](super::plan)).
//!
//! From 0.3 ms on, ever less often, and no more often than a part of the budget pays for; not while
//! there is a window.

use super::core::Running;
use super::plan::Mode;
use super::sampler::Sampler;
use crate::patch::Visibility;

/// When all functions are read first, in nanoseconds, and how much later each time.
const FIRST: f64 = 300e3;
const LATER: f64 = 3.0;
/// Until so many nanoseconds apart, they may cost more: what is hot costs more still.
const EARLY: f64 = 10e6;
/// The longest time from one to the next, in nanoseconds.
const LONGEST: f64 = 4e9;
/// How many times the income they may cost, at first and then.
const AT_FIRST: f64 = 5.0;
const SURVEYS: f64 = 0.2;
/// What it takes to switch a function, in nanoseconds, before it is known.
const SWITCHED: f64 = 400.0;
/// Calls that all threads may time until the next one, at least.
pub(super) const QUOTA: u32 = 1000;

/// When surveys are. Times in ticks.
#[derive(Clone, Debug)]
pub(super) struct Surveys {
    last: u64,
    between: f64,
    /// Nanoseconds a tick.
    scale: f64,
}

impl Surveys {
    pub(super) fn new(now: u64, scale: f64) -> Self {
        Self { last: now, between: FIRST / scale, scale }
    }

    /// When the next one is due.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a moment")]
    pub(super) fn next(&self) -> u64 {
        self.last + self.between as u64
    }

    /// One has taken place, at a price.
    fn plan(&mut self, now: u64, price: f64, income: f64) {
        let later = LATER * self.between;
        let paid = |share: f64| price / (share * income).max(f64::MIN_POSITIVE);
        let [early, longest] = [EARLY, LONGEST].map(|it| it / self.scale);
        let is_early = later < early;
        self.between =
            if is_early { later.max(paid(AT_FIRST)) } else { paid(SURVEYS).max(early) }.min(longest);
        self.last = now;
    }
}

impl Running {
    /// Reads all functions, and chooses their modes anew.
    #[expect(clippy::cast_precision_loss, reason = "amounts, and a time")]
    pub(super) fn survey(&mut self, sampler: &Sampler) {
        let own_before = self.cost.own;
        self.book(sampler);
        let now = self.time.now();
        let all: Vec<_> = (0..self.courses.len()).collect();
        let readings = self.read(sampler, &all);
        let elapsed = now.saturating_sub(self.surveys.last) as f64;
        let (mut counted, mut lately) = (0.0, Vec::with_capacity(all.len()));
        for (course, seen) in self.courses.iter_mut().zip(readings) {
            let (before, delivered_before) = course.surveyed;
            let calls = seen.calls.saturating_sub(before);
            course.surveyed = (seen.calls, seen.delivered);
            self.windows.read_on(course, seen, now);
            // Else windows say.
            if course.mode != Mode::Sampled {
                counted += calls.saturating_sub(seen.delivered.saturating_sub(delivered_before)) as f64;
                course.rate = calls as f64 / elapsed.max(1.0);
            }
            self.cost.calls += calls;
            lately.push(course.rate * elapsed);
        }
        self.book_counted(counted);
        self.loads.add(self.income * elapsed, lately.into_iter());
        let modes: Vec<_> = self.courses.iter().map(|it| it.mode).collect();
        let prices = self.prices();
        let arming = self.bucket.price(SWITCHED / self.scale, 0.0) + prices.timed;
        let chosen = self.loads.choose(&modes, prices, times(self.bucket.level, arming));
        let is_new = |it: &usize| self.courses[*it].mode != chosen[*it];
        let changed: Vec<_> = all.into_iter().filter(is_new).collect();
        self.change(sampler, &changed, &chosen);
        self.list();
        let (_, _, threads) = sampler.totals();
        let quota = times(self.bucket.level / threads.max(1) as f64, prices.timed);
        let least = times(f64::from(QUOTA), threads.max(1) as f64);
        sampler.give_quota(quota.max(least).try_into().unwrap_or(u32::MAX));
        self.book(sampler);
        let price = self.bucket.price(self.cost.own - own_before, 0.0);
        self.surveys.plan(now, price, self.income);
    }

    /// Gives these functions the modes that were chosen, of all.
    pub(super) fn change(&mut self, sampler: &Sampler, changed: &[usize], chosen: &[Mode]) {
        let (mut off, mut on, mut counted, mut delivered) = (vec![], vec![], vec![], vec![]);
        for &function in changed {
            let (entries, exits) = sampler.probes(function);
            match chosen[function] {
                Mode::Timed => {
                    delivered.extend(entries);
                    on.extend(exits.iter().chain(entries));
                }
                Mode::Counted => {
                    counted.extend(entries);
                    on.extend(entries);
                    off.extend(exits);
                }
                Mode::Sampled => {
                    counted.extend(entries);
                    off.extend(entries.iter().chain(exits));
                }
            }
            if chosen[function] != Mode::Timed {
                sampler.set_mode(function, chosen[function]);
            }
        }
        self.switch.count(&counted);
        self.switch_off(&off);
        self.switch.deliver(&delivered);
        self.switch_on(
            &on,
            if delivered.is_empty() { Visibility::Eventual } else { Visibility::Synchronous },
        );
        // What was seen until now was seen in the mode before.
        let (now, readings) = self.read_at(sampler, changed);
        for (&function, seen) in changed.iter().zip(readings) {
            sampler.set_mode(function, chosen[function]);
            let course = &mut self.courses[function];
            self.windows.read_on(course, seen, now);
            course.begin(chosen[function], now);
        }
        self.cost.toggles += changed.len() as u64;
    }

    /// Notes which functions windows are for, so that not all are looked at each time.
    fn list(&mut self) {
        let (courses, loads) = (&self.courses, &self.loads);
        let of = |mode: Mode| (0..courses.len()).filter(move |it| courses[*it].mode == mode);
        let estimated: Vec<_> = of(Mode::Sampled).collect();
        let counted = of(Mode::Counted).filter(|it| loads.is_called(*it));
        let in_windows = counted.chain(estimated.iter().copied()).collect();
        (self.estimated, self.in_windows) = (estimated, in_windows);
    }
}

/// How many times something is paid for.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number")]
fn times(amount: f64, price: f64) -> usize {
    (amount / price.max(f64::MIN_POSITIVE)).clamp(0.0, 1e9) as usize
}
