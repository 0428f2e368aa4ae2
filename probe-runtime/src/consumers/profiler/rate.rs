//! How often a function is called, from the windows in which its calls were counted.

use super::anchors::Record;
use super::costs::DOUBT;
use super::window::{Burden, LEAST, Window};

/// Exponential decay of rates per window.
const KEPT: f64 = 0.75;

/// Windows that tell a rate, pooled, with decay.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Pool {
    calls: f64,
    length: f64,
    burden: f64,
    /// How well time predicts calls.
    pub(super) record: Record,
}

impl Pool {
    pub(super) fn add(&mut self, window: &Window) {
        if self.length > 0.0 {
            self.record.add(window.calls, window.undisturbed() * self.rate());
        }
        let Burden { counted, delivered } = window.burden;
        self.calls = KEPT * self.calls + window.calls;
        self.length = KEPT * self.length + window.length;
        self.burden = KEPT * self.burden + counted + delivered;
    }

    /// Calls a tick, as without hits.
    fn rate(&self) -> f64 {
        self.calls / (self.length - self.burden).max(LEAST * self.length)
    }
}

/// Calls a tick, and their variance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    pub(super) calls: f64,
    /// The variance of the last window alone.
    own: f64,
    pub(super) variance: f64,
    /// The uncertainty that hits cause.
    pub(super) doubt: f64,
    /// Whether it is better than a guess.
    pub(super) is_told: bool,
}

impl Rate {
    /// The rate of a window, pooled with those before.
    pub(super) fn new(window: &Window, pool: &Pool, last: Option<Self>) -> Self {
        let (own, undisturbed, is_told) = (window.rate(), window.undisturbed(), window.tells_rate());
        let calls = if is_told && pool.length > 0.0 { pool.rate() } else { own };
        let slowed = (window.length - undisturbed).max(0.0);
        let by_chance = window.calls.max(1.0) / (undisturbed * undisturbed);
        let differs = last.map_or(0.0, |last| (own - last.own).powi(2) / 2.0);
        let doubt = calls * DOUBT * slowed / undisturbed;
        Self { calls, own, variance: by_chance.max(differs), doubt, is_told }
    }
}
