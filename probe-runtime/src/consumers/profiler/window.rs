//! A window, in which a function's calls are counted, and what its hits, and others', have made of it.

use super::costs::Costs;

/// What is left of a window at least, if hits would be all of it.
pub(super) const LEAST: f64 = 0.2;
/// A window that delivered hits take more of says too little of rates.
const DISTURBED: f64 = 0.03;

/// A window, and the gap before it. Times in ticks.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Window {
    pub(super) gap: f64,
    pub(super) length: f64,
    pub(super) burden: Burden,
    pub(super) calls: f64,
    pub(super) samples: f64,
    pub(super) time: f64,
    pub(super) squares: f64,
    /// Hits inside of the calls that were timed.
    pub(super) inner: f64,
    /// Whether it has only begun, and says nothing of rates.
    pub(super) is_new: bool,
}

/// What hits of all functions have taken of threads' time.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Burden {
    pub(super) counted: f64,
    /// With readings of the clock.
    pub(super) delivered: f64,
}

impl Burden {
    pub(super) fn since(self, then: Self) -> Self {
        Self { counted: self.counted - then.counted, delivered: self.delivered - then.delivered }
    }
}

impl Window {
    /// Its length, had nobody looked: as much would have been done in less time.
    pub(super) fn undisturbed(&self) -> f64 {
        (self.length - self.burden.counted - self.burden.delivered).max(self.length * LEAST)
    }

    /// Calls a tick, of this window alone.
    pub(super) fn rate(&self) -> f64 {
        self.calls / self.undisturbed()
    }

    /// Whether rates that are better than guesses come from it.
    pub(super) fn tells_rate(&self) -> bool {
        !self.is_new && self.burden.delivered <= DISTURBED * self.length
    }

    /// Without hits that were measured as a part of the calls: their own, and those of calls inside.
    pub(super) fn without_hits(mut self, costs: &Costs) -> Self {
        let samples = self.samples.max(1.0);
        let own = (self.inner * costs.delivered / samples + costs.inside).min(self.time / samples);
        // They vary as much as before.
        self.squares = (self.squares - own * (2.0 * self.time - self.samples * own)).max(0.0);
        self.time -= own * self.samples;
        self
    }
}
