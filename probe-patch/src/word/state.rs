//! The state of an entry: one word, changed by one atomic operation.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Nothing is under way.
    Idle,
    /// One thread is about to write `int3`.
    Locking,
    /// `int3` is written. Not every thread may see it yet.
    FirstWait,
    /// The other bytes are written. Not every thread may see them yet.
    SecondWait,
}

/// Tells one patch of an entry from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticket(pub(super) u64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Progress {
    /// A wait has not passed yet, or a thread has not left yet.
    Waiting,
    /// A step was taken.
    Stepped,
    /// The patch is over. `is_whole` is false if foreign code wrote over the `int3`.
    Over { is_whole: bool },
}

/// The word of the state: phase, whether it failed, how many threads have joined, generation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct State(pub(super) u64);

impl State {
    pub(super) const FAILED: u64 = 1 << 2;
    pub(super) const JOINED: u64 = 1 << 8;
    pub(super) const ALL_JOINED: u64 = 0xffff << 8;
    pub(super) const GENERATION: u64 = 1 << 24;

    pub(super) fn phase(self) -> Phase {
        match self.0 & 3 {
            0 => Phase::Idle,
            1 => Phase::Locking,
            2 => Phase::FirstWait,
            _ => Phase::SecondWait,
        }
    }

    pub(super) fn with_phase(self, phase: Phase) -> Self {
        Self(self.0 & !3 | phase as u64)
    }

    pub(super) fn is_joined(self) -> bool {
        self.0 & Self::ALL_JOINED != 0
    }

    pub(super) fn ticket(self) -> Ticket {
        Ticket(self.0 / Self::GENERATION)
    }

    /// Returns the state of the next patch, claimed.
    pub(super) fn next(self) -> Self {
        Self((self.0 & !Self::FAILED).wrapping_add(Self::GENERATION)).with_phase(Phase::Locking)
    }

    pub(super) fn progress(self, ticket: Ticket) -> Progress {
        if self.ticket() != ticket {
            // A later patch has begun. Owners ask before that, or do not need the answer.
            Progress::Over { is_whole: true }
        } else if self.phase() == Phase::Idle && !self.is_joined() {
            Progress::Over { is_whole: self.0 & Self::FAILED == 0 }
        } else {
            Progress::Waiting
        }
    }
}
