//! The surroundings of a hit: its thread, the time, its call, and samples.

use std::sync::atomic::Ordering::Relaxed;

use super::Planned;
use crate::engine::calls::add_single_writer;
use crate::engine::dispatch::Event;
use probe_lang::expression::{Datum, Fault, Program, Surroundings};

/// One hit.
pub(super) struct Around<'a> {
    pub(super) planned: &'a Planned,
    pub(super) event: &'a Event<'a>,
    /// Since the entry of its call.
    pub(super) ticks: Option<u64>,
}

/// One hit that has passed, as its consumer evaluates more of it.
pub(in super::super) struct Moment<'a>(&'a Around<'a>);

impl Around<'_> {
    #[inline(always)]
    pub(super) fn moment(&self) -> Moment<'_> {
        Moment(self)
    }
}

impl Moment<'_> {
    #[inline]
    pub(in super::super) fn value<'a>(&'a self, program: &'a Program) -> Result<Datum<'a>, Fault> {
        program.value(self.0.event.values(), self.0)
    }

    /// Nanoseconds since the entry of its call.
    pub(in super::super) fn latency(&self) -> Result<u64, Fault> {
        self.0.latency().ok_or(Fault::Unpaired)
    }
}

impl Surroundings for Around<'_> {
    fn thread(&self) -> u64 {
        self.event.thread()
    }

    fn time(&self) -> u64 {
        let planned = self.planned;
        planned.scale.nanoseconds(planned.clock.now().saturating_sub(planned.began))
    }

    fn latency(&self) -> Option<u64> {
        Some(self.planned.scale.nanoseconds(self.ticks?))
    }

    fn first(&self, sample: usize, hits: u64) -> bool {
        let Some(seen) = self.planned.firsts.get(sample) else { return false };
        // Only the first hits write, so that later ones execute no locked instruction.
        seen.load(Relaxed) < hits && seen.fetch_add(1, Relaxed) < hits
    }

    fn one_in(&self, sample: usize, hits: u64) -> bool {
        let Some(local) = self.planned.memory.of(self.event) else { return false };
        let Some(seen) = local.parts().get(sample) else { return false };
        add_single_writer(seen, 1);
        seen.load(Relaxed).is_multiple_of(hits)
    }
}
