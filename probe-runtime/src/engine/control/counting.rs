//! Dividing a probe's counter among the attachments that count.
//!
//! A probe has one counter for as long as the process lives. A hit that is only counted increments
//! it once, however many attachments count. Each of them has a part in the probe, which knows how
//! many of these hits are its own:
//!
//! | part | its hits | changes to the other state |
//! |---|---|---|
//! | thawed | the counter's present value, less the hits that are not its own | when hooks without it are published |
//! | frozen | the number when it was frozen | when it listens, and hooks with it are published |
//!
//! A sole part stays thawed while it is paused or off: no other part counts there, and its hook
//! stays. So switching a sole attachment reads no counter and publishes nothing. A frozen part
//! stays frozen until it listens again, so late hits of other attachments are not added to it.
//!
//! If some attachment of a probe counts and another is called, each attachment's own counters
//! count: one attachment may switch between counting and delivery meanwhile, and each hit is either
//! counted or delivered. A part notes this (`is_mixed`), so that the own counters of other parts
//! need not be read.
//!
//! A hit that is under way when hooks are published may increment the counter after a part has been
//! frozen or thawed. It then belongs to the parts that count at that moment. So an attachment that
//! is made or resumed may count one hit of each thread that began before. It misses no hit that
//! begins afterwards.
//!
//! Cost: one load per thread for each part that is frozen, thawed or read.
#[cfg(all(test, loom))]
mod interleavings;

use super::Wants;
use super::attachments::{Attachments, is_paused};
use super::counters::{count, counts};
use super::members::Turning;
use super::parts::Part;
use crate::engine::dispatch::CounterAt;
use crate::engine::registry::ProbeId;

/// The number of probes whose counters are read together, slot by slot. Their list fits in a page,
/// so it needs no memory from the kernel.
const AT_ONCE: usize = 512;

impl Attachments {
    /// Freezes and thaws parts before new hooks of these probes' members are made.
    pub(super) fn turn(&mut self, ids: &[ProbeId]) {
        ids.chunks(AT_ONCE).for_each(|ids| self.turn_some(ids));
    }

    fn turn_some(&mut self, ids: &[ProbeId]) {
        let is_paused = is_paused(&self.all);
        let mut turning = Vec::new();
        for &id in ids {
            let (members, counter) = (&self.members[id.index()], self.counters.of(id));
            let Turning { turns, mixes } = members.turning(&self.parts, counter, &is_paused);
            if turns {
                turning.push((id, counter));
            }
            if mixes {
                members.mix(&mut self.parts);
            }
        }
        if turning.is_empty() {
            return;
        }
        // Read before the hooks are published, so that all hits of the new hooks are included.
        let sums = counts(&turning.iter().map(|(_, counter)| *counter));
        for ((id, _), sum) in turning.into_iter().zip(sums) {
            self.members[id.index()].turn(&mut self.parts, sum, &is_paused, |part| {
                if let Some(attached) = &self.all[part.attachment()] {
                    let frozen = attached.frozen.get();
                    attached.frozen.set(if part.is_frozen { frozen + 1 } else { frozen - 1 });
                }
            });
        }
    }

    /// Returns the count of each of an attachment's probes.
    pub(super) fn counted(&self, attachment: usize) -> Vec<(ProbeId, u64)> {
        let Some(attached) = self.attached(attachment).filter(|attached| attached.wants != Wants::Hits)
        else {
            return Vec::new();
        };
        attached.ids.iter().copied().zip(self.counted_of(attachment, &attached.ids)).collect()
    }

    /// Returns the count of each of these probes for an attachment; 0 for probes that are not its
    /// own.
    pub(super) fn counted_of(&self, attachment: usize, ids: &[ProbeId]) -> Vec<u64> {
        let part = |id: &ProbeId| self.members(*id)?.part(&self.parts, attachment);
        let parts: Vec<Option<&Part>> = ids.iter().map(part).collect();
        let counters = ids.iter().zip(&parts).map(|(id, part)| {
            part.filter(|part| part.action.counts() && !part.is_frozen).and_then(|_| self.counters.of(*id))
        });
        let sums = counts(&counters);
        let told = |(part, sum): (&Option<_>, _)| part.map_or(0, |part: &Part| part.counted(sum));
        let mut counted: Vec<u64> = parts.iter().zip(sums).map(told).collect();
        if let Some(standing) = self.attached(attachment).and_then(|attached| attached.standing.as_ref()) {
            standing.add_first_hits(ids, &mut counted);
        }
        if parts.iter().flatten().any(|part| part.is_mixed) {
            let counters = parts.iter().map(|part| part.filter(|part| part.is_mixed)?.action.counter());
            counted.iter_mut().zip(counts(&counters)).for_each(|(counted, own)| *counted += own);
        }
        counted
    }

    /// Returns the number of an attachment's suppressed hits.
    pub(super) fn suppressed(&self, attachment: usize) -> u64 {
        let attached = self.attached(attachment).filter(|attached| attached.wants != Wants::Counts);
        attached.map_or(0, |attached| count(CounterAt::new(attached.counters.start)))
    }
}
