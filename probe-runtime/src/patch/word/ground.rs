//! The real text and the real waits, for the state machine.

// Safety: relies on who started the patch, who keeps its text mapped and writable, and its way through the kernel alive,
// until it is over and everybody who had joined it has left.
#![expect(unsafe_code, reason = "see above")]

use std::io;

use super::entry::{Ground, How, Last, NotStarted};
use super::plan::{INT3, Plan, Write};
use super::wait::{Ticks, Wait};
use crate::os::mem::Alias;
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
            // The kernel writes through other addresses than threads execute: only a serialising instruction makes
            // them see that (SDM vol. 3, 12.6, "Self-modifying code").
            Self::Barrier | Self::Alias(_) => Wait::Barrier,
            Self::Tmax(ticks) => Wait::Tmax(Ticks(ticks)),
        }
    }

    fn alias(self) -> Option<&'static Alias> {
        let Self::Alias(addr) = self else { return None };
        // SAFETY: who started the patch keeps it until all who joined have left; no caller keeps the reference longer.
        unsafe { (addr as *const Alias).as_ref() }
    }
}

/// The text of this process.
pub(super) struct Text;

impl Ground for Text {
    fn lock(&self, how: How, plan: &Plan) -> Result<(), NotStarted> {
        if plan.second_word().is_some_and(|second| !is_as_expected(second)) {
            return Err(NotStarted::Found);
        }
        let Some(alias) = how.alias() else {
            // SAFETY: a word of the text that the starter keeps writable.
            return unsafe { write(plan.lock()) }.map_err(|_| NotStarted::Found);
        };
        // Not at once: what somebody else writes in between is lost.
        if !is_as_expected(plan.lock()) {
            return Err(NotStarted::Found);
        }
        through(alias, plan.addr(), &[INT3])
            .map_err(|error| NotStarted::Unwritable(error.raw_os_error().unwrap_or_default()))
    }

    fn unlock(&self, how: How, plan: &Plan) {
        if !is_as_expected(plan.unlock()) {
            return;
        }
        // Where there is no `int3` any more, there is nothing to take away.
        if let Some(alias) = how.alias() {
            let _ = through(alias, plan.addr(), &plan.expected()[..1]);
        } else {
            // SAFETY: a word of the text that the starter keeps writable.
            let _ = unsafe { write(plan.unlock()) };
        }
    }

    fn write_rest(&self, how: How, plan: &Plan) -> bool {
        if let Some(alias) = how.alias() {
            return through(alias, plan.addr() + 1, &plan.value()[1..]).is_ok();
        }
        for write in plan.rest() {
            // SAFETY: as above; the first byte is `int3`, so nobody executes these bytes.
            unsafe { overwrite(write) };
        }
        true
    }

    fn write_first(&self, how: How, plan: &Plan) -> Last {
        let first = plan.first();
        if let Some(alias) = how.alias() {
            if is_as_expected(first) && through(alias, plan.addr(), &plan.value()[..1]).is_err() {
                return Last::Failed;
            }
        } else {
            // SAFETY: as above. It fails where somebody else who had joined was faster.
            let _ = unsafe { write(first) };
        }
        if found(first).0 & first.mask == first.to { Last::Written } else { Last::Gone }
    }

    fn stamp(&self, how: How) -> u64 {
        how.wait().stamp()
    }

    fn has_passed(&self, how: How, stamp: u64) -> bool {
        how.wait().has_passed(stamp)
    }
}

fn found(write: Write) -> TextWord {
    // SAFETY: a word of the text that the starter keeps mapped.
    unsafe { read(write.word) }
}

fn is_as_expected(write: Write) -> bool {
    found(write).0 & write.mask == write.from
}

/// Writes through the kernel; in the child of a fork, to the child's memory.
fn through(alias: &Alias, addr: usize, bytes: &[u8]) -> io::Result<()> {
    match alias.write(addr, bytes) {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Alias::open()?.write(addr, bytes),
        result => result,
    }
}
