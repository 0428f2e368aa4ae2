//! The real text and the real waits, for the state machine.

// Safety: relies on who started the patch, who keeps its text mapped and writable until it is over and everybody who
// had joined it has left.
#![expect(unsafe_code, reason = "see above")]

use super::entry::{Ground, How};
use super::plan::Plan;
use super::wait::{Ticks, Wait};
use crate::patch::TextWord;
use crate::patch::poke::{overwrite, read, write};

impl How {
    pub(super) fn new(wait: Wait) -> Self {
        match wait {
            Wait::Barrier => Self::Barrier,
            Wait::Tmax(Ticks(ticks)) => Self::Tmax(ticks),
        }
    }

    fn wait(self) -> Wait {
        match self {
            Self::Barrier => Wait::Barrier,
            Self::Tmax(ticks) => Wait::Tmax(Ticks(ticks)),
        }
    }
}

/// The text of this process.
pub(super) struct Text;

impl Ground for Text {
    fn lock(&self, _how: How, plan: &Plan) -> Result<(), TextWord> {
        if let Some(second) = plan.second_word() {
            // SAFETY: a word of the text that the starter keeps mapped.
            let found = unsafe { read(second.word) };
            if found.0 & second.mask != second.from {
                return Err(found);
            }
        }
        // SAFETY: a word of the text that the starter keeps writable.
        unsafe { write(plan.lock()) }
    }

    fn unlock(&self, _how: How, plan: &Plan) {
        // SAFETY: as above. Where there is no `int3`, there is nothing to take away.
        let _ = unsafe { write(plan.unlock()) };
    }

    fn write_rest(&self, _how: How, plan: &Plan) {
        for write in plan.rest() {
            // SAFETY: as above; the first byte is `int3`, so nobody executes these bytes.
            unsafe { overwrite(write) };
        }
    }

    fn write_first(&self, _how: How, plan: &Plan) -> bool {
        let first = plan.first();
        // SAFETY: as above.
        match unsafe { write(first) } {
            Ok(()) => true,
            // Somebody else who had joined was faster.
            Err(found) => found.0 & first.mask == first.to,
        }
    }

    fn stamp(&self, how: How) -> u64 {
        how.wait().stamp()
    }

    fn has_passed(&self, how: How, stamp: u64) -> bool {
        how.wait().has_passed(stamp)
    }
}
