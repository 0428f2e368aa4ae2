//! The effects of one function that an executor has seen. Generated code writes the tally; any
//! thread reads it.

use std::sync::atomic::{AtomicU64, Ordering};

/// The register that shows an instruction's effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Register {
    Rax,
    Rcx,
}

/// Values that a register may have.
const VALUES: usize = 3;

/// One register's counts.
#[derive(Default)]
#[repr(C)]
struct RegisterCounts {
    seen: [AtomicU64; VALUES],
    wrong: AtomicU64,
    value: AtomicU64,
}

/// One executor's counts for one function.
#[derive(Default)]
#[repr(C)]
pub struct Tally {
    registers: [RegisterCounts; 2],
}

impl Register {
    /// Returns the offset in bytes of the count of a value.
    pub fn seen(self, number: usize) -> u8 {
        assert!(number < VALUES);
        let words = self as usize * (VALUES + 2) + number;
        u8::try_from(8 * words).expect("a short distance")
    }

    /// Returns the offset of the count of all other values.
    pub fn wrong(self) -> u8 {
        self.seen(VALUES - 1) + 8
    }

    /// Returns the offset of the last one of the other values.
    pub fn value(self) -> u8 {
        self.seen(VALUES - 1) + 16
    }
}

impl Tally {
    /// Returns how often each of the values was seen.
    pub fn seen(&self, register: Register) -> [u64; VALUES] {
        self.registers[register as usize].seen.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Returns how often the register had another value, and the last of these.
    pub fn wrong(&self, register: Register) -> (u64, u64) {
        let counts = &self.registers[register as usize];
        (counts.wrong.load(Ordering::Relaxed), counts.value.load(Ordering::Relaxed))
    }
}
