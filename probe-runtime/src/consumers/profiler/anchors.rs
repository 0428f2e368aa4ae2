//! Anchors: functions whose calls are known whole. The calls of other functions are estimated by
//! their ratio to these.
//!
//! While a function is latent, others' calls go on being counted. A callee is called in a ratio to
//! its caller's calls. So these calls tell how often it was called, however much its threads were
//! slowed down meanwhile, and whatever else they did. This is the ratio estimator of sampling
//! theory (Cochran, "Sampling Techniques", 3rd ed., chapter 6). The auxiliary variable is another
//! function's calls, in place of time.
//!
//! The windows show which anchor suits a function. Each window's calls are predicted from the ratio
//! in earlier windows, and the error of the prediction is remembered. If no anchor predicts better
//! than time, time is used.

/// The number of anchors that are tried for each function.
pub(super) const TRIED: usize = 8;
/// Exponential decay per window.
const KEPT: f64 = 0.95;
/// The numbers of windows, and of the anchor's calls, that a ratio needs.
const ENOUGH: u32 = 4;
const CALLS: f64 = 4.0;

/// An amount (an anchor's calls, say) in a gap, and in the window after it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Amount {
    pub(super) anchor: usize,
    pub(super) gap: f64,
    pub(super) window: f64,
}

/// How well something has predicted the calls of windows.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Record {
    off: f64,
    calls: f64,
    windows: u32,
}

impl Record {
    pub(super) fn add(&mut self, calls: f64, foretold: f64) {
        self.off = KEPT * self.off + (calls - foretold).powi(2);
        self.calls = KEPT * self.calls + calls * calls;
        self.windows = self.windows.saturating_add(1);
    }

    /// The variance of one window's calls from the prediction, relative to their square.
    pub(super) fn variance(&self) -> f64 {
        if self.calls > 0.0 { self.off / self.calls } else { 1.0 }
    }

    /// The same variance for all windows together; `None` if there are too few.
    pub(super) fn of_all(&self) -> Option<f64> {
        (self.windows >= ENOUGH).then(|| self.variance() / f64::from(self.windows))
    }
}

/// One function's ratio to an anchor.
#[derive(Clone, Debug)]
struct Ratio {
    anchor: usize,
    /// Calls, and the anchor's calls, in the windows so far, with decay.
    calls: f64,
    amount: f64,
    record: Record,
    /// The anchor's calls in pending gaps; `None` if they are not known for all of these.
    pending: Option<f64>,
}

/// The ratios of one function.
#[derive(Clone, Default, Debug)]
pub(super) struct Anchors(Vec<Ratio>);

/// A prediction of the calls in gaps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Foretold {
    pub(super) calls: f64,
    /// The variance for one gap, relative to the square of its calls; and for all gaps together.
    pub(super) variance: f64,
    pub(super) of_all: f64,
}

impl Anchors {
    /// Adds a gap, and a window with so many calls. `is_first`: no other gap is pending.
    pub(super) fn add(&mut self, amounts: &[Amount], calls: f64, is_first: bool) {
        self.gap(amounts, is_first);
        for ratio in &mut self.0 {
            let Some(amount) = amounts.iter().find(|amount| amount.anchor == ratio.anchor) else { continue };
            if ratio.amount > 0.0 {
                ratio.record.add(calls, amount.window * ratio.calls / ratio.amount);
            }
            ratio.calls = KEPT * ratio.calls + calls;
            ratio.amount = KEPT * ratio.amount + amount.window;
        }
    }

    /// Adds a gap. Anchors that are not among the amounts any more are forgotten.
    pub(super) fn gap(&mut self, amounts: &[Amount], is_first: bool) {
        self.0.retain(|ratio| amounts.iter().any(|amount| amount.anchor == ratio.anchor));
        for amount in amounts {
            match self.0.iter_mut().find(|ratio| ratio.anchor == amount.anchor) {
                Some(ratio) => ratio.pending = ratio.pending.map(|pending| pending + amount.gap),
                None => self.0.push(Ratio {
                    anchor: amount.anchor,
                    calls: 0.0,
                    amount: 0.0,
                    record: Record::default(),
                    pending: is_first.then_some(amount.gap),
                }),
            }
        }
    }

    /// The calls of all pending gaps, by the anchor that predicts best.
    pub(super) fn best(&self) -> Option<Foretold> {
        let foretold = self.0.iter().filter_map(|ratio| {
            let (pending, of_all) = (ratio.pending?, ratio.record.of_all()?);
            (ratio.amount >= CALLS).then(|| Foretold {
                calls: pending * ratio.calls / ratio.amount,
                variance: ratio.record.variance(),
                of_all,
            })
        });
        foretold.min_by(|a, b| a.of_all.total_cmp(&b.of_all))
    }

    /// Notes that no gap is pending any more.
    pub(super) fn filled(&mut self) {
        self.0.iter_mut().for_each(|ratio| ratio.pending = Some(0.0));
    }
}

/// The state of an anchor at some moment: its calls, and how often it had become latent by then.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Mark {
    pub(super) anchor: usize,
    pub(super) calls: u64,
    pub(super) closings: u64,
}

/// The calls of functions that were anchors at both moments, and in between.
#[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52")]
pub(super) fn between(from: &[Mark], to: &[Mark]) -> Vec<(usize, f64)> {
    let calls = |to: &Mark| {
        let from = from.iter().find(|from| (from.anchor, from.closings) == (to.anchor, to.closings))?;
        Some((to.anchor, to.calls.saturating_sub(from.calls) as f64))
    };
    to.iter().filter_map(calls).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "numbers that are exact")]

    use super::*;

    fn amount(anchor: usize, gap: f64, window: f64) -> Amount {
        Amount { anchor, gap, window }
    }

    #[test]
    fn who_foretells_best_is_taken() {
        let mut anchors = Anchors::default();
        // Ten calls for each of the second's; the first goes its own ways, and the third is known
        // from the second window on.
        for (window, first) in [5.0, 1.0, 9.0, 2.0, 7.0, 3.0].into_iter().enumerate() {
            let calls = 100.0 + 10.0 * f64::from(u32::try_from(window).unwrap());
            let mut amounts = vec![amount(1, 50.0, first), amount(2, 40.0, calls / 10.0)];
            if window > 0 {
                amounts.push(amount(3, 40.0, calls + first));
            }
            anchors.add(&amounts, calls, window == 0);
        }
        let best = anchors.best().unwrap();
        assert_eq!(best.calls, 2400.0, "six gaps of 40 calls of the second");
        assert!(best.variance < 1e-9, "{best:?}");
        anchors.filled();
        anchors.gap(&[amount(2, 5.0, 0.0), amount(3, 30.0, 0.0)], true);
        assert_eq!(anchors.best().unwrap().calls.round(), 50.0);
        // Only the third is left, which was not there at first.
        anchors.gap(&[amount(3, 30.0, 0.0)], false);
        assert!((55.0..60.0).contains(&anchors.best().unwrap().calls), "{anchors:?}");
        anchors.gap(&[], false);
        assert!(anchors.best().is_none());
    }

    #[test]
    fn a_few_windows_are_too_few() {
        let mut anchors = Anchors::default();
        for window in 0..5 {
            assert!(anchors.best().is_none(), "{window}");
            anchors.add(&[amount(1, 10.0, 10.0)], 10.0, window == 0);
        }
        assert_eq!(anchors.best().unwrap().calls, 50.0);
    }

    #[test]
    fn who_was_latent_in_between_is_none() {
        let mark = |anchor, calls, closings| Mark { anchor, calls, closings };
        let from = [mark(1, 10, 0), mark(2, 20, 3), mark(3, 30, 0)];
        let to = [mark(2, 25, 3), mark(3, 60, 1), mark(4, 1, 0)];
        assert_eq!(between(&from, &to), [(2, 5.0)]);
    }
}
