//! The real text and the real waits, for the state machine.

// Safety: relies on the starter of a patch to keep its text mapped and writable, and its way
// through the kernel alive, until the patch is over and every thread that had joined has left.
#![expect(unsafe_code, reason = "see above")]

use std::io;

use super::plan::Plan;
use super::state_machine::{Backend, LastStep, Method, NotStarted};
use super::wait::{Ticks, Wait};
use crate::arch::{BREAKPOINT, TextWord};
use crate::engine::poke::{Write, overwrite, read, write, write_beside};
use crate::os::cancel::Uncancellable;
use crate::os::mem::Alias;

impl Method {
    pub(crate) fn new(wait: Wait) -> Self {
        match wait {
            Wait::Barrier => Self::Barrier,
            Wait::Tmax(Ticks(ticks)) => Self::Tmax(ticks),
        }
    }

    fn wait(self) -> Wait {
        match self {
            // The kernel writes through other addresses than threads execute. Only a serialising
            // instruction makes threads see that (SDM vol. 3, 12.6, "Self-modifying code").
            Self::Barrier | Self::Alias(_) => Wait::Barrier,
            Self::Tmax(ticks) => Wait::Tmax(Ticks(ticks)),
        }
    }

    fn alias(self) -> Option<&'static Alias> {
        let Self::Alias(addr) = self else { return None };
        // SAFETY: the starter of the patch keeps the alias until all threads that joined have left,
        // and no caller keeps the reference longer.
        unsafe { (addr as *const Alias).as_ref() }
    }
}

/// The text of this process.
pub(crate) struct Text;

impl Backend for Text {
    fn lock(&self, method: Method, plan: &Plan) -> Result<(), NotStarted> {
        let is_rest_as_expected = || plan.second_word().is_none_or(is_as_expected);
        if !is_rest_as_expected() {
            return Err(NotStarted::Found);
        }
        if let Some(alias) = method.alias() {
            // Comparing and writing are two steps here: a foreign write in between is lost.
            if !is_as_expected(plan.lock()) {
                return Err(NotStarted::Found);
            }
            through(alias, plan.addr(), &BREAKPOINT)
                .map_err(|error| NotStarted::Unwritable(error.raw_os_error().unwrap_or_default()))?;
        } else {
            // SAFETY: a word of the text that the starter keeps writable.
            unsafe { write(plan.lock()) }.map_err(|_| NotStarted::Found)?;
        }
        // Another patch of the instruction may have come and gone before the lock.
        if !is_rest_as_expected() && self.unlock(method, plan) {
            return Err(NotStarted::Found);
        }
        Ok(())
    }

    fn unlock(&self, method: Method, plan: &Plan) -> bool {
        self.take_back(method, plan) || !is_as_expected(plan.unlock())
    }

    fn take_back(&self, method: Method, plan: &Plan) -> bool {
        if let Some(alias) = method.alias() {
            is_as_expected(plan.unlock())
                && through(alias, plan.addr(), &plan.expected()[..BREAKPOINT.len()]).is_ok()
        } else {
            // SAFETY: a word of the text that the starter keeps writable.
            unsafe { write(plan.unlock()) }.is_ok()
        }
    }

    fn write_rest(&self, method: Method, plan: &Plan) -> bool {
        let first = plan.first();
        if let Some(alias) = method.alias() {
            // If the breakpoint is gone, another thread that had joined has written the whole
            // instruction.
            return !is_as_expected(first)
                || through(alias, plan.addr() + BREAKPOINT.len(), &plan.value()[BREAKPOINT.len()..]).is_ok();
        }
        for write in plan.rest() {
            if write.word == first.word {
                // SAFETY: a word of the text that the starter keeps writable. No thread executes
                // these bytes.
                unsafe { write_beside(first, write) };
            } else if is_as_expected(first) {
                // SAFETY: as above.
                unsafe { overwrite(write) };
            }
        }
        true
    }

    fn write_first(&self, method: Method, plan: &Plan) -> LastStep {
        let first = plan.first();
        let is_written = match method.alias() {
            Some(alias) => {
                is_as_expected(first)
                    && through(alias, plan.addr(), &plan.value()[..BREAKPOINT.len()]).is_ok()
            }
            // SAFETY: as above. The write fails if another joined thread was faster.
            None => unsafe { write(first) }.is_ok(),
        };
        let now = found(first).0 & first.mask;
        match (is_written, now == first.from) {
            (true, _) => LastStep::Written,
            (false, true) => LastStep::Failed,
            (false, false) if now == first.to => LastStep::Written,
            (false, false) => LastStep::Gone,
        }
    }

    fn stamp(&self, method: Method) -> u64 {
        method.wait().stamp()
    }

    fn has_passed(&self, method: Method, stamp: u64) -> bool {
        method.wait().has_passed(stamp)
    }
}

fn found(write: Write) -> TextWord {
    // SAFETY: a word of the text that the starter keeps mapped.
    unsafe { read(write.word) }
}

fn is_as_expected(write: Write) -> bool {
    found(write).0 & write.mask == write.from
}

/// Writes through the kernel. If that fails, opens another alias and tries again: in the child of a
/// fork the old one leads to the parent, and a program may close descriptors that it does not know.
fn through(alias: &Alias, addr: usize, bytes: &[u8]) -> io::Result<()> {
    alias.write(addr, bytes).or_else(|_| {
        let _uncancellable = Uncancellable::new();
        Alias::open()?.write(addr, bytes)
    })
}
