//! How often a function's intervals have contained the truth.

use probe_runtime::profile::{Estimated, FunctionProfile};

/// The results of a function's rows.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Tally {
    pub(super) shown: u32,
    pub(super) exact: u32,
    pub(super) covered: u32,
    pub(super) times: u32,
    pub(super) times_covered: u32,
    pub(super) means: u32,
    pub(super) means_covered: u32,
    /// Rows whose error is less than half of the calls.
    pub(super) sharp: u32,
}

impl Tally {
    pub(super) fn add(&mut self, shown: &FunctionProfile, calls: u64, time: u64) {
        let Estimated { value, error } = shown.calls();
        let is_within = if is_at_least(shown) {
            value <= calls as f64
        } else {
            let is_exact = error == 0.0;
            self.exact += u32::from(is_exact);
            self.sharp += u32::from(error < value / 2.0);
            let off = (value - calls as f64).abs();
            assert!(off == 0.0 || !is_exact, "{}: {value} is said to be exact, not {calls}", shown.path());
            off <= error + 0.5
        };
        self.shown += 1;
        self.covered += u32::from(is_within);
        let is_within = |it: Estimated, truth: f64| {
            let off = it.value - truth;
            // As far as floating point goes.
            let error = it.error + 1e-9 * truth;
            if it.is_at_least() { off <= 1e-9 * truth } else { off.abs() <= error }
        };
        if let Some(total) = shown.total() {
            self.times += 1;
            self.times_covered += u32::from(is_within(total, time as f64));
        }
        if let Some(mean) = shown.mean() {
            self.means += 1;
            self.means_covered += u32::from(is_within(mean, time as f64 / calls as f64));
        }
    }
}

/// Whether a profile shows a lower bound of the calls only.
fn is_at_least(shown: &FunctionProfile) -> bool {
    shown.calls().is_at_least()
}
