//! Counts of the hits that a screen has passed on, for a consumer that has its hits counted.
//!
//! A counting block looks at nothing of a hit, so it can't leave any out. Such hits are delivered
//! to the screen, which counts them here.
//!
//! Cost: a look-up of the probe, and one addition in the thread's own memory.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::engine::by_probe::{Numbers, numbers};
use crate::engine::calls::add_single_writer;
use crate::engine::control::ProbeSet;
use crate::engine::dispatch::Event;
use crate::engine::error::Error;
use crate::engine::per_thread::PerThread;
use crate::engine::registry::ProbeId;

/// The hits of each probe, for a consumer that has them counted.
pub(super) struct Counted {
    /// The place of a probe's number in `memory`, from 1.
    places: Numbers,
    used: AtomicU32,
    room: u32,
    memory: PerThread<(), AtomicU64>,
}

impl Counted {
    /// Makes counts for these probes, with room for those that may join later.
    pub(super) fn new(probes: &ProbeSet) -> Result<Self, Error> {
        let room = probes.len() + probes.room();
        let counted = Self {
            places: Numbers::new(numbers(probes)),
            used: AtomicU32::new(0),
            room: u32::try_from(room).unwrap_or(u32::MAX),
            memory: PerThread::new(room)?,
        };
        counted.join(probes)?;
        Ok(counted)
    }

    /// Finds places for these probes. One thread at a time calls it.
    pub(super) fn join(&self, probes: &ProbeSet) -> Result<(), Error> {
        let new: Vec<_> = probes.ids().iter().filter(|id| self.place(**id).is_none()).collect();
        let used = self.used.load(Relaxed);
        let has_room = (self.room - used) as usize >= new.len() && new.iter().all(|id| self.places.has(**id));
        if !has_room {
            let problem = format!("there is room for {} probes; attach anew", self.room);
            return Err(Error::Consumer(problem.into()));
        }
        for (place, id) in (used + 1..).zip(new) {
            self.places.set(*id, place);
            self.used.store(place, Relaxed);
        }
        Ok(())
    }

    #[inline(always)]
    fn place(&self, id: ProbeId) -> Option<usize> {
        (self.places.get(id) as usize).checked_sub(1)
    }

    #[inline]
    pub(super) fn count(&self, event: &Event<'_>) {
        let Some(local) = self.memory.of(event) else { return };
        if let Some(count) = self.place(event.probe()).and_then(|at| local.parts().get(at)) {
            add_single_writer(count, 1);
        }
    }

    /// Returns the hits of a probe; `None` if it has no place here.
    pub(super) fn hits(&self, id: ProbeId) -> Option<u64> {
        let at = self.place(id)?;
        let counts = self.memory.iter().filter_map(|local| Some(local.parts().get(at)?.load(Relaxed)));
        Some(counts.sum())
    }

    /// Returns a line for the report if hits were not counted.
    pub(super) fn note(&self) -> Option<String> {
        let lost = self.memory.lost();
        (lost != 0).then(|| format!("{lost} hits were not counted: no memory for them"))
    }
}
