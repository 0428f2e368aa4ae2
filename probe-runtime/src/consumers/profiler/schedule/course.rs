//! The course of one function: when its sites are active, and its counts meanwhile.
//! [`schedule`](super) explains windows.

use super::super::anchors::{Amount, Mark, between};
use super::super::budget::{Bucket, Spent};
use super::super::costs::Costs;
use super::super::estimate::Estimate;
use super::super::mode::Mode;
use super::super::sampler::Seen;
use super::super::window::{Burden, Window};
use super::{Settings, more, since};

/// The number of calls that ends a timing window early, in samples of a thread that does nothing
/// else.
const OVERRUN: f64 = 16.0;
/// The shortest window, in CPU time of the program, as a part of a first look.
pub(super) const SHORTEST: f64 = 0.5;
/// The number of epochs in which the remembered highest rate falls to a half.
const HALVED: f64 = 12.0;

/// The counts of a function at some moment.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Reading {
    pub(in super::super) at: u64,
    /// The CPU time of the program by then, without the profiler's thread.
    pub(in super::super) progress: f64,
    pub(in super::super) seen: Seen,
}

/// One function.
#[derive(Debug)]
pub(in super::super) struct Course {
    pub(super) estimate: Estimate,
    pub(super) state: State,
    /// The anchors when the gap began, and when the window did.
    closed: Vec<Mark>,
    opened: Vec<Mark>,
    /// How often it has become latent.
    closings: u64,
    /// The cost of counting all its calls, in ticks for each tick of the program, while that is
    /// done.
    pub(super) share: Spent,
    /// Calls a tick in its last window, as they came.
    pub(super) rate: Option<f64>,
    peak: Peak,
    pub(super) bucket: Bucket,
    /// At the last look.
    pub(super) last: Reading,
    /// At the last epoch: the CPU time of the program, and the calls.
    epoch: (f64, u64),
    /// Calls when some were last timed.
    timed_at: u64,
    /// How often it was armed, without the first time.
    pub(in super::super) rearmed: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// It is being armed, and was latent since then.
    Opening {
        since: f64,
        mode: Mode,
        planned: f64,
    },
    Open(Open),
    Latent {
        since: f64,
    },
}

/// A window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) mode: Mode,
    /// Its planned length on the clock; infinite if its calls are always counted.
    pub(super) planned: f64,
    pub(super) gap: f64,
    pub(super) from: Reading,
    pub(super) burden: Burden,
}

/// The highest recent rate. A rate that has jumped once may do so again.
#[derive(Clone, Copy, Default, Debug)]
struct Peak {
    rate: f64,
    epoch: u32,
}

impl Course {
    /// It is being armed for the first time.
    pub(super) fn new(bucket: Bucket, now: u64) -> Self {
        Self {
            estimate: Estimate::default(),
            state: State::Opening { since: f64::INFINITY, mode: Mode::Timing, planned: 0.0 },
            closed: Vec::new(),
            opened: Vec::new(),
            closings: 0,
            share: Spent::default(),
            rate: None,
            peak: Peak::default(),
            bucket,
            last: Reading { at: now, progress: 0.0, seen: Seen::default() },
            epoch: (0.0, 0),
            timed_at: 0,
            rearmed: 0,
        }
    }

    /// How it is armed, or is about to be.
    pub(super) fn mode(&self) -> Option<Mode> {
        match self.state {
            State::Opening { mode, .. } | State::Open(Open { mode, .. }) => Some(mode),
            State::Latent { .. } => None,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Whether its calls are always counted, until something changes that.
    pub(super) fn is_always_counted(&self) -> bool {
        matches!(self.state, State::Open(Open { mode: Mode::Counting, planned, .. }) if planned.is_infinite())
    }

    /// Whether its window is over, as of the last reading. `bucket` is that of all functions.
    ///
    /// A timing window waits for calls, unless these would be too many once they come, as `is_hot`
    /// says.
    pub(super) fn is_over(&self, is_hot: bool, busy: f64, bucket: &Bucket, settings: &Settings) -> bool {
        let State::Open(Open { mode, planned, from, .. }) = self.state else { return false };
        let Reading { at, progress, seen } = &self.last;
        // The program may have stood still meanwhile. A time that is too short to measure well says
        // nothing of rates.
        if progress - from.progress < settings.first_look * SHORTEST {
            return false;
        }
        let is_due = since(*at, from.at) >= planned;
        if mode == Mode::Counting {
            return is_due;
        }
        let calls = more(seen.calls(), from.seen.calls());
        let samples = more(seen.ended, from.seen.ended);
        let is_timing = more(seen.begun, from.seen.begun) > samples;
        let size = settings.sample_size;
        let has_room = bucket.has_room() && self.bucket.has_room();
        let is_full = (calls >= size || is_hot) && is_due && !is_timing;
        let is_overrun = calls >= OVERRUN * size * busy.max(1.0);
        // Not at its first call, which would make its rate too high.
        let is_spared = !has_room && calls >= size && seen.ended > 0;
        is_full || is_overrun || is_spared
    }

    /// Ends its window with the last reading, when anchors were at those marks. The window becomes
    /// a part of the estimate.
    pub(super) fn finish(
        &mut self,
        burden: Burden,
        costs: &Costs,
        marks: &[Mark],
        shortest: f64,
        epoch: u32,
    ) {
        let Some(mut window) = self.window(&self.last, burden) else { return };
        window.is_new = window.length < shortest;
        if !window.is_new {
            let rate = window.calls / window.length;
            self.rate = Some(rate);
            self.note_peak(rate, epoch);
        }
        if window.samples > 0.0 {
            self.timed_at = self.last.seen.calls();
        }
        self.estimate.add(window, &self.amounts(marks), costs);
    }

    /// The calls of anchors, in the gap and in the window.
    pub(super) fn amounts(&self, marks: &[Mark]) -> Vec<Amount> {
        let gaps = between(&self.closed, &self.opened);
        let amount = |(anchor, window)| {
            let (_, gap) = *gaps.iter().find(|(of, _)| *of == anchor)?;
            Some(Amount { anchor, gap, window })
        };
        between(&self.opened, marks).into_iter().filter_map(amount).collect()
    }

    /// The calls of anchors in the gap that goes on.
    pub(super) fn amounts_of_gap(&self, marks: &[Mark]) -> Vec<Amount> {
        let amount = |(anchor, gap)| Amount { anchor, gap, window: 0.0 };
        between(&self.closed, marks).into_iter().map(amount).collect()
    }

    /// Notes that it is latent from here on.
    pub(super) fn close(&mut self, marks: Vec<Mark>) {
        self.state = State::Latent { since: self.last.progress };
        self.closed = marks;
        self.closings += 1;
    }

    /// Begins its window with the last reading, if it was being armed. Returns whether it was.
    pub(super) fn open(&mut self, burden: Burden, marks: Vec<Mark>) -> bool {
        let State::Opening { since: closed, mode, planned } = self.state else { return false };
        let gap = (self.last.progress - closed).max(0.0);
        self.state = State::Open(Open { mode, planned, gap, from: self.last, burden });
        self.opened = marks;
        true
    }

    /// Its state as an anchor of others, if it is counted or timed without gaps.
    pub(super) fn mark(&self, anchor: usize) -> Option<Mark> {
        let State::Open(Open { gap, .. }) = self.state else { return None };
        (gap == 0.0).then_some(Mark { anchor, calls: self.last.seen.calls(), closings: self.closings })
    }

    /// Its open window, up to a reading.
    pub(super) fn window(&self, to: &Reading, burden: Burden) -> Option<Window> {
        let State::Open(Open { gap, from, burden: before, .. }) = self.state else { return None };
        let calls = more(to.seen.calls(), from.seen.calls());
        let window = Window {
            gap,
            length: (to.progress - from.progress).max(1.0),
            burden: burden.since(before),
            calls,
            ..Window::default()
        };
        let has_others = gap > 0.0 || self.estimate.has_untimed();
        Some(window.with_times(&to.seen.times.since(&from.seen.times), has_others))
    }

    /// Goes on in another mode without a gap.
    pub(super) fn go_on(&mut self, mode: Mode, planned: f64, burden: Burden, marks: &[Mark]) {
        self.epoch = (self.last.progress, self.last.seen.calls());
        self.closed = marks.to_vec();
        self.opened = marks.to_vec();
        self.state = State::Open(Open { mode, planned, gap: 0.0, from: self.last, burden });
    }

    /// Calls since some were timed.
    pub(super) fn untimed(&self) -> f64 {
        more(self.last.seen.calls(), self.timed_at)
    }

    /// Calls a tick since the last epoch.
    pub(super) fn rate_of_epoch(&mut self) -> f64 {
        let (progress, calls) = (self.last.progress, self.last.seen.calls());
        if progress <= self.epoch.0 {
            return 0.0;
        }
        let (from, before) = std::mem::replace(&mut self.epoch, (progress, calls));
        more(calls, before) / (progress - from)
    }

    /// The rate to plan for: the highest one seen, with decay. `None` if none was seen.
    pub(super) fn expected(&self, epoch: u32) -> Option<f64> {
        let ago = f64::from(epoch.wrapping_sub(self.peak.epoch));
        self.rate.map(|rate| rate.max(self.peak.rate * (-ago / HALVED).exp2()))
    }

    pub(super) fn note_peak(&mut self, rate: f64, epoch: u32) {
        let rate = self.expected(epoch).unwrap_or_default().max(rate);
        self.peak = Peak { rate, epoch };
    }
}
