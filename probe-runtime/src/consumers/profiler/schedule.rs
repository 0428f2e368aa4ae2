//! When which function is armed, and for how long. Pure: it is told the time and what was seen, and says what is to be switched.
//!
//! ```text
//! attached ▶ all armed ── window ──▶ latent ── next epoch, if the budget allows ──▶ armed ── window ──▶ latent …
//! ```
//! - A **window** is planned when it opens: twice as long as the sample takes at the rate of the window before, and at least until the
//!   first look. It goes on until the sample has been called, and what is being timed has ended; but not beyond 16 samples' worth of calls, as
//!   when the rate jumps. A function that is called less often than that stays armed, and all its calls are counted.
//! - **Looks** are made when a planned window ends, and then at times that double; and at each epoch. Waking up takes tens of microseconds on some
//!   machines: so the first look is not slept for, and later ones before the epoch are made only if that costs less than the hits until then.
//! - **Epochs** begin every 10 ms or so, jittered so that they don't fall in with the program's own rhythm. Then what is latent is armed
//!   again, the longest latent first, as far as the buckets reach.
//! - **Modes**: where hits take much of the time, every second window only counts, with exits latent; what hits take is told from the
//!   difference ([`calibration`](super::calibration)). Until it is, such windows are kept as they are, a few of them.
//! - **Time** is what the program has used on processors, wherever a rate is meant: while its threads wait, or others have the processors,
//!   nothing is called. Only when to look again is by the clock.
//! - **Budget**: what was spent empties the buckets, that of all and that of the function. While one is empty, what is called
//!   becomes latent, planned or not, and nothing is armed again. What has no sample yet stays armed, and costs nothing until it is called.

mod cost;
mod course;

use std::collections::VecDeque;

use super::budget::{Bucket, Budget, Spent};
use super::estimate::{Burden, Estimate, Source};
use super::mode::Mode;
pub(super) use course::Reading;
use course::{Course, SHORTEST, State};

/// What it is to keep to. Times in ticks.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) sample_size: f64,
    pub(super) epoch: f64,
    /// How long after something is armed to look first.
    pub(super) first_look: f64,
    pub(super) ticks_per_second: f64,
    pub(super) budget: Budget,
    pub(super) budget_each: Budget,
    /// What a reading of the clock costs, and the least and the most that a hit does besides, as long as nobody knows.
    pub(super) reading: f64,
    pub(super) hit: (f64, f64),
}

/// A planned window, in samples: so that hardly one has too few.
const PLANNED: f64 = 2.0;
/// Looks so soon after another, in first looks, are not slept for, and so cost little.
const SOON: f64 = 2.0;
/// As many epochs may be left out at most, to pay a debt.
const LEFT_OUT: f64 = 4.0;
/// Processors that the program uses, as far as is planned with.
const BUSY: (f64, f64) = (0.05, 4096.0);
/// As many windows at most wait for what that will be.
const PENDING: usize = 16;
/// How far epochs are jittered, either way.
const JITTER: f64 = 0.25;

/// What is to be switched now.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Orders {
    pub(super) off: Vec<usize>,
    pub(super) on: Vec<usize>,
}

/// What it has cost so far. Times in ticks.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Cost {
    /// Of hits, as estimated, and of switching, looking and sleeping, as measured.
    pub(super) hits: f64,
    pub(super) own: f64,
    /// What the process has used on processors.
    pub(super) used: f64,
    /// Calls that were hits, and functions that were switched.
    pub(super) calls: f64,
    pub(super) toggles: u64,
}

/// All functions.
#[derive(Debug)]
pub(super) struct Schedule {
    settings: Settings,
    pub(super) courses: Vec<Course>,
    bucket: Bucket,
    /// All hits that looks have seen.
    burden: Burden,
    /// Hits of which is known what they cost, and that.
    known: (f64, f64),
    /// How many processors the program has used lately.
    pub(super) busy: f64,
    armed: Vec<usize>,
    /// The longest latent first.
    latent: VecDeque<usize>,
    pub(super) began: u64,
    looked: u64,
    epoch: u64,
    used_in_epoch: f64,
    next_epoch: u64,
    pub(super) cost: Cost,
    looks: u32,
    shortest: f64,
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
    /// All functions are armed; [`opened`](Self::opened) says since when.
    pub(super) fn new(settings: Settings, functions: usize, now: u64) -> Self {
        let bucket =
            |budget: Budget| budget.bucket(settings.epoch, settings.ticks_per_second, settings.sample_size);
        let course = |_| Course::new(bucket(settings.budget_each), now);
        let mut schedule = Self {
            courses: (0..functions).map(course).collect(),
            bucket: bucket(settings.budget),
            burden: Burden::default(),
            known: (0.0, 0.0),
            busy: 1.0,
            armed: Vec::with_capacity(functions),
            latent: VecDeque::new(),
            began: now,
            looked: now,
            epoch: now,
            used_in_epoch: 0.0,
            next_epoch: now,
            cost: Cost::default(),
            looks: 0,
            shortest: f64::INFINITY,
            random: now | 1,
            settings,
        };
        schedule.begin_epoch(now);
        schedule
    }

    /// A function's sites are active, and its hits count from this reading on.
    pub(super) fn opened(&mut self, function: usize, reading: Reading) {
        // What came after the look that closed it.
        self.account(function, reading);
        let Reading { at: now, progress, seen: from } = reading;
        let settings = &self.settings;
        let course = &mut self.courses[function];
        let State::Opening { since: closed } = course.state else { return };
        let gap = (progress - closed).max(0.0);
        let least = settings.first_look;
        let planned = match course.rate {
            Some(rate) => (PLANNED * settings.sample_size / (rate * self.busy)).max(least),
            None => 0.0,
        };
        course.state =
            State::Open { since: now, from_progress: progress, gap, planned, burden: self.burden, from };
        self.armed.push(function);
    }

    /// What has passed: `used` ticks on processors by the process, `own` of them by who looks. Returns what is to be switched; off
    /// is first. What is switched on is not armed before [`opened`](Self::opened).
    pub(super) fn look(&mut self, now: u64, used: f64, own: f64, read: impl Fn(usize) -> Reading) -> Orders {
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
        if elapsed > 0.0 {
            self.busy = ((used - own) / elapsed).clamp(BUSY.0, BUSY.1);
        }
        let is_epoch = now >= self.next_epoch;
        let mut orders = Orders::default();
        if is_epoch {
            let (passed, used) = (since(now, self.epoch), std::mem::take(&mut self.used_in_epoch));
            self.courses.iter_mut().for_each(|course| course.bucket.fill(passed, used));
            self.begin_epoch(now);
            self.rearm(&mut orders);
        }
        for function in armed {
            if self.courses[function].is_over(&self.bucket, &self.settings) {
                self.close(function);
                self.latent.push_back(function);
                orders.off.push(function);
            } else {
                self.armed.push(function);
            }
        }
        self.cost.toggles += orders.off.len() as u64 + orders.on.len() as u64;
        orders
    }

    /// How a function is armed, or is to be.
    pub(super) fn mode(&self, function: usize) -> Mode {
        self.courses[function].mode
    }

    fn close(&mut self, function: usize) {
        let reading = self.courses[function].last;
        if let Some(window) = self.courses[function].window(&reading, self.burden) {
            self.learn(function, &window);
            let (hit, reading) = (self.hit(function), self.settings.reading);
            let course = &mut self.courses[function];
            course.rate = Some(window.rate(hit));
            course.pending.push(window);
            // In their order.
            let waits = hit.source != Source::Own && (course.is_dense || course.pending.len() > 1);
            if !waits || course.pending.len() >= PENDING {
                let windows = std::mem::take(&mut course.pending);
                windows.into_iter().for_each(|window| course.estimate.add(window, hit, reading));
            }
        }
        self.courses[function].state = State::Latent { since: reading.progress };
    }

    fn rearm(&mut self, orders: &mut Orders) {
        if !self.bucket.has_room() {
            return;
        }
        let mut planned = Spent::default();
        let toggle = self.cost_of_a_toggle();
        let size = self.settings.sample_size;
        let (reading, look) = (self.settings.reading, self.settings.first_look);
        // Once around: those that are passed over keep their order.
        for _ in 0..self.latent.len() {
            let Some(function) = self.latent.pop_front() else { break };
            let hit = self.hit(function).cost;
            let course = &mut self.courses[function];
            let mode =
                if course.is_dense && course.mode == Mode::Timing { Mode::Counting } else { Mode::Timing };
            // A look comes later than it was meant to.
            let calls = (PLANNED * size).max(course.rate.unwrap_or_default() * self.busy * 2.0 * look);
            let timed = if mode == Mode::Timing { size } else { 0.0 };
            let cost = mode.hits() * calls * hit + 2.0 * timed * reading + 2.0 * toggle;
            let own = Spent { cost, calls };
            let all = Spent { cost: planned.cost + own.cost, calls: planned.calls + own.calls };
            // What costs more than the bucket holds has its turn when it is full.
            let fits = if planned.cost == 0.0 && planned.calls == 0.0 {
                self.bucket.has_room()
            } else {
                self.bucket.left_after(all) > 0.0
            };
            let State::Latent { since: closed } = course.state else { continue };
            if !fits || !course.bucket.has_room() {
                self.latent.push_back(function);
                continue;
            }
            planned = all;
            course.state = State::Opening { since: closed };
            course.mode = mode;
            course.rearmed += 1;
            orders.on.push(function);
        }
    }

    /// As measured so far, with looking and sleeping.
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    fn cost_of_a_toggle(&self) -> f64 {
        self.cost.own / (self.cost.toggles.max(1) as f64)
    }

    fn begin_epoch(&mut self, now: u64) {
        self.epoch = now;
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        #[expect(clippy::cast_precision_loss, reason = "53 bits")]
        let random = (self.random >> 11) as f64 / (1_u64 << 53) as f64;
        let jitter = 1.0 + JITTER * (2.0 * random - 1.0);
        let debt = self.bucket.until_room(self.busy) / self.settings.epoch;
        self.next_epoch = after(now, self.settings.epoch * debt.clamp(1.0, LEFT_OUT) * jitter);
    }

    /// When the next look is due.
    pub(super) fn next(&self) -> u64 {
        let first = self.settings.first_look;
        let due = |function: &usize| match self.courses[*function].state {
            State::Open { since: began, planned, .. } => {
                let due = after(began, planned);
                // Past its plan, it waits for calls, or for some to end: twice as long as it took so far.
                let later = || after(self.looked, since(self.looked, began).max(first));
                Some(if due > self.looked { due } else { later() })
            }
            _ => None,
        };
        let Some(next) = self.armed.iter().filter_map(due).min() else { return self.next_epoch };
        let is_soon = since(next, self.looked) <= SOON * first;
        if is_soon || self.is_worth_a_look() { next.min(self.next_epoch) } else { self.next_epoch }
    }

    /// Whether waking up before the epoch costs less than the hits of what is armed until then. What a rate is must be found out first.
    fn is_worth_a_look(&self) -> bool {
        let mut hits = 0.0;
        for function in &self.armed {
            let course = &self.courses[*function];
            match course.rate {
                Some(rate) => hits += course.mode.hits() * self.hit(*function).cost * rate,
                None if course.last.seen.calls != 0 => return true,
                None => (),
            }
        }
        hits *= self.busy * since(self.next_epoch, self.looked);
        hits * f64::from(self.looks) > self.cost.own
    }

    pub(super) fn is_armed(&self, function: usize) -> bool {
        !matches!(self.courses[function].state, State::Latent { .. })
    }

    /// What is known of a function, as of now.
    pub(super) fn estimate(&self, function: usize, reading: Reading) -> Estimate {
        let (course, hit) = (&self.courses[function], self.hit(function));
        let mut estimate = course.estimate.clone();
        let mut open = course.window(&reading, self.burden);
        if let Some(window) = &mut open {
            window.is_new = window.length < self.settings.first_look * SHORTEST;
        }
        course.pending.iter().copied().chain(open).for_each(|window| {
            estimate.add(window, hit, self.settings.reading);
        });
        match course.state {
            State::Latent { since: closed } | State::Opening { since: closed } => {
                estimate.with_gap((reading.progress - closed).max(0.0))
            }
            State::Open { .. } => estimate,
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
