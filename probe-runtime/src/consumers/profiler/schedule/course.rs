//! One function: when its sites are active, and what was seen of it meanwhile. See [`schedule`](super) for what a window is.

use super::super::budget::{Bucket, Spent};
use super::super::estimate::{Estimate, Window};
use super::super::sampler::Seen;
use super::{Settings, after, more, since};

/// Calls that end a window before its time, in samples.
const OVERRUN: f64 = 16.0;
/// A planned window, in samples: so that hardly one has too few.
const PLANNED: f64 = 2.0;
/// The shortest window, in what the program has used: so much of a first look.
const SHORTEST: f64 = 0.5;

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
    estimate: Estimate,
    state: State,
    pub(super) bucket: Bucket,
    /// At the last look.
    last: Reading,
    /// Times that it was armed, without the first.
    pub(in super::super) rearmed: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// Being armed, latent since then.
    Opening {
        since: f64,
    },
    Open {
        since: u64,
        from_progress: f64,
        gap: f64,
        planned: f64,
        slowed: f64,
        from: Seen,
    },
    Latent {
        since: f64,
    },
}

/// What a function has called since the look before, and that that cost.
pub(super) struct Passed {
    pub(super) spent: Spent,
    /// The shortest call that was timed, if any was.
    pub(super) shortest: Option<f64>,
}

impl Course {
    /// Being armed for the first time.
    pub(super) fn new(bucket: Bucket, now: u64) -> Self {
        Self {
            estimate: Estimate::default(),
            state: State::Opening { since: f64::INFINITY },
            bucket,
            last: Reading { at: now, progress: 0.0, seen: Seen::default() },
            rearmed: 0,
        }
    }

    /// Its sites are active. Whether it was being armed.
    pub(super) fn open(&mut self, reading: Reading, slowed: f64, busy: f64, settings: &Settings) -> bool {
        let State::Opening { since: closed } = self.state else { return false };
        let Reading { at: now, progress, seen: from } = reading;
        let gap = (progress - closed).max(0.0);
        let planned = match self.estimate.rate() {
            Some(rate) => (PLANNED * settings.sample_size / (rate * busy)).max(settings.first_look),
            None => 0.0,
        };
        self.state = State::Open { since: now, from_progress: progress, gap, planned, slowed, from };
        true
    }

    /// Notes a reading. A hit costs `hit` besides readings of the clock.
    pub(super) fn account(&mut self, reading: Reading, hit: f64, settings: &Settings) -> Passed {
        let seen = reading.seen;
        let before = std::mem::replace(&mut self.last, reading).seen;
        let calls = more(seen.calls, before.calls) + more(seen.stray, before.stray);
        let timed = more(seen.ended, before.ended);
        // A call is two hits.
        let spent = Spent { cost: 2.0 * (calls * hit + timed * settings.reading), calls };
        self.bucket.spend(spent);
        Passed { spent, shortest: (seen.ended != 0).then(|| more(seen.shortest, 0)) }
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
        let is_spared = !has_room && calls >= least && self.estimate.samples + samples > 0.0;
        is_full || is_overrun || is_spared
    }

    /// It becomes latent, as of the last reading.
    pub(super) fn close(&mut self, slowed: f64, hit: f64) {
        if let Some(window) = self.window(&self.last, slowed, hit) {
            self.estimate.add(window);
        }
        self.state = State::Latent { since: self.last.progress };
    }

    /// As many calls as a window is likely to have, where it is looked at so late.
    pub(super) fn likely_calls(&self, late: f64, busy: f64, settings: &Settings) -> f64 {
        (PLANNED * settings.sample_size).max(self.rate().unwrap_or_default() * busy * late)
    }

    /// It is to be armed again, if it is latent.
    pub(super) fn rearm(&mut self) {
        if let State::Latent { since } = self.state {
            self.state = State::Opening { since };
            self.rearmed += 1;
        }
    }

    pub(super) fn is_latent(&self) -> bool {
        matches!(self.state, State::Latent { .. })
    }

    /// Whether it was ever called.
    pub(super) fn is_called(&self) -> bool {
        self.last.seen.calls != 0
    }

    /// Calls a tick in the last window; `None` before it.
    pub(super) fn rate(&self) -> Option<f64> {
        self.estimate.rate()
    }

    /// When to look at it, after a look; `None` of what is not armed.
    pub(super) fn due(&self, looked: u64, first_look: f64) -> Option<u64> {
        let State::Open { since: began, planned, .. } = self.state else { return None };
        let due = after(began, planned);
        // Past its plan, it waits for calls, or for some to end: twice as long as it took so far.
        let later = || after(looked, since(looked, began).max(first_look));
        Some(if due > looked { due } else { later() })
    }

    /// What is known of it, as of a reading.
    pub(super) fn estimate(&self, reading: &Reading, slowed: f64, hit: f64) -> Estimate {
        match (self.state, self.window(reading, slowed, hit)) {
            (State::Latent { since: closed } | State::Opening { since: closed }, _) => {
                self.estimate.with_gap((reading.progress - closed).max(0.0))
            }
            (_, window) => {
                let mut estimate = self.estimate.clone();
                window.into_iter().for_each(|window| estimate.add(window));
                estimate
            }
        }
    }

    /// The window that is open, up to a reading.
    fn window(&self, to: &Reading, slowed: f64, hit: f64) -> Option<Window> {
        let State::Open { from_progress, gap, slowed: before, ref from, .. } = self.state else {
            return None;
        };
        let length = to.progress - from_progress;
        Some(Window::new(gap, length, slowed - before, hit, from, &to.seen))
    }
}
