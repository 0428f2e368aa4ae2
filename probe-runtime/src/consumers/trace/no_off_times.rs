//! In place of the times at which threads were off the processor, without the feature `perf`.

use probe_trace::layout::off;

use crate::engine::clock::Clock;
use crate::engine::dispatch::Event;
use crate::engine::error::Error;

/// No trace has such times.
pub(super) enum OffTimes {}

impl OffTimes {
    pub(super) fn new(_: bool) -> Result<Self, Error> {
        Err(Error::Consumer("`threads` needs the feature `perf`".into()))
    }

    #[inline(always)]
    pub(super) fn now(&self, _: &Event<'_>, _: Clock, _: impl FnMut(u64, Option<[u64; off::WORDS]>)) -> u64 {
        match *self {}
    }

    pub(super) fn last(&self, _: u64) -> Vec<u64> {
        match *self {}
    }

    pub(super) fn look(&self) {
        match *self {}
    }

    pub(super) fn note(&self) -> Option<String> {
        match *self {}
    }
}
