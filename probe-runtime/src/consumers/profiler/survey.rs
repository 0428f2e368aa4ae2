//! Surveys: all functions are read, and their modes chosen anew ([`plan`](super::plan)).
//!
//! From 0.3 ms on, as often as a part of the budget pays for, but ever less often; not while there
//! is a window.

use super::core::Running;
use super::course::Course;
use super::plan::{Mode, Now};
use super::sampler::Sampler;
use super::stretch::MOST;
use crate::patch::Visibility;

/// The first is so many nanoseconds after the beginning, and others are as far apart at least.
const FIRST: f64 = 300e3;
/// From one to the next is this part of all time so far, or more; so many nanoseconds are enough. A
/// function that has begun to be called often meanwhile has had no more time than that to cost
/// something.
const OF_ALL: f64 = 0.05;
const ENOUGH: f64 = 100e6;
/// The part of the income that they may cost. It is larger at first, by the ratio of so many
/// nanoseconds to all time so far: what is hot costs more still.
const SURVEYS: f64 = 0.1;
const EARLY: f64 = 20e6;
/// To wake up and to go to sleep takes some 13 to 28 µs on a virtual machine; to read a function 0.1.
const WAKING: f64 = 20e3;
const READING: f64 = 100.0;
/// The most from one to the next, in nanoseconds.
const LONGEST: f64 = 4e9;
/// Calls of so many nanoseconds are not timed each, however few they are: they can become so many by
/// the next survey that telling them takes as long as they do.
const SHORT: f64 = 2e3;
/// What it takes to switch a function, in nanoseconds, before it is known.
const SWITCHED: f64 = 400.0;

/// When surveys are.
#[derive(Clone, Debug)]
pub(super) struct Surveys {
    pub(super) last: f64,
    /// For how long, by then, calls may have been made that were not timed.
    pub(super) untimed: f64,
    between: f64,
    /// How long the last one took.
    took: f64,
}

impl Surveys {
    /// Of so many functions.
    #[expect(clippy::cast_precision_loss, reason = "a number of functions")]
    pub(super) fn new(functions: usize) -> Self {
        Self { last: 0.0, untimed: 0.0, between: FIRST, took: functions as f64 * READING }
    }

    /// When one is made, whatever else there is to do.
    pub(super) fn next(&self) -> f64 {
        self.last + self.between
    }

    /// Whether the last one was so long ago as is enough.
    pub(super) fn is_old(&self, now: f64) -> bool {
        now - self.last >= ENOUGH
    }

    /// One is made. `price` says what so much time costs.
    fn plan(&mut self, now: f64, income: f64, price: impl Fn(f64) -> f64) {
        let share = SURVEYS * (1.0 + EARLY / now.max(1.0));
        let paid = price(self.took + WAKING) / (share * income).max(f64::MIN_POSITIVE);
        let least = (OF_ALL * now).clamp(FIRST, ENOUGH);
        (self.last, self.between) = (now, least.max(paid).min(LONGEST));
    }
}

impl Running {
    /// Reads all functions, and chooses their modes anew.
    pub(super) fn survey(&mut self, sampler: &Sampler) {
        self.book(sampler);
        let own_before = self.cost.own;
        let at = self.moment();
        let elapsed = at.time - self.surveys.last;
        let mut lately = Vec::with_capacity(self.courses.len());
        let (weight, mut has_untimed) = (self.windows.weight, false);
        self.read_all(sampler, |course, seen| {
            has_untimed |= course.has_untimed(&seen);
            let before = std::mem::replace(&mut course.surveyed, seen.calls);
            course.is_known = before != 0.0;
            course.read(seen, at, weight);
            // Else windows say.
            if course.mode != Mode::Sampled {
                course.rate = (seen.calls - before) / elapsed.max(1.0);
            }
            lately.push(course.rate * elapsed);
        });
        self.surveys.untimed += if has_untimed { elapsed } else { 0.0 };
        self.loads.add(self.surveys.last, at.time, self.income * elapsed, lately.into_iter());
        self.surveys.plan(at.time, self.income, |time| self.bucket.price(time, 0.0));
        let (costs, price) = (self.costs(), |time| self.bucket.price(time, 1.0));
        let timed = price(2.0 * costs.hit());
        let is_dear = timed > price(costs.counted);
        let now = |it: &Course| {
            let price = price(costs.counted(it.is_in_place));
            Now { mode: it.mode, price, may_be_timed: it.may_be_timed(SHORT, is_dear) }
        };
        let now: Vec<_> = self.courses.iter().map(now).collect();
        let arming = timed + self.bucket.price(SWITCHED, 0.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number")]
        let more = (self.bucket.level / arming.max(f64::MIN_POSITIVE)).clamp(0.0, 1e9) as usize;
        let chosen = self.loads.choose(&now, timed, more);
        let is_new = |it: &usize| self.courses[*it].mode != chosen[*it];
        let changed: Vec<_> = (0..self.courses.len()).filter(is_new).collect();
        self.change(sampler, &changed, &chosen);
        self.list();
        self.book(sampler);
        self.surveys.took = self.cost.own - own_before;
    }

    /// Gives these functions the modes that were chosen, of all.
    pub(super) fn change(&mut self, sampler: &Sampler, changed: &[usize], chosen: &[Mode]) {
        if changed.is_empty() {
            return;
        }
        let (mut off, mut on, mut counted, mut delivered) = (vec![], vec![], vec![], vec![]);
        for &function in changed {
            let (entries, exits) = sampler.probes(function);
            let (from, to) = (self.courses[function].mode, chosen[function]);
            if to == Mode::Timed {
                delivered.extend(entries);
                on.extend(exits.iter().chain(entries));
                continue;
            }
            if from == Mode::Timed {
                counted.extend(entries);
                off.extend(exits);
            }
            if to == Mode::Counted { &mut on } else { &mut off }.extend(entries);
            sampler.set_mode(function, to);
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
            // Made before it is read: else `begin` would make it, and forget the calls so far.
            course.measured();
            course.read(seen, now, self.windows.weight);
            course.begin(chosen[function], now, self.surveys.untimed);
        }
        self.cost.toggles += changed.len() as u64;
    }

    /// Notes which functions windows are for, so that not all are looked at each time.
    fn list(&mut self) {
        let (courses, loads) = (&self.courses, &self.loads);
        let is_for = |it: &usize| match courses[*it].mode {
            Mode::Timed => false,
            Mode::Counted => loads.is_called(*it),
            Mode::Sampled => true,
        };
        self.in_windows = (0..courses.len()).filter(is_for).collect();
        self.windows.is_partial |= self.in_windows.len() > MOST;
    }
}
