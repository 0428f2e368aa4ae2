//! The functions of an attachment: those that it began with, and those that have joined.

#[cfg(any(feature = "latency", feature = "profiler"))]
use super::functions::in_order;
use super::functions::{Act, CallEffect, Function, LeftOut, Selected};
use crate::engine::by_probe::{Appended, Numbers, numbers};
use crate::engine::control::{Held, ProbeSet};
use crate::engine::error::Error;
use crate::engine::registry::ProbeId;

/// The functions, and the effects of their probes.
pub(crate) struct Known {
    pub(crate) functions: Appended<Function>,
    /// By probe, see [`PackedAct`].
    acts: Numbers,
    incomplete: Held<Incomplete>,
}

/// The functions of which some probes are missing so far.
struct Incomplete {
    probes: Vec<ProbeId>,
    left_out: Vec<LeftOut>,
}

/// Bits of an effect's number.
const BITS: u32 = 3;

/// An act as an integer, which is 0 if the act is nothing. Hits compare it as it is: a `match` that
/// makes it an effect again becomes a jump through a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedAct(u32);

impl PackedAct {
    fn new(act: Act) -> Self {
        Self(act.function << BITS | act.step as u32)
    }

    #[inline(always)]
    pub(crate) fn function(self) -> u32 {
        self.0 >> BITS
    }

    #[inline(always)]
    pub(crate) fn is(self, step: CallEffect) -> bool {
        self.0 & ((1 << BITS) - 1) == step as u32
    }

    /// Returns whether it is one of these.
    #[inline(always)]
    #[cfg(feature = "profiler")]
    pub(crate) fn is_among(self, steps: &[CallEffect]) -> bool {
        let set = steps.iter().fold(0_u32, |set, step| set | 1 << *step as u32);
        set >> (self.0 & ((1 << BITS) - 1)) & 1 != 0
    }

    pub(super) fn step(self) -> CallEffect {
        match self.0 & ((1 << BITS) - 1) {
            1 => CallEffect::Begin,
            2 => CallEffect::End,
            3 => CallEffect::Enter,
            4 => CallEffect::Resume,
            5 => CallEffect::Suspend,
            6 => CallEffect::Finish,
            7 => CallEffect::Cancel,
            _ => CallEffect::Nothing,
        }
    }
}

impl Known {
    pub(crate) fn new(probes: &ProbeSet) -> Self {
        Self::of(Selected::of(probes), probes.room().div_ceil(2), numbers(probes))
    }

    /// Creates those of a single function, with the probes 0 and 1 as its entry and exit.
    #[cfg(feature = "profiler")]
    pub(crate) fn rehearsed() -> Self {
        Self::of(Selected::rehearsed(), 0, 2)
    }

    fn of(selected: Selected, room: usize, numbers: usize) -> Self {
        let Selected { functions, left_out, incomplete, acts } = selected;
        let known = Self {
            functions: Appended::new(functions, room),
            acts: Numbers::new(numbers),
            incomplete: Held::new(Incomplete { probes: incomplete, left_out }),
        };
        known.set(&acts, 0);
        known
    }

    /// Returns the number of functions that there is room for.
    pub(crate) fn room(&self) -> usize {
        self.functions.len() + self.functions.room()
    }

    #[inline(always)]
    pub(crate) fn act(&self, id: ProbeId) -> PackedAct {
        PackedAct(self.acts.get(id))
    }

    /// Returns the numbers of the functions that have any of these probes, in their order.
    #[cfg(any(feature = "latency", feature = "profiler"))]
    pub(crate) fn functions_with(&self, probes: &[ProbeId]) -> Vec<usize> {
        let acts = probes.iter().map(|probe| self.act(*probe));
        in_order(acts.map(|act| (act.function(), act.step())))
    }

    /// Adds the functions of which these are the last probes. Returns all of their probes.
    pub(crate) fn join(&self, probes: &ProbeSet) -> Result<ProbeSet, Error> {
        let waiting = self.incomplete.get();
        let is_new = |id: &ProbeId| self.acts.get(*id) == 0;
        let set = probes.only(&is_new).with(&waiting.probes);
        let joined = Selected::of(&set);
        let first = u32::try_from(self.functions.len()).unwrap_or(u32::MAX);
        let has_numbers = set.ids().iter().all(|id| self.acts.has(*id));
        if !has_numbers || joined.functions.len() > self.functions.room() {
            let problem = format!("there is room for {} functions; attach anew", self.room());
            return Err(Error::Consumer(problem.into()));
        }
        self.functions.add(joined.functions);
        self.set(&joined.acts, first);
        self.incomplete.set(Incomplete { probes: joined.incomplete, left_out: joined.left_out });
        Ok(set.only(&|id| self.acts.get(*id) != 0))
    }

    /// Returns the functions of which some probes are missing.
    pub(crate) fn left_out(&self) -> Vec<LeftOut> {
        self.incomplete.get().left_out.clone()
    }

    fn set(&self, acts: &[Act], first: u32) {
        let marks_calls = |(_, act): &(usize, &Act)| act.step != CallEffect::Nothing;
        for (at, act) in acts.iter().enumerate().filter(marks_calls) {
            self.acts.set(ProbeId::new(at), PackedAct::new(Act { function: first + act.function, ..*act }).0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acts_are_packed() {
        for number in 0..8 {
            let act = PackedAct(5 << BITS | number);
            let step = act.step();
            assert_eq!((act.function(), step as u32, act.is(step)), (5, number, true));
            assert_eq!(PackedAct::new(Act { function: 5, step }).0, act.0);
        }
        assert!(PackedAct::new(Act::NOTHING).0 == 0 && PackedAct(0).is(CallEffect::Nothing));
    }
}
