//! Opens text without the heap, and without waiting. If that is impossible, a later try has to do
//! it.

use std::ops::Range;

use super::runs::Epoch;
use super::shared::{Pages, lock, try_lock};
use crate::os::maps::{Mapping, Rights, holding_without_heap};
use crate::os::text::{is_writable, page_size, pages, protect};

/// The greatest number of mappings that are held open for first hits.
const MAX_HELD: usize = 64;
/// The room that the lists need, so that changing them takes no memory.
const SPARE_ENTRIES: usize = 8;

/// Why an instruction was not replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotNow {
    /// The replacement would have had to wait, or to set something up first.
    Later,
    /// The instruction is not as expected.
    Changed,
    /// The page can't be written, with the system's error number.
    Protected(i32),
}

/// Mappings that are held open for first hits.
#[derive(Debug)]
pub(super) struct HeldMappings(Vec<(Range<usize>, Epoch)>);

impl HeldMappings {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Forgets mappings of which any page is no longer open, and seals the rest of them.
    pub(super) fn give_up(pages: &mut Pages) {
        let mut gone = Vec::new();
        let runs = &pages.runs;
        pages.held.0.retain(|(held, epoch)| {
            let is_held = runs.are_held(held);
            if !is_held {
                gone.push((held.clone(), *epoch));
            }
            is_held
        });
        for (rest, epoch) in gone {
            // `unrestored_bytes` counts pages that could not be restored.
            let _ = pages.close(&rest, epoch);
        }
    }
}

/// Writes bytes of loaded text, as [`WritableRuns::with_open`](super::WritableRuns::with_open)
/// does, or not at all. With `hold`, all of their mapping stays writable until [`close_held`]. The
/// caller has blocked signals, since a handler that forks would wait for the mutex.
pub(crate) fn write_now(bytes: &Range<usize>, hold: bool, write: impl FnOnce()) -> Result<(), NotNow> {
    let mut locked = try_lock().ok_or(NotNow::Later)?;
    locked.write_now(&pages(bytes.clone()), hold, write)
}

/// Makes room for the mappings that `write_now` remembers.
pub fn make_room() {
    let mut locked = lock();
    locked.runs.make_room(SPARE_ENTRIES);
    locked.known.make_room(SPARE_ENTRIES);
    let held = &mut locked.held.0;
    held.reserve(MAX_HELD.saturating_sub(held.len()));
}

/// Seals the mappings that were held open for first hits.
pub fn close_held() {
    let mut locked = lock();
    for (pages, epoch) in std::mem::take(&mut locked.held.0) {
        // `unrestored_bytes` counts pages that could not be restored.
        let _ = locked.close(&pages, epoch);
    }
}

impl Pages {
    fn write_now(&mut self, pages: &Range<usize>, hold: bool, write: impl FnOnce()) -> Result<(), NotNow> {
        // Neither the map nor the known mappings include an object that was loaded since. So ask
        // about the pages themselves.
        let answers = || pages.clone().step_by(page_size()).map(is_writable);
        if answers().all(|answer| answer == Some(true)) {
            // The page is open, or was always writable.
            write();
            return Ok(());
        }
        let is_clear = self.runs.is_clear(pages);
        let is_anew = self.runs.are_held(pages) && answers().all(|answer| answer == Some(false));
        if !is_clear && !is_anew {
            // The pages are about to change.
            return Err(NotNow::Later);
        }
        let can_hold = hold && is_clear && self.held.0.len() < self.held.0.capacity();
        let Mapping { range, rights } = self.mapping_now(pages, is_clear && !can_hold)?;
        if rights.write {
            write();
            return Ok(());
        }
        if can_hold && self.runs.is_clear(&range) && self.runs.has_room(SPARE_ENTRIES) {
            open(&range, rights)?;
            let epoch = self.runs.open(&range, &[(range.clone(), rights)]);
            self.held.0.push((range, epoch));
            write();
            return Ok(());
        }
        open(pages, rights)?;
        write();
        // Only `unrestored_bytes` can report this. If the map has no room for it, the next batch
        // finds out.
        if protect(pages, rights).is_err() && is_clear && self.runs.has_room(SPARE_ENTRIES) {
            self.runs.insert(pages.clone(), rights);
        }
        Ok(())
    }

    /// Returns the mapping that holds all of these pages. With `may_know`, a known mapping is
    /// enough; otherwise the kernel is asked.
    fn mapping_now(&mut self, pages: &Range<usize>, may_know: bool) -> Result<Mapping, NotNow> {
        if let Some((range, rights)) = self.known.whole(pages).filter(|_| may_know) {
            return Ok(Mapping { range, rights });
        }
        let Some(mapping) = holding_without_heap(pages.start) else {
            // The table can't be read. Sealed text has the rights that linkers give it. An
            // operation finds out about anything else.
            let is_sealed = pages.clone().step_by(page_size()).all(|page| is_writable(page) == Some(false));
            let sealed = Mapping { range: pages.clone(), rights: Rights::TEXT };
            return if is_sealed { Ok(sealed) } else { Err(NotNow::Later) };
        };
        if pages.end > mapping.range.end {
            // The pages lie in two mappings, whose rights may differ.
            return Err(NotNow::Later);
        }
        self.known.learn_within(&mapping);
        Ok(mapping)
    }
}

fn open(pages: &Range<usize>, rights: Rights) -> Result<(), NotNow> {
    protect(pages, rights.and_write())
        .map_err(|error| NotNow::Protected(error.raw_os_error().unwrap_or_default()))
}
