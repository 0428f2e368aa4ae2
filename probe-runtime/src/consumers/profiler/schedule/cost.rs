//! What hits cost: for the budget, and for what they hide from the estimates.

use super::super::budget::Spent;
use super::super::window::Burden;
use super::{Reading, Schedule, more};

impl Schedule {
    /// Accounts for what is armed, before others are opened: hits until then are no part of their
    /// windows.
    pub(in super::super) fn catch_up(&mut self, read: impl Fn(&[usize]) -> Vec<Reading>) {
        let armed = std::mem::take(&mut self.armed);
        self.weigh(&armed, &read);
        self.armed = armed;
    }

    /// Accounts for hits of these functions, which slow all others down, too.
    pub(super) fn weigh(&mut self, functions: &[usize], read: &impl Fn(&[usize]) -> Vec<Reading>) {
        let readings = read(functions);
        functions.iter().zip(readings).for_each(|(function, reading)| self.account(*function, reading));
    }

    /// Takes note of a reading: what has come since the one before is spent.
    pub(super) fn account(&mut self, function: usize, reading: Reading) {
        let costs = self.costs;
        let course = &mut self.courses[function];
        let before = std::mem::replace(&mut course.last, reading).seen;
        let seen = reading.seen;
        let (counted, delivered) =
            (more(seen.counted, before.counted), more(seen.delivered, before.delivered));
        let timed = more(seen.ended, before.ended);
        let burden = Burden {
            counted: counted * costs.counted,
            delivered: 2.0 * (delivered * costs.delivered + timed * costs.reading),
        };
        self.burden.counted += burden.counted;
        self.burden.delivered += burden.delivered;
        let spent = Spent { cost: burden.counted + burden.delivered, calls: counted + delivered };
        course.bucket.spend(spent);
        self.bucket.spend(spent);
        self.cost.hits += spent.cost;
        self.cost.calls += spent.calls;
    }

    /// What a tick of the program costs, where a function's calls come at this rate and are
    /// counted.
    pub(super) fn counting(&self, rate: f64) -> Spent {
        Spent { cost: rate * self.costs.counted, calls: rate }
    }

    /// What the sample of a function, and switching it there and back, are going to cost.
    pub(super) fn timing(&self, function: usize) -> Spent {
        let (size, costs) = (self.settings.sample_size, self.costs);
        let rate = self.courses[function].expected(self.epochs).unwrap_or_default();
        // A look comes later than it was meant to.
        let threads = self.busy.max(1.0);
        let calls = (super::PLANNED * size).max(rate * 2.0 * self.settings.first_look) * threads;
        let hits = calls * costs.delivered + size * threads * costs.reading;
        let cost = 2.0 * (hits + self.cost_of_a_toggle());
        Spent { cost, calls }
    }

    /// As measured so far.
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    fn cost_of_a_toggle(&self) -> f64 {
        self.cost.switching / (self.cost.toggles.max(1) as f64)
    }
}
