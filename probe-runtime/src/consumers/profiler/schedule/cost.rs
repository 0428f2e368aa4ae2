//! What hits cost: for the budget, and for what they hide from the estimates.

use super::super::budget::Spent;
use super::super::calibration::{Point, felt};
use super::super::estimate::{Burden, Hit, Source, Window};
use super::{Reading, Schedule, more};

/// Windows in which hits take more than that of the time are used to find out what hits take.
const DENSE: f64 = 0.03;
/// What is known of hits counts so much less with each window that comes.
const KEPT: f64 = 0.99;

/// What came since the reading before.
struct Noticed {
    burden: Burden,
    /// What its hits take by themselves.
    hits: f64,
    calls: f64,
    /// What the program has used meanwhile.
    length: f64,
}

impl Schedule {
    /// Accounts for what is armed, before others are opened: hits until then are no part of their windows.
    pub(in super::super) fn catch_up(&mut self, read: impl Fn(usize) -> Reading) {
        let armed = std::mem::take(&mut self.armed);
        self.weigh(&armed, &read);
        self.armed = armed;
    }

    /// Accounts for hits of these functions, which slow all others down, too: how much of them is felt depends on all of them.
    pub(super) fn weigh(&mut self, functions: &[usize], read: &impl Fn(usize) -> Reading) {
        let noticed: Vec<_> =
            functions.iter().map(|function| self.notice(*function, read(*function))).collect();
        let hits = noticed.iter().map(|it| it.hits).sum();
        let readings: f64 = noticed.iter().map(|it| it.burden.readings).sum();
        for (function, it) in functions.iter().zip(&noticed) {
            self.burden.hits += it.burden.hits;
            self.burden.readings += it.burden.readings;
            self.charge(*function, it, felt((it.length - readings).max(0.0), hits));
        }
    }

    /// The same for one function, while others are not looked at.
    pub(super) fn account(&mut self, function: usize, reading: Reading) {
        let it = self.notice(function, reading);
        self.charge(function, &it, felt((it.length - it.burden.readings).max(0.0), it.hits));
    }

    /// Takes note of a reading.
    fn notice(&mut self, function: usize, reading: Reading) -> Noticed {
        let Reading { progress, seen, .. } = reading;
        let hit = self.hit(function).cost;
        let course = &mut self.courses[function];
        let Reading { progress: from, seen: before, .. } = std::mem::replace(&mut course.last, reading);
        let calls = more(seen.calls, before.calls) + more(seen.stray, before.stray);
        let timed = more(seen.ended, before.ended);
        let burden =
            Burden { hits: course.mode.hits() * calls, readings: 2.0 * timed * self.settings.reading };
        if seen.ended != 0 {
            self.shortest = self.shortest.min(more(seen.shortest, 0));
        }
        Noticed { burden, hits: burden.hits * hit, calls, length: progress - from }
    }

    fn charge(&mut self, function: usize, it: &Noticed, felt: f64) {
        let cost = it.hits * felt + it.burden.readings;
        let spent = Spent { cost, calls: it.calls };
        self.courses[function].bucket.spend(spent);
        self.bucket.spend(spent);
        self.cost.hits += cost;
        self.cost.calls += it.calls;
    }

    /// What a hit costs around a function's calls, besides readings.
    pub(super) fn hit(&self, function: usize) -> Hit {
        match self.courses[function].calibration.hit() {
            Some(cost) => Hit { cost: cost.max(self.settings.hit.0), source: Source::Own },
            None => self.usual_hit(),
        }
    }

    /// What one costs where it is not known better: as others do; else as far as that can be told: between the two readings of the
    /// shortest call that was timed lie the end of one hit, and the beginning of another.
    fn usual_hit(&self) -> Hit {
        let (hits, cost) = self.known;
        let (least, most) = self.settings.hit;
        if hits > 0.0 {
            Hit { cost: (cost / hits).max(least), source: Source::Others }
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
        let period = of_a_call(window.without_readings());
        course.calibration.add(Point { hits: of_a_call(window.burden.hits), period });
        if let Some(cost) = course.calibration.hit() {
            let hits = window.burden.hits;
            self.known = (KEPT * self.known.0 + hits, KEPT * self.known.1 + hits * cost);
        }
    }
}
