//! One function: when its sites are active, and what was seen of it meanwhile. See [`schedule`](super) for what a window is.

use super::super::budget::Bucket;
use super::super::calibration::Calibration;
use super::super::estimate::{Burden, Estimate, Window};
use super::super::mode::Mode;
use super::super::sampler::Seen;
use super::{Settings, more, since};

/// Calls that end a window before its time, in samples.
const OVERRUN: f64 = 16.0;
/// The shortest window, in what the program has used: so much of a first look.
pub(super) const SHORTEST: f64 = 0.5;

/// What was seen of a function, and when.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Reading {
    pub(in super::super) at: u64,
    /// What the program had used on processors by then, without the profiler's thread.
    pub(in super::super) progress: f64,
    pub(in super::super) seen: Seen,
}

/// One function.
#[derive(Debug)]
pub(in super::super) struct Course {
    pub(super) estimate: Estimate,
    /// Windows that are not a part of the estimate yet.
    pub(super) pending: Vec<Window>,
    pub(super) calibration: Calibration,
    pub(super) state: State,
    /// How it is armed, or was last.
    pub(super) mode: Mode,
    /// Whether hits took much of its last window.
    pub(super) is_dense: bool,
    /// Calls a tick in its last window.
    pub(super) rate: Option<f64>,
    pub(super) bucket: Bucket,
    /// At the last look.
    pub(super) last: Reading,
    /// Times that it was armed, without the first.
    pub(in super::super) rearmed: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// Being armed, latent since then.
    Opening {
        since: f64,
    },
    Open {
        since: u64,
        from_progress: f64,
        gap: f64,
        planned: f64,
        burden: Burden,
        from: Seen,
    },
    Latent {
        since: f64,
    },
}

impl Course {
    /// Being armed for the first time.
    pub(super) fn new(bucket: Bucket, now: u64) -> Self {
        Self {
            estimate: Estimate::default(),
            pending: Vec::new(),
            calibration: Calibration::default(),
            state: State::Opening { since: f64::INFINITY },
            mode: Mode::Timing,
            is_dense: false,
            rate: None,
            bucket,
            last: Reading { at: now, progress: 0.0, seen: Seen::default() },
            rearmed: 0,
        }
    }

    /// Whether its window is, as of the last reading; `bucket` is that of all.
    pub(super) fn is_over(&self, bucket: &Bucket, settings: &Settings) -> bool {
        let State::Open { since: began, from_progress, planned, from, .. } = self.state else {
            return false;
        };
        let Reading { at, progress, seen } = &self.last;
        // The program may have stood still meanwhile; what was too short to be measured well says nothing of rates.
        if progress - from_progress < settings.first_look * SHORTEST {
            return false;
        }
        let calls = more(seen.calls, from.calls);
        let samples = more(seen.ended, from.ended);
        let is_timing = more(seen.begun, from.begun) > samples;
        let size = settings.sample_size;
        let has_room = bucket.has_room() && self.bucket.has_room();
        let is_full = calls >= size && since(*at, began) >= planned && !is_timing;
        let is_overrun = calls >= OVERRUN * size;
        // Not at its first call, which would make its rate too high; unless nothing is to be spent at all.
        let least = if bucket.is_closed() || self.bucket.is_closed() { 1.0 } else { size };
        let is_spared = !has_room && calls >= least && seen.ended > 0;
        is_full || is_overrun || is_spared
    }

    /// The window that is open, up to a reading.
    pub(super) fn window(&self, to: &Reading, burden: Burden) -> Option<Window> {
        let State::Open { from_progress, gap, burden: before, ref from, .. } = self.state else {
            return None;
        };
        let length = to.progress - from_progress;
        Some(Window::new(gap, length, burden.since(before), from, &to.seen))
    }
}
