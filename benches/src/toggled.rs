//! The instructions that are toggled while other threads execute them, one for each way of
//! toggling.

// Safety: relies on instructions in memory of their own that stays writable and that one thread
// patches, and on functions in the same memory that change only their result.
#![expect(unsafe_code, reason = "see above")]

use std::hint::spin_loop;

use probe_runtime::patch::call::CallOptions;
use probe_runtime::patch::word::{Ticks, Wait, WordOptions};
use probe_runtime::patch::{Bytes, PatchError, TextPolicy};

use crate::code::{self, NOP, Patched, Place};

/// The wait from the paper.
pub const TMAX: Ticks = Ticks(3_000);

/// An instruction with two states.
#[derive(Clone, Copy, Debug)]
pub struct Toggled {
    /// The name in figures.
    pub name: &'static str,
    /// The code that executors call.
    pub code: Patched,
    /// The result of a call while it is off, and while it is on.
    pub values: [u32; 2],
    how: Toggle,
}

#[derive(Clone, Copy, Debug)]
enum Toggle {
    /// Activates and deactivates the call: one write.
    Call,
    /// Activates with one target, then with the other.
    Retarget,
    /// Alternates CALL and NOP by the trap protocol.
    Word(WordOptions),
}

impl Toggled {
    fn new(name: &'static str, place: Place, how: Toggle) -> Self {
        let code = Patched::new(place, |code| code::call(code.site(), code.one()));
        let values = if matches!(how, Toggle::Retarget) { [2, 1] } else { [0, 1] };
        Self { name, code, values, how }
    }

    /// Returns a call site at the start of a cache line.
    pub fn call() -> Self {
        Self::new("call-aligned", Place::Aligned, Toggle::Call)
    }

    /// Returns all instructions: call sites, aligned and at each split of two cache lines; one that
    /// changes its target; whole instructions across two cache lines.
    pub fn all() -> Vec<Self> {
        let split = Place::AcrossLines;
        let word = |wait| Toggle::Word(WordOptions::new().text_policy(TextPolicy::Open).wait(wait));
        vec![
            Self::call(),
            Self::new("call-1-4", split(1), Toggle::Call),
            Self::new("call-2-3", split(2), Toggle::Call),
            Self::new("call-3-2", split(3), Toggle::Call),
            Self::new("call-4-1", split(4), Toggle::Call),
            Self::new("retarget-aligned", Place::Aligned, Toggle::Retarget),
            Self::new("word-tmax", split(2), word(Wait::Tmax(TMAX))),
            Self::new("word-barrier", split(2), word(Wait::Barrier)),
        ]
    }

    /// Switches the instruction.
    ///
    /// # Errors
    /// Errors of the patch engine.
    pub fn set(&self, is_on: bool) -> Result<(), PatchError> {
        let (site, one, two) = (self.code.site(), self.code.one(), self.code.two());
        let calls = CallOptions::new().text_policy(TextPolicy::Open);
        match (self.how, is_on) {
            // SAFETY: a call site in writable memory, and a target that only sets the result's
            // register.
            (Toggle::Call | Toggle::Retarget, true) => unsafe { calls.activate_call(site, one) }.map(drop),
            // SAFETY: as above.
            (Toggle::Call, false) => unsafe { calls.deactivate_call(site) }.map(drop),
            // SAFETY: as above.
            (Toggle::Retarget, false) => unsafe { calls.activate_call(site, two) }.map(drop),
            (Toggle::Word(options), true) => patch(options, site, code::call(site, one)),
            (Toggle::Word(options), false) => patch(options, site, NOP),
        }
    }

    /// Returns the share of calls that ran the active state, given the mean of the calls' results.
    pub fn share_on(&self, mean: f64) -> f64 {
        let [off, on] = self.values.map(f64::from);
        (mean - off) / (on - off)
    }
}

fn patch(options: WordOptions, site: usize, instruction: [u8; code::LEN]) -> Result<(), PatchError> {
    loop {
        // SAFETY: as above; five bytes of one instruction.
        match unsafe { options.patch(site, Bytes::from(instruction)) } {
            // An executor has not left the trap yet.
            Err(PatchError::Busy { .. }) => spin_loop(),
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_value() {
        for toggled in Toggled::all() {
            let function = toggled.code.function();
            for is_on in [true, false, false, true] {
                toggled.set(is_on).unwrap();
                assert_eq!(function(), toggled.values[usize::from(is_on)], "{toggled:?}");
            }
        }
    }

    #[test]
    fn a_share_is_between_the_values() {
        let retarget = Toggled::all()[5];
        let is_near = |found: f64, wanted: f64| (found - wanted).abs() < 1e-9;
        for (mean, wanted) in [(2.0, 0.0), (1.0, 1.0), (1.75, 0.25)] {
            assert!(is_near(retarget.share_on(mean), wanted));
        }
        for share in [0.0, 1.0, 0.25] {
            assert!(is_near(Toggled::call().share_on(share), share));
        }
    }
}
