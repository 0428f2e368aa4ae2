//! For whom a probe's counter counts, and what each attachment has counted.
//!
//! A probe has one counter, for as long as the process lives. A hit that is only counted bumps it
//! once, however many attachments count. Each of them has a part in the probe, which knows how many
//! of these hits are its own:
//!
//! | part | its hits | becomes the other |
//! |---|---|---|
//! | thawed | those of the counter since it began, less what was not its own | when hooks without it are published |
//! | frozen | as many as when it was frozen | when it listens, and hooks with it are published |
//!
//! A part that is alone stays thawed while it is paused or off: nobody else counts there, and its
//! hook stays. So switching a sole attachment reads no counter and publishes nothing. One that was
//! frozen stays so until it listens again: what others counted late is not told to it.
//!
//! Hits of a probe that somebody listens to in another way, too, are counted by each attachment's
//! own counters: whether a hit is counted or delivered may change for one of them meanwhile, and
//! each hit is one of the two. A part notes that (`is_mixed`), so that others' need not be read.
//!
//! A hit that is under way when hooks are published may bump the counter when a part has been
//! turned already: it is told to those who count then. So a hit that began before an attachment was
//! made, or resumed, may be counted by it, one for each thread; none that begins afterwards is missed.
//!
//! Cost: a load for each part that turns, and thread; the same for each part that is asked for.
#[cfg(all(test, loom))]
mod interleavings;

use super::Wants;
use super::members::Turning;
use super::parts::Part;
use super::state::{Control, is_paused};
use super::tallies::counts;
use crate::dispatch::TallyAt;
use crate::registry::ProbeId;

/// Probes whose counters are read together, slot by slot: a page's, so that no memory is asked of the
/// kernel to note them.
const AT_ONCE: usize = 512;

impl Control {
    /// Freezes and thaws parts as the hooks ask that are to be made of these probes' members.
    pub(super) fn turn(&mut self, ids: &[ProbeId]) {
        ids.chunks(AT_ONCE).for_each(|ids| self.turn_some(ids));
    }

    fn turn_some(&mut self, ids: &[ProbeId]) {
        let is_paused = is_paused(&self.attachments);
        let mut turning = Vec::new();
        for &id in ids {
            let (members, counter) = (&self.members[id.index()], self.tallies.of(id));
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
        // Before the hooks are published: what these count, is counted.
        let sums = counts(&turning.iter().map(|(_, counter)| *counter));
        for ((id, _), sum) in turning.into_iter().zip(sums) {
            self.members[id.index()].turn(&mut self.parts, sum, &is_paused, |part| {
                if let Some(attached) = &self.attachments[part.attachment()] {
                    let frozen = attached.frozen.get();
                    attached.frozen.set(if part.is_frozen { frozen + 1 } else { frozen - 1 });
                }
            });
        }
    }

    /// What each of an attachment's probes has counted.
    pub(super) fn counted(&self, attachment: usize) -> Vec<(ProbeId, u64)> {
        let Some(attached) = self.attached(attachment).filter(|attached| attached.wants != Wants::Hits)
        else {
            return Vec::new();
        };
        if let Some(growth) = &attached.growth {
            let ids = growth.ids();
            let counted = self.counted_of(attachment, &ids);
            return ids.into_iter().zip(counted).collect();
        }
        attached.ids.iter().copied().zip(self.counted_of(attachment, &attached.ids)).collect()
    }

    /// What each of these probes has counted for an attachment; 0 for those that are not its own.
    pub(super) fn counted_of(&self, attachment: usize, ids: &[ProbeId]) -> Vec<u64> {
        let part = |id: &ProbeId| self.members(*id)?.part(&self.parts, attachment);
        let parts: Vec<Option<&Part>> = ids.iter().map(part).collect();
        let counters = ids.iter().zip(&parts).map(|(id, part)| {
            part.filter(|part| part.action.counts() && !part.is_frozen).and_then(|_| self.tallies.of(*id))
        });
        let sums = counts(&counters);
        let told = |(part, sum): (&Option<_>, _)| part.map_or(0, |part: &Part| part.counted(sum));
        let mut counted: Vec<u64> = parts.iter().zip(sums).map(told).collect();
        if let Some(growth) = self.attached(attachment).and_then(|attached| attached.growth.as_ref()) {
            growth.add_own(ids, &mut counted);
            return counted;
        }
        if parts.iter().flatten().any(|part| part.is_mixed) {
            let counters = parts.iter().map(|part| part.filter(|part| part.is_mixed)?.action.counter());
            counted.iter_mut().zip(counts(&counters)).for_each(|(counted, own)| *counted += own);
        }
        counted
    }

    /// How many of an attachment's hits were suppressed.
    pub(super) fn suppressed(&self, attachment: usize) -> u64 {
        let attached = self.attached(attachment).filter(|attached| attached.wants != Wants::Counts);
        let counter = attached.map(|attached| TallyAt::new(attached.tallies.start));
        counts(&std::iter::once(counter)).iter().sum()
    }
}
