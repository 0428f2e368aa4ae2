//! When to arm each function, and for how long. Pure: it is given the time and the counts, and
//! returns the functions to switch.
//!
//! ```text
//! attached ▶ all are timed ──▶ called seldom: counted, and timed again now and then
//!                          └─▶ called often: latent ── next epoch, if the budget allows ──▶ a window, counted or timed ──▶ latent …
//! ```
//! - **Modes**: in some windows a function's calls are *timed*, at two delivered hits. In others
//!   they are only *counted* by the runtime, at one hit that takes a tenth of that. A function that
//!   is called so seldom that counting all its calls takes no more than a part of the budget is
//!   always counted, without gaps: its calls are known. The others have windows.
//! - A **window that times** is planned when it opens: twice as long as each thread takes for its
//!   sample at the rate of the last window, and at least until the first look. It goes on until the
//!   sample is complete and the timed calls have ended. But it ends after 16 samples' worth of
//!   calls, when the rate has jumped, say.
//! - **Windows that count** last as long as a part of an epoch's budget does, at the last known
//!   rates, for all windows that are open together. If that is too short, some wait for another
//!   epoch. The length is fixed before they open.
//! - **Looks** are made when a planned window ends, and at each epoch. Waking up takes tens of
//!   microseconds on some machines. So the daemon does not sleep before the first look at timed
//!   functions. It makes later looks before the epoch only if that costs less than the hits until
//!   then.
//! - **Epochs** begin every 10 ms or so, with jitter, so that they do not synchronise with the
//!   program. At an epoch latent functions are armed again, the longest latent first, as far as the
//!   buckets reach. One of eight epochs arms them to be timed, the others to be counted. Every
//!   eighth epoch times the functions that are always counted, and re-arms nothing else. Timing
//!   needs a barrier, since entry and exit belong together; counting does not.
//! - **Time** in rates is the CPU time of the program. While its threads wait, or others have the
//!   processors, nothing is called. Only the next look is planned by the clock.
//! - **Budget**: spending empties two buckets, that of all functions and that of the function.
//!   While one is empty, timed functions become latent, whatever their plan, and nothing is armed
//!   again. A function without a sample stays armed, and costs nothing until it is called. An
//!   always counted function that takes more than its part, since its rate has jumped, say, becomes
//!   latent at the next epoch. Its highest rate is remembered for a while.

mod cost;
mod course;
mod turns;

use std::collections::VecDeque;

use super::budget::{Bucket, Budget, Spent};
use super::costs::Costs;
use super::estimate::Estimate;
use super::mode::Mode;
use super::window::Burden;
pub(super) use course::Reading;
use course::{Course, Open, SHORTEST, State};

/// The settings. Times in ticks.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) sample_size: f64,
    pub(super) epoch: f64,
    /// The time from arming to the first look.
    pub(super) first_look: f64,
    pub(super) ticks_per_second: f64,
    pub(super) budget: Budget,
    pub(super) budget_each: Budget,
}

/// The length of a planned window that times, in samples, so that hardly any has too few.
const PLANNED: f64 = 2.0;
/// Looks so soon after the last one, in first looks, are not slept for, and so cost little.
const SOON: f64 = 2.0;
/// The greatest number of epochs that are left out to pay a debt.
const LEFT_OUT: f64 = 4.0;
/// The greatest number of processors in use that is planned with.
const BUSY: (f64, f64) = (0.05, 4096.0);
/// The part of an epoch over which they are measured.
const MEASURED: f64 = 0.1;
/// The jitter of epochs, either way.
const JITTER: f64 = 0.25;

/// The functions to switch now.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Orders {
    pub(super) off: Vec<usize>,
    /// To be counted; they were latent, or timed.
    pub(super) count: Vec<usize>,
    /// To be timed; they were latent, or counted.
    pub(super) time: Vec<usize>,
}

impl Orders {
    pub(super) fn len(&self) -> usize {
        self.off.len() + self.count.len() + self.time.len()
    }
}

/// The cost so far. Times in ticks.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Cost {
    /// Of hits, as rehearsed; of the daemon's switching, looking and sleeping, as measured; of
    /// switching alone.
    pub(super) hits: f64,
    pub(super) own: f64,
    pub(super) switching: f64,
    /// The CPU time of the process.
    pub(super) used: f64,
    /// Calls that made hits, and functions that were switched.
    pub(super) calls: f64,
    pub(super) toggles: u64,
}

/// All functions.
#[derive(Debug)]
pub(super) struct Schedule {
    settings: Settings,
    pub(super) courses: Vec<Course>,
    bucket: Bucket,
    pub(super) costs: Costs,
    /// All hits seen by looks.
    burden: Burden,
    /// The number of processors that the program has used lately.
    pub(super) busy: f64,
    /// The clock, and the program's CPU time, when that was measured.
    progressed: (u64, f64),
    /// The cost of always counted functions, in ticks for each tick of the program.
    always: Spent,
    armed: Vec<usize>,
    /// Anchors: functions by whose calls those of others may be estimated.
    anchors: Vec<usize>,
    /// Latent functions, the longest latent first.
    latent: VecDeque<usize>,
    pub(super) began: u64,
    looked: u64,
    epoch: u64,
    pub(super) epochs: u32,
    used_in_epoch: f64,
    next_epoch: u64,
    pub(super) cost: Cost,
    looks: u32,
    random: u64,
}

#[expect(clippy::cast_precision_loss, reason = "ticks between looks")]
fn since(now: u64, then: u64) -> f64 {
    now.saturating_sub(then) as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ticks; what is too many saturates"
)]
fn after(then: u64, ticks: f64) -> u64 {
    then.saturating_add(ticks as u64)
}

#[expect(clippy::cast_precision_loss, reason = "calls between looks")]
fn more(now: u64, before: u64) -> f64 {
    now.saturating_sub(before) as f64
}

impl Schedule {
    /// Starts with all functions armed; [`opened`](Self::opened) tells since when.
    pub(super) fn new(settings: Settings, costs: Costs, functions: usize, now: u64) -> Self {
        let bucket =
            |budget: Budget| budget.bucket(settings.epoch, settings.ticks_per_second, settings.sample_size);
        let course = |_| Course::new(bucket(settings.budget_each), now);
        let mut schedule = Self {
            courses: (0..functions).map(course).collect(),
            bucket: bucket(settings.budget),
            costs,
            burden: Burden::default(),
            busy: 1.0,
            progressed: (now, 0.0),
            always: Spent::default(),
            armed: Vec::with_capacity(functions),
            anchors: Vec::new(),
            latent: VecDeque::new(),
            began: now,
            looked: now,
            epoch: now,
            epochs: 0,
            used_in_epoch: 0.0,
            next_epoch: now,
            cost: Cost::default(),
            looks: 0,
            random: now | 1,
            settings,
        };
        schedule.begin_epoch(now);
        schedule
    }

    /// Notes that a function's sites are active. Its window begins with this reading, unless it
    /// goes on.
    pub(super) fn opened(&mut self, function: usize, reading: Reading) {
        // What came after the look that closed it.
        self.account(function, reading);
        let marks = self.marks();
        if self.courses[function].open(self.burden, marks) {
            self.armed.push(function);
        }
    }

    /// Takes the time that has passed: `used` ticks of CPU time of the process, `own` of them of
    /// the daemon. `progress` is the CPU time of the program's threads in all. Returns the
    /// functions to switch; switch those that become latent first. A latent function is not armed
    /// before [`opened`](Self::opened).
    pub(super) fn look(
        &mut self,
        (now, progress): (u64, f64),
        used: f64,
        own: f64,
        read: impl Fn(&[usize]) -> Vec<Reading>,
    ) -> Orders {
        let elapsed = since(now, self.looked);
        self.looked = now;
        self.looks = self.looks.saturating_add(1);
        self.cost.used += used;
        self.used_in_epoch += used;
        self.cost.own += own;
        self.bucket.fill(elapsed, used);
        self.bucket.spend(Spent { cost: own, calls: 0.0 });
        let armed = std::mem::take(&mut self.armed);
        self.weigh(&armed, &read);
        self.note_progress(now, progress);
        let is_epoch = now >= self.next_epoch;
        let mut orders = Orders::default();
        if is_epoch {
            let (passed, used) = (since(now, self.epoch), std::mem::take(&mut self.used_in_epoch));
            self.courses.iter_mut().for_each(|course| course.bucket.fill(passed, used));
            self.begin_epoch(now);
            self.weigh_always(&armed);
            self.choose_anchors();
        }
        let mut closed = Vec::new();
        for function in armed {
            if self.goes_on(function, &mut orders) {
                self.armed.push(function);
            } else {
                let marks = self.marks();
                self.courses[function].close(marks);
                closed.push(function);
            }
        }
        if is_epoch {
            self.time_what_is_counted(&mut orders);
            self.rearm(&mut orders);
        }
        self.latent.extend(&closed);
        orders.off = closed;
        self.cost.toggles += orders.len() as u64;
        self.wait_for_room(now);
        orders
    }

    /// The number of processors is measured over times that are not too short.
    fn note_progress(&mut self, now: u64, progress: f64) {
        let (at, before) = self.progressed;
        let elapsed = since(now, at);
        if elapsed >= self.settings.epoch * MEASURED {
            self.busy = ((progress - before) / elapsed).clamp(BUSY.0, BUSY.1);
            self.progressed = (now, progress);
        }
    }

    fn finish(&mut self, function: usize) {
        let shortest = self.settings.first_look * SHORTEST;
        let marks = self.marks();
        self.courses[function].finish(self.burden, &self.costs, &marks, shortest, self.epochs);
    }

    fn begin_epoch(&mut self, now: u64) {
        self.epoch = now;
        self.epochs = self.epochs.wrapping_add(1);
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        #[expect(clippy::cast_precision_loss, reason = "53 bits")]
        let random = (self.random >> 11) as f64 / (1_u64 << 53) as f64;
        let jitter = 1.0 + JITTER * (2.0 * random - 1.0);
        self.next_epoch = after(now, self.settings.epoch * jitter);
    }

    /// An epoch that finds the bucket empty has nothing to do.
    fn wait_for_room(&mut self, now: u64) {
        // With thousands of functions, or if the program waits, the next look must not come before
        // this one is paid for, with something left.
        let look = self.bucket.pays_in(2.0 * self.cost.own / f64::from(self.looks.max(1)), self.busy);
        let longest = (LEFT_OUT * self.settings.epoch).max(look.min(self.settings.ticks_per_second));
        let longest = after(self.epoch, longest);
        let until = after(now, self.bucket.until_room(self.busy));
        self.next_epoch = self.next_epoch.max(until.min(longest));
    }

    /// The time of the next look.
    pub(super) fn next(&self) -> u64 {
        let first = self.settings.first_look;
        let due = |function: &usize| match self.courses[*function].state {
            State::Open(Open { mode, planned, from, .. }) if planned.is_finite() => {
                let due = after(from.at, planned);
                // Past its plan, a window waits for calls, or for some to end: twice as long as it
                // took so far.
                let later = || after(self.looked, since(self.looked, from.at).max(first));
                Some((mode, if due > self.looked { due } else { later() }))
            }
            _ => None,
        };
        let mut next = self.next_epoch;
        let is_worth_a_look = self.is_worth_a_look();
        for (mode, due) in self.armed.iter().filter_map(due) {
            let is_soon = since(due, self.looked) <= SOON * first;
            if mode == Mode::Counting || is_soon || is_worth_a_look {
                next = next.min(due);
            }
        }
        next
    }

    /// Whether waking up before the epoch costs less than the hits of timed functions until then.
    /// An unknown rate must be found out first.
    fn is_worth_a_look(&self) -> bool {
        let mut hits = 0.0;
        for function in &self.armed {
            let course = &self.courses[*function];
            match course.rate {
                _ if course.mode() != Some(Mode::Timing) => (),
                Some(rate) => hits += 2.0 * self.costs.delivered * rate,
                None if course.last.seen.delivered != 0 => return true,
                None => (),
            }
        }
        hits *= self.busy * since(self.next_epoch, self.looked);
        hits * f64::from(self.looks) > self.cost.own
    }

    /// Whether a function's sites are about to be active, so that [`opened`](Self::opened) will be
    /// called for it.
    pub(super) fn is_opening(&self, function: usize) -> bool {
        matches!(self.courses[function].state, State::Opening { .. })
    }

    pub(super) fn is_armed(&self, function: usize) -> bool {
        !matches!(self.courses[function].state, State::Latent { .. })
    }

    /// The estimate for a function as of now, by these readings of all functions.
    pub(super) fn estimate(&self, function: usize, readings: &[Reading]) -> Estimate {
        let (course, reading) = (&self.courses[function], &readings[function]);
        let mut marks = self.marks();
        marks.iter_mut().for_each(|mark| mark.calls = readings[mark.anchor].seen.calls());
        let mut estimate = course.estimate.clone();
        if let Some(mut window) = course.window(reading, self.burden) {
            window.is_new = window.length < self.settings.first_look * SHORTEST;
            estimate.add(window, &course.amounts(&marks), &self.costs);
        }
        match course.state {
            State::Latent { since: closed } | State::Opening { since: closed, .. } => {
                estimate.with_gap((reading.progress - closed).max(0.0), &course.amounts_of_gap(&marks))
            }
            State::Open(_) => estimate.with_gap(0.0, &[]),
        }
    }
}

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::type_complexity,
    reason = "whole numbers of calls and nanoseconds"
)]
mod simulation;
