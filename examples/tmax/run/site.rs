//! The instruction that is toggled, its two states, and the two ways of writing it.

// Safety: relies on a function in memory of its own that is always writable and executable, and on
// this module being the only writer of the five bytes at the site. The program measures executors
// that run into a mix of two instructions. A mix gives them a wrong value, or leads them into
// memory that can't be executed, which ends the process.
#![expect(unsafe_code, reason = "see above")]

use std::hint::spin_loop;
use std::sync::atomic::Ordering;

use probe_benches::baseline::membarrier;
use probe_benches::code::{LEN, MOV, Patched, Place, SUB, call, mov, sub};
use probe_benches::ticks::{spin_until, ticks};
use probe_runtime::patch::word::{Ticks, Wait, WordOptions};
use probe_runtime::patch::{Bytes, PatchError, TextPolicy};

use super::trial::{Across, Delay, Protocol, Trial};

/// The instruction, and its two states with the values that executors see: the call, and its
/// replacement.
#[derive(Clone, Copy)]
pub struct Site {
    /// The code that executors call.
    pub code: Patched,
    states: [[u8; LEN]; 2],
    /// The value that each state produces.
    pub values: [u32; 2],
    protocol: Protocol,
    delay: Delay,
    options: WordOptions,
}

impl Site {
    /// Makes the code for a run.
    pub fn new(trial: &Trial) -> Self {
        let place = match trial.across {
            Across::Nothing => Place::Aligned,
            Across::Line => Place::AcrossLines(trial.split),
            Across::Page => Place::AcrossPages(trial.split),
        };
        let code = Patched::new(place, |_| mov(MOV));
        // A mix of CALL and MOV crashes, or gives a wrong value. Bare mixes are counted, so none
        // may crash.
        let (on, value) = match trial.protocol {
            Protocol::Int3 => (call(code.site(), code.one()), 1),
            Protocol::Bare => (sub(SUB), SUB.wrapping_neg()),
        };
        let wait = match trial.delay {
            Delay::Ticks(ticks) => Wait::Tmax(Ticks(ticks)),
            Delay::Barrier => Wait::Barrier,
        };
        Self {
            code,
            states: [mov(MOV), on],
            values: [MOV, value],
            protocol: trial.protocol,
            delay: trial.delay,
            options: WordOptions::new().wait(wait).text_policy(TextPolicy::Open),
        }
    }

    /// Writes the instruction of a state, and returns a time. Bare, that is the time right before
    /// the last store. Of a patch, which a thread in the trap may complete, it is the time right
    /// after it.
    pub fn write(&self, is_on: bool) -> Result<u64, PatchError> {
        let state = self.states[usize::from(is_on)];
        match self.protocol {
            Protocol::Bare => Ok(self.write_bare(state)),
            Protocol::Int3 => self.patch(state).map(|()| ticks()),
        }
    }

    fn patch(&self, state: [u8; LEN]) -> Result<(), PatchError> {
        loop {
            // SAFETY: one instruction of five bytes, in text that is always writable.
            match unsafe { self.options.patch(self.code.site(), Bytes::from(state)) } {
                // A thread that ran into the trap has not left it yet.
                Err(PatchError::Busy { .. }) => spin_loop(),
                done => return done,
            }
        }
    }

    /// Stores each of the two aligned words once, the one behind the boundary first.
    fn write_bare(&self, state: [u8; LEN]) -> u64 {
        let words = self.code.words();
        let mut bytes = [0; 16];
        for (half, word) in bytes.chunks_exact_mut(8).zip(words) {
            half.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
        }
        let start = self.code.site() % 8;
        bytes[start..start + LEN].copy_from_slice(&state);
        let half = |at| u64::from_le_bytes(std::array::from_fn(|byte| bytes[at + byte]));
        if start + LEN > 8 {
            words[1].store(half(8), Ordering::SeqCst);
            match self.delay {
                Delay::Ticks(0) => {}
                Delay::Ticks(wait) => spin_until(ticks() + wait),
                Delay::Barrier => membarrier(),
            }
        }
        let last = ticks();
        words[0].store(half(0), Ordering::SeqCst);
        last
    }
}
