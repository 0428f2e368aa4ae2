//! Groups the probes of a selection by function, and decides the effect of each probe's hits; and
//! the functions of an attachment: those that it began with, and those that have joined.

use std::cmp::Ordering;

use crate::engine::by_probe::{Appended, Numbers};
use crate::engine::control::{ForkSafe, ProbeSet};
use crate::engine::dispatch::FUTURE;
use crate::engine::error::Error;
use crate::engine::registry::ProbeId;
use probe_core::abi::{Definition, Kind};
use probe_report::source::{Function, LeftOut};

/// The effect of a probe's hit on the calls of its function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallEffect {
    /// Nothing: the probe is a point, or its function is left out.
    Nothing = 0,
    /// A call begins.
    Begin,
    /// A call ends.
    End,
    /// A future's first poll begins.
    Enter,
    /// A later poll begins.
    Resume,
    /// A poll ends without a result.
    Suspend,
    /// A future's last poll ends.
    Finish,
    /// A future is dropped before its end.
    Cancel,
}

/// The effect of a hit, and the function of the call that it is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HitAction {
    pub(crate) function: u32,
    pub(crate) effect: CallEffect,
}

impl HitAction {
    pub(crate) const NOTHING: Self = Self { function: 0, effect: CallEffect::Nothing };
}

/// The functions of a selection and the effects of its probes.
#[derive(Default)]
pub(crate) struct SelectedFunctions {
    pub(crate) functions: Vec<Function>,
    pub(crate) left_out: Vec<LeftOut>,
    /// The probes of these.
    pub(crate) incomplete: Vec<ProbeId>,
    /// Indexed by the probes' numbers.
    pub(crate) actions: Vec<HitAction>,
}

impl SelectedFunctions {
    /// Returns a function that no consumer sees, with the probes 0 and 1 as its entry and exit.
    pub(crate) fn rehearsed() -> Self {
        let function = Function::new("".into(), "".into(), 0, false);
        let actions = [CallEffect::Begin, CallEffect::End].map(|effect| HitAction { function: 0, effect });
        Self { functions: vec![function], actions: actions.into(), ..Self::default() }
    }

    /// Groups the probes of a set. Definitions are read in place: a list of `ProbeInfo` would take
    /// ten times the memory.
    pub(crate) fn of(probes: &ProbeSet) -> Self {
        probes.with_definitions(|all| Self::listed(all.map(|(id, of)| SortedProbe::new(id, of))))
    }

    fn listed<'a>(probes: impl Iterator<Item = SortedProbe<'a>>) -> Self {
        let mut numbers = 0;
        let marks_calls = |probe: &SortedProbe<'_>| {
            numbers = numbers.max(probe.id.index() + 1);
            !matches!(probe.kind, Kind::Point | Kind::Replace)
        };
        let (all, points): (Vec<_>, Vec<_>) = probes.partition(marks_calls);
        // The probes of most functions are adjacent, so sorting their groups halves the work.
        let mut in_order: Vec<_> = all.chunk_by(|a, b| a.compare(b).is_eq()).collect();
        crate::engine::order::sort_by(&mut in_order, |a, b| a[0].compare(&b[0]));
        let mut selected = Self { actions: vec![HitAction::NOTHING; numbers], ..Self::default() };
        for groups in in_order.chunk_by(|a, b| a[0].compare(&b[0]).is_eq()) {
            let (first, probes) = (&groups[0][0], groups.iter().copied().flatten());
            let is_future = probes.clone().any(SortedProbe::is_of_future);
            let (path, line) = (first.path.into(), first.of.line());
            let last = selected.functions.last().map(Function::shared_file);
            let file = first.of.file();
            let file = last.filter(|last| ***last == *file).cloned().unwrap_or_else(|| file.into());
            let function = Function::new(path, file, line, is_future);
            let has = |kind: &Kind| probes.clone().any(|probe| probe.kind == *kind);
            let missing: Vec<_> = needed(is_future).iter().copied().filter(|kind| !has(kind)).collect();
            if missing.is_empty() {
                selected.add(function, probes);
            } else {
                selected.incomplete.extend(probes.map(|probe| probe.id));
                selected.left_out.push(LeftOut { function, missing });
            }
        }
        if all.is_empty() {
            selected.left_out.extend(points.iter().map(|point| {
                let (path, file) = (point.path.into(), point.of.file().into());
                LeftOut { function: Function::new(path, file, point.of.line(), false), missing: Vec::new() }
            }));
        }
        selected
    }

    fn add<'a>(&mut self, function: Function, probes: impl Iterator<Item = &'a SortedProbe<'a>>) {
        let number = u32::try_from(self.functions.len()).expect("fewer functions than probes");
        for probe in probes {
            let effect = effect(probe.kind, function.is_future());
            self.actions[probe.id.index()] = HitAction { function: number, effect };
        }
        self.functions.push(function);
    }
}

/// Returns the numbers of functions, each once and in their order, without those of probes that are
/// of no call.
pub(super) fn in_order(actions: impl Iterator<Item = (u32, CallEffect)>) -> Vec<usize> {
    let of_call = actions.filter(|(_, effect)| *effect != CallEffect::Nothing);
    let mut functions: Vec<_> = of_call.map(|(function, _)| function as usize).collect();
    functions.sort_unstable();
    functions.dedup();
    functions
}

/// A probe, as it is sorted: the probes of a function compare as equal.
struct SortedProbe<'a> {
    id: ProbeId,
    of: &'a Definition,
    path: &'a str,
    kind: Kind,
}

impl<'a> SortedProbe<'a> {
    fn new(id: ProbeId, of: &'a Definition) -> Self {
        Self { id, of, path: of.path(), kind: of.kind() }
    }

    fn compare(&self, other: &Self) -> Ordering {
        let file = || self.of.file().cmp(other.of.file());
        self.path.cmp(other.path).then_with(file).then_with(|| self.of.line().cmp(&other.of.line()))
    }

    /// Returns whether the probe belongs to a future. The exit of a future has the future's address
    /// as its first field; that of a plain function has the outcome.
    fn is_of_future(&self) -> bool {
        match self.kind {
            Kind::Suspend | Kind::Resume | Kind::Drop => true,
            Kind::Exit => self.of.fields().next() == Some(FUTURE),
            _ => false,
        }
    }
}

fn needed(is_future: bool) -> &'static [Kind] {
    if is_future {
        &[Kind::Entry, Kind::Exit, Kind::Suspend, Kind::Resume, Kind::Drop]
    } else {
        &[Kind::Entry, Kind::Exit]
    }
}

fn effect(kind: Kind, is_future: bool) -> CallEffect {
    match (kind, is_future) {
        (Kind::Entry, false) => CallEffect::Begin,
        (Kind::Exit, false) => CallEffect::End,
        (Kind::Entry, true) => CallEffect::Enter,
        (Kind::Exit, true) => CallEffect::Finish,
        (Kind::Suspend, _) => CallEffect::Suspend,
        (Kind::Resume, _) => CallEffect::Resume,
        (Kind::Drop, _) => CallEffect::Cancel,
        _ => CallEffect::Nothing,
    }
}

/// The functions, and the effects of their probes.
pub(crate) struct AttachedFunctions {
    pub(crate) functions: Appended<Function>,
    /// By probe, see [`PackedAction`].
    actions: Numbers,
    incomplete: ForkSafe<Incomplete>,
}

/// The functions of which some probes are missing so far.
struct Incomplete {
    probes: Vec<ProbeId>,
    left_out: Vec<LeftOut>,
}

/// Bits of an effect's number.
const BITS: u32 = 3;

/// An action as an integer, which is 0 if the action is nothing. Hits compare it as it is: a
/// `match` that makes it an effect again becomes a jump through a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackedAction(u32);

impl PackedAction {
    fn new(action: HitAction) -> Self {
        Self(action.function << BITS | action.effect as u32)
    }

    #[inline(always)]
    pub(crate) fn function(self) -> u32 {
        self.0 >> BITS
    }

    #[inline(always)]
    pub(crate) fn is(self, effect: CallEffect) -> bool {
        self.0 & ((1 << BITS) - 1) == effect as u32
    }

    /// Returns whether it is one of these.
    #[inline(always)]
    pub(crate) fn is_among(self, effects: &[CallEffect]) -> bool {
        let set = effects.iter().fold(0_u32, |set, effect| set | 1 << *effect as u32);
        set >> (self.0 & ((1 << BITS) - 1)) & 1 != 0
    }

    pub(super) fn effect(self) -> CallEffect {
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

impl AttachedFunctions {
    pub(crate) fn new(probes: &ProbeSet) -> Self {
        Self::of(SelectedFunctions::of(probes), probes.room().div_ceil(2), probes.numbers())
    }

    /// Creates those of a single function, with the probes 0 and 1 as its entry and exit.
    pub(crate) fn rehearsed() -> Self {
        Self::of(SelectedFunctions::rehearsed(), 0, 2)
    }

    fn of(selected: SelectedFunctions, room: usize, numbers: usize) -> Self {
        let SelectedFunctions { functions, left_out, incomplete, actions } = selected;
        let known = Self {
            functions: Appended::new(functions, room),
            actions: Numbers::new(numbers),
            incomplete: ForkSafe::new(Incomplete { probes: incomplete, left_out }),
        };
        known.set(&actions, 0);
        known
    }

    /// Returns the number of functions that there is room for.
    pub(crate) fn room(&self) -> usize {
        self.functions.len() + self.functions.room()
    }

    #[inline(always)]
    pub(crate) fn action(&self, id: ProbeId) -> PackedAction {
        PackedAction(self.actions.get(id))
    }

    /// Returns the numbers of the functions that have any of these probes, in their order.
    pub(crate) fn functions_with(&self, probes: &[ProbeId]) -> Vec<usize> {
        let actions = probes.iter().map(|probe| self.action(*probe));
        in_order(actions.map(|action| (action.function(), action.effect())))
    }

    /// Adds the functions of which these are the last probes. Returns all of their probes.
    pub(crate) fn join(&self, probes: &ProbeSet) -> Result<ProbeSet, Error> {
        let waiting = self.incomplete.get();
        let is_new = |id: &ProbeId| self.actions.get(*id) == 0;
        let set = probes.only(&is_new).with(&waiting.probes);
        let mut joined = SelectedFunctions::of(&set);
        let first = u32::try_from(self.functions.len()).unwrap_or(u32::MAX);
        let has_numbers = set.ids().iter().all(|id| self.actions.has(*id));
        if !has_numbers || joined.functions.len() > self.functions.room() {
            let problem = format!("there is room for {} functions; attach anew", self.room());
            return Err(Error::Consumer(problem.into()));
        }
        self.functions.add(joined.functions);
        if !self.functions.is_empty() {
            joined.left_out.retain(|it| !it.is_point());
        }
        self.set(&joined.actions, first);
        self.incomplete.set(Incomplete { probes: joined.incomplete, left_out: joined.left_out });
        Ok(set.only(&|id| self.actions.get(*id) != 0))
    }

    /// Returns the functions of which some probes are missing.
    pub(crate) fn left_out(&self) -> Vec<LeftOut> {
        self.incomplete.get().left_out.clone()
    }

    fn set(&self, actions: &[HitAction], first: u32) {
        let marks_calls = |(_, action): &(usize, &HitAction)| action.effect != CallEffect::Nothing;
        for (at, action) in actions.iter().enumerate().filter(marks_calls) {
            self.actions.set(
                ProbeId::new(at),
                PackedAction::new(HitAction { function: first + action.function, ..*action }).0,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acts_are_packed() {
        for number in 0..8 {
            let action = PackedAction(5 << BITS | number);
            let effect = action.effect();
            assert_eq!((action.function(), effect as u32, action.is(effect)), (5, number, true));
            assert_eq!(PackedAction::new(HitAction { function: 5, effect }).0, action.0);
        }
        assert!(PackedAction::new(HitAction::NOTHING).0 == 0 && PackedAction(0).is(CallEffect::Nothing));
    }
}
