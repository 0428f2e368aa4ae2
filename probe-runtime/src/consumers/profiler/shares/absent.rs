//! Shares where no code is patched, or no kernel samples the processor's clock: they are not known.

use super::estimate::Estimated;
use super::sampler::Sampler;

/// The part of the budget for samples.
pub(super) const SAMPLING_SHARE: f64 = 0.0;

pub(super) struct Shares(());

impl Shares {
    pub(super) fn begin() -> Self {
        Self(())
    }

    #[expect(clippy::unused_self, reason = "the same contract as where there are some")]
    pub(super) fn read(&mut self, _sampler: &Sampler, _budget: f64) -> f64 {
        0.0
    }

    #[expect(clippy::unused_self, reason = "as above")]
    pub(super) fn take_recent(&mut self) -> Vec<usize> {
        Vec::new()
    }

    #[expect(clippy::unused_self, reason = "as above")]
    pub(super) fn is_sampling(&self) -> bool {
        false
    }

    #[expect(clippy::unused_self, reason = "as above")]
    pub(super) fn of(&self, _function: usize) -> Option<Estimated> {
        None
    }

    #[expect(clippy::unused_self, reason = "as above")]
    pub(super) fn seen(&self, _function: usize) -> u32 {
        0
    }

    #[expect(clippy::unused_self, reason = "as above")]
    pub(super) fn samples(&self) -> [u64; 2] {
        [0; 2]
    }

    #[expect(clippy::unused_self, reason = "as above")]
    pub(super) fn is_partial(&self) -> bool {
        false
    }
}
