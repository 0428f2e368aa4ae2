//! What hits cost: for the budget, and for what they hide from the estimates.

use super::super::budget::Spent;
use super::super::calibration::Point;
use super::super::estimate::{Burden, Hit, Source, Window};
use super::{Reading, Schedule, more};

/// Windows in which hits take more than that of the time are used to find out what hits take.
const DENSE: f64 = 0.03;
/// What is known of hits counts so much less with each window that comes.
const KEPT: f64 = 0.99;

impl Schedule {
    /// Accounts for what is armed, before others are opened: hits until then are no part of their windows.
    pub(in super::super) fn catch_up(&mut self, read: impl Fn(usize) -> Reading) {
        let armed = std::mem::take(&mut self.armed);
        self.weigh(&armed, &read);
        self.armed = armed;
    }

    /// Accounts for hits of these functions, which slow all others down, too.
    pub(super) fn weigh(&mut self, functions: &[usize], read: &impl Fn(usize) -> Reading) {
        for function in functions {
            let more = self.account(*function, read(*function));
            self.burden.hits += more.hits;
            self.burden.readings += more.readings;
        }
    }

    /// What hits since the last reading have cost; returns them.
    pub(super) fn account(&mut self, function: usize, reading: Reading) -> Burden {
        let seen = reading.seen;
        let hit = self.hit(function).cost;
        let course = &mut self.courses[function];
        let before = std::mem::replace(&mut course.last, reading).seen;
        let calls = more(seen.calls, before.calls) + more(seen.stray, before.stray);
        let timed = more(seen.ended, before.ended);
        let burden =
            Burden { hits: course.mode.hits() * calls, readings: 2.0 * timed * self.settings.reading };
        let cost = burden.hits * hit * course.felt + burden.readings;
        let spent = Spent { cost, calls };
        course.bucket.spend(spent);
        self.bucket.spend(spent);
        self.cost.hits += cost;
        self.cost.calls += calls;
        if seen.ended != 0 {
            self.shortest = self.shortest.min(more(seen.shortest, 0));
        }
        burden
    }

    /// What a hit costs around a function's calls, besides readings.
    pub(super) fn hit(&self, function: usize) -> Hit {
        match self.courses[function].calibration.hit() {
            Some(cost) => Hit { cost, source: Source::Own },
            None => self.usual_hit(),
        }
    }

    /// What one costs where it is not known better: as others do; else as far as that can be told: between the two readings of the
    /// shortest call that was timed lie the end of one hit, and the beginning of another.
    fn usual_hit(&self) -> Hit {
        let (hits, cost) = self.known;
        let (least, most) = self.settings.hit;
        if hits > 0.0 {
            Hit { cost: cost / hits, source: Source::Others }
        } else {
            Hit { cost: self.shortest.clamp(least, most), source: Source::Guess }
        }
    }

    /// Takes from a window what it says of hits.
    pub(super) fn learn(&mut self, function: usize, window: &Window) {
        let usual = self.usual_hit().cost;
        let course = &mut self.courses[function];
        let slowed = window.burden.hits * usual;
        course.is_dense = 2.0 * window.calls * usual > DENSE * window.length;
        if slowed < DENSE * window.length || window.calls < self.settings.sample_size {
            return;
        }
        let of_a_call = |number: f64| number / window.calls;
        let period = of_a_call(window.length - window.burden.readings);
        course.calibration.add(Point { hits: of_a_call(window.burden.hits), period });
        if let Some(cost) = course.calibration.hit() {
            let hits = window.burden.hits;
            self.known = (KEPT * self.known.0 + hits, KEPT * self.known.1 + hits * cost);
        }
    }
}
