//! Plans which hit of a call decides, and which one its consumer gets.
//!
//! | expressions need | of a call, the consumer gets | decided |
//! |---|---|---|
//! | fields of the entry only | its hits; a consumer of one hit gets the entry | at the entry |
//! | fields of the exit, or the time; or the exit is meant | the exit | at the exit |
//! | some of the entry, and others of the exit | the exit | each key, and each condition of those that `&&` joins, where it is known |
//!
//! Points, and functions of which the selection lacks a probe, have no calls: each hit decides.

use std::collections::BTreeMap;
use std::mem;

use super::mismatches::{Mismatches, Unfit};
use crate::engine::calls::{CallEffect, HitAction, SelectedFunctions};
use crate::engine::control::ProbeSet;
use crate::engine::error::Error;
use crate::engine::registry::{ProbeId, ProbeInfo};
use probe_core::abi::Type;
use probe_lang::ParseError;
use probe_lang::expression::{Mismatch, Node, Predicate, Program, Scope};

/// The part of a probe's hits in a decision.
#[derive(Debug)]
pub(in super::super) enum HitRole {
    /// Each hit decides by itself.
    Alone(Option<Program>),
    /// Each hit gets further.
    All,
    /// The hit begins a call, and decides for it.
    Begin { program: Option<Program>, passes_on: bool },
    /// The hit is as the entry of its call.
    Follow { passes_on: bool },
    /// The hit ends a call, and decides.
    End { program: Option<Program>, needs_entry: bool },
    /// The probe is left out.
    Never,
}

/// The expressions that the consumer evaluates at a probe's hit.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(in super::super) struct EvaluatedParts {
    /// A bit for each key.
    pub(in super::super) keys: u8,
    /// A bit for each key that is of the entry of the hit's call.
    pub(in super::super) keys_of_entry: u8,
    pub(in super::super) value: bool,
}

/// The hits of a call that a consumer gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum HitsOfCall {
    All,
    /// One, as early as the expressions are known.
    One,
    Exit,
}

/// Returns whether an expression fits hits.
pub(in super::super) type Fits<'a> = &'a dyn Fn(&Scope<'_>) -> Result<(), Mismatch>;

/// The expressions of a consumer.
pub(in super::super) struct Expressions<'a> {
    pub(in super::super) predicate: Option<&'a Predicate>,
    /// Whether the consumer evaluates the predicate, at the exits of calls: all hits get further.
    pub(in super::super) is_evaluated_later: bool,
    /// The text of `keys` and `value`.
    pub(in super::super) text: &'a str,
    /// By the number of the key.
    pub(in super::super) keys: &'a dyn Fn(usize, &Scope<'_>) -> Result<(), Mismatch>,
    pub(in super::super) key_count: usize,
    pub(in super::super) value: Fits<'a>,
    /// Whether `keys` or `value` asks for the time of a call.
    pub(in super::super) asks_latency: bool,
    /// Whether one of them asks for the time since attaching.
    pub(in super::super) asks_time: bool,
    /// The hits of a call that the consumer gets.
    pub(in super::super) hits: HitsOfCall,
    /// Probes that the predicate is not about: all their hits get further.
    pub(in super::super) others: &'a [ProbeId],
    /// Why the consumer can't do with exits alone.
    pub(in super::super) needs_entries: Option<&'a str>,
}

pub(in super::super) struct Plan {
    /// The probes that are not left out.
    roles: BTreeMap<ProbeId, (HitRole, EvaluatedParts)>,
    pub(in super::super) infos: Vec<ProbeInfo>,
    pub(super) left_out: Mismatches,
    /// The same of functions that lack a probe.
    pub(super) left_out_so_far: Mismatches,
    /// The probes of these functions.
    pub(super) incomplete: Vec<ProbeId>,
    pub(super) is_paired: bool,
    pub(super) needs_latency: bool,
    needs_time: bool,
    /// Terms of the predicate that count hits.
    pub(super) samples: usize,
}

type Fields = Vec<(String, Option<Type>)>;

/// Returns the fields that expressions may name.
pub(in super::super) fn fields(info: &ProbeInfo) -> Fields {
    info.fields().iter().map(|field| (field.name().to_owned(), field.ty())).collect()
}

impl Plan {
    pub(in super::super) fn of(probes: &ProbeSet, expressions: &Expressions<'_>) -> Result<Self, Error> {
        let mut selected = SelectedFunctions::of(probes);
        // Their functions may become whole, if others can join.
        selected.incomplete.retain(|_| probes.room() != 0);
        selected.incomplete.sort_unstable();
        let infos = probes.probes();
        let uses = |name| expressions.predicate.is_some_and(|predicate| predicate.node().uses(name));
        let mut plan = Self {
            roles: BTreeMap::new(),
            infos: Vec::new(),
            left_out: Mismatches::default(),
            left_out_so_far: Mismatches::default(),
            incomplete: selected.incomplete.clone(),
            is_paired: false,
            needs_latency: expressions.asks_latency || uses("latency"),
            needs_time: uses("time") || expressions.asks_time,
            samples: expressions.predicate.map_or(0, |predicate| predicate.node().samples()),
        };
        let mut calls: Vec<Vec<(&ProbeInfo, CallEffect)>> = vec![Vec::new(); selected.functions.len()];
        for info in &infos {
            if expressions.others.contains(&info.id()) {
                plan.set(info, HitRole::All, EvaluatedParts::default());
                continue;
            }
            match selected.actions.get(info.id().index()) {
                Some(HitAction { function, effect }) if *effect != CallEffect::Nothing => {
                    calls[*function as usize].push((info, *effect));
                }
                _ => plan.add_alone(info, expressions),
            }
        }
        for call in &calls {
            plan.add_call(call, expressions)?;
        }
        plan.infos = infos;
        Ok(plan)
    }

    /// Returns an error if the expressions fit none of the probes.
    pub(in super::super) fn check(&self) -> Result<(), Error> {
        let has_any = self.roles.values().any(|(role, _)| !matches!(role, HitRole::Never | HitRole::All));
        let error = self.left_out.error(&self.infos).filter(|_| !has_any);
        error.map_or(Ok(()), Err)
    }

    /// Returns the place of expressions at a probe's hit.
    pub(in super::super) fn place(&self, id: ProbeId) -> EvaluatedParts {
        self.roles.get(&id).map(|(_, place)| *place).unwrap_or_default()
    }

    /// Returns whether hits of a probe decide anything.
    pub(super) fn has(&self, id: ProbeId) -> bool {
        self.roles.get(&id).is_some_and(|(role, _)| !matches!(role, HitRole::Never))
    }

    /// Takes the roles of all probes.
    pub(super) fn take_roles(&mut self) -> impl Iterator<Item = (ProbeId, HitRole)> {
        mem::take(&mut self.roles).into_iter().map(|(id, (role, _))| (id, role))
    }

    fn set(&mut self, info: &ProbeInfo, role: HitRole, place: EvaluatedParts) {
        self.roles.insert(info.id(), (role, place));
    }

    pub(super) fn needs_clock(&self) -> bool {
        self.needs_latency || self.needs_time
    }

    fn add_alone(&mut self, info: &ProbeInfo, expressions: &Expressions<'_>) {
        let fields = fields(info);
        let scope = Scope { fields: &fields, has_latency: false };
        let program = expressions.fits(&scope).and_then(|()| expressions.program(&scope));
        match program {
            Ok(program) => {
                let program = program.filter(|_| !expressions.is_evaluated_later);
                self.set(info, HitRole::Alone(program), expressions.all_parts());
            }
            Err(unfit) if self.incomplete.binary_search(&info.id()).is_ok() => {
                self.left_out_so_far.add(info.path(), unfit);
            }
            Err(unfit) => self.left_out.add(info.path(), unfit),
        }
    }

    fn add_call(
        &mut self,
        call: &[(&ProbeInfo, CallEffect)],
        expressions: &Expressions<'_>,
    ) -> Result<(), Error> {
        let fields_at = |effects: [CallEffect; 2]| {
            let info = call.iter().find(|(_, effect)| effects.contains(effect));
            info.map(|(info, _)| fields(info)).unwrap_or_default()
        };
        let Some((first, _)) = call.first() else { return Ok(()) };
        let at_entry = fields_at([CallEffect::Begin, CallEffect::Enter]);
        let at_exit = fields_at([CallEffect::End, CallEffect::Finish]);
        let entry = Scope { fields: &at_entry, has_latency: false };
        let exit = Scope { fields: &at_exit, has_latency: true };
        let unfit = match expressions.fits(&entry).and_then(|()| expressions.program(&entry)) {
            Ok(_) if expressions.hits == HitsOfCall::Exit => None,
            Ok(program) => {
                self.decided_at_entry(call, program.as_ref(), expressions);
                return Ok(());
            }
            Err(unfit) => Some(unfit),
        };
        if let Err(late) = self.at_exit(call, &entry, &exit, expressions) {
            // A field of the exit that does not fit is the nearer mistake.
            let is_nearer = matches!(late.mismatch, Mismatch::Type(_));
            self.left_out.add(first.path(), unfit.filter(|_| !is_nearer).unwrap_or(late));
            return Ok(());
        }
        match (expressions.needs_entries, unfit) {
            (None, _) | (_, None) => Ok(()),
            (Some(problem), Some(unfit)) => Err(Error::Expression {
                text: unfit.text,
                at: match unfit.mismatch {
                    Mismatch::Unknown { at, .. } => at,
                    Mismatch::Type(error) => error.at,
                },
                problem: problem.to_owned(),
            }),
        }
    }

    fn decided_at_entry(
        &mut self,
        call: &[(&ProbeInfo, CallEffect)],
        program: Option<&Program>,
        expressions: &Expressions<'_>,
    ) {
        let is_of_one_hit = expressions.hits == HitsOfCall::One;
        let mut copies = Copies::default();
        for (info, effect) in call {
            let begins = matches!(effect, CallEffect::Begin | CallEffect::Enter);
            let mut place = EvaluatedParts::default();
            if begins && !copies.has(info) {
                self.left_out.add(info.path(), expressions.unfit(other_fields()));
                continue;
            }
            let role = match begins.then(|| program.cloned()) {
                Some(program) if is_of_one_hit => {
                    place = expressions.all_parts();
                    HitRole::Alone(program)
                }
                Some(program) => HitRole::Begin { program, passes_on: true },
                None if is_of_one_hit => HitRole::Never,
                None => HitRole::Follow { passes_on: true },
            };
            self.set(info, role, place);
        }
        self.is_paired |= !is_of_one_hit;
    }

    fn at_exit(
        &mut self,
        call: &[(&ProbeInfo, CallEffect)],
        entry: &Scope<'_>,
        exit: &Scope<'_>,
        expressions: &Expressions<'_>,
    ) -> Result<(), Unfit> {
        // Each part is evaluated at the exit, if it can be.
        let is_at_exit = |fits: Fits<'_>| match fits(exit) {
            Ok(()) => Ok(true),
            Err(late) => match fits(entry) {
                Ok(()) => Ok(false),
                Err(_) => Err(expressions.unfit(late)),
            },
        };
        let (mut entry_keys, mut exit_keys) = (0, 0);
        for key in 0..expressions.key_count {
            let keys = if is_at_exit(&|scope| (expressions.keys)(key, scope))? {
                &mut exit_keys
            } else {
                &mut entry_keys
            };
            *keys |= 1 << key;
        }
        if !is_at_exit(expressions.value)? {
            let problem = "this is known at the entry, and another part of it at the exit only";
            return Err(expressions.unfit(Mismatch::Type(ParseError::new(problem))));
        }
        let (at_entry, at_exit) = expressions.halves(entry, exit)?;
        let needs_entry = at_entry.is_some() || entry_keys != 0;
        let is_paired = needs_entry || self.needs_latency;
        self.is_paired |= is_paired;
        let (mut entries, mut exits) = (Copies::default(), Copies::default());
        for (info, effect) in call {
            let mut place = EvaluatedParts::default();
            let copies = match effect {
                CallEffect::Begin | CallEffect::Enter => Some(&mut entries),
                CallEffect::End | CallEffect::Finish => Some(&mut exits),
                _ => None,
            };
            if copies.is_some_and(|copies| !copies.has(info)) {
                self.left_out.add(info.path(), expressions.unfit(other_fields()));
                continue;
            }
            let role = match effect {
                CallEffect::Begin | CallEffect::Enter if is_paired => {
                    place.keys = entry_keys;
                    HitRole::Begin { program: at_entry.clone(), passes_on: entry_keys != 0 }
                }
                CallEffect::End | CallEffect::Finish => {
                    place = EvaluatedParts { keys: exit_keys, keys_of_entry: entry_keys, value: true };
                    HitRole::End { program: at_exit.clone(), needs_entry }
                }
                _ if is_paired => HitRole::Follow { passes_on: false },
                _ => HitRole::Never,
            };
            self.set(info, role, place);
        }
        Ok(())
    }
}

/// The probes of one function in several objects, as it is in each.
#[derive(Default)]
struct Copies(Option<Fields>);

impl Copies {
    /// Returns whether a program for the first one is right for this one.
    fn has(&mut self, info: &ProbeInfo) -> bool {
        let fields = fields(info);
        *self.0.get_or_insert_with(|| fields.clone()) == fields
    }
}

fn other_fields() -> Mismatch {
    Mismatch::Type(ParseError::new("another object has this function with other fields; select one of them"))
}

impl Expressions<'_> {
    /// No expressions.
    pub(in super::super) const NONE: Self = Self {
        predicate: None,
        is_evaluated_later: false,
        text: "",
        keys: &|_, _| Ok(()),
        key_count: 0,
        value: &|_| Ok(()),
        asks_latency: false,
        asks_time: false,
        hits: HitsOfCall::All,
        others: &[],
        needs_entries: None,
    };

    /// The place of expressions at a hit that has all of them.
    fn all_parts(&self) -> EvaluatedParts {
        EvaluatedParts { keys: (1 << self.key_count) - 1, keys_of_entry: 0, value: true }
    }

    fn unfit(&self, mismatch: Mismatch) -> Unfit {
        Unfit { text: self.text.to_owned(), mismatch }
    }

    /// Checks all that the consumer evaluates itself.
    fn fits(&self, scope: &Scope<'_>) -> Result<(), Unfit> {
        let keys = (0..self.key_count).try_for_each(|key| (self.keys)(key, scope));
        keys.and_then(|()| (self.value)(scope)).map_err(|mismatch| self.unfit(mismatch))
    }

    fn program(&self, scope: &Scope<'_>) -> Result<Option<Program>, Unfit> {
        let node = self.predicate.map(Predicate::node);
        node.map(|node| Program::condition(node, scope)).transpose().map_err(|it| self.unfit_predicate(it))
    }

    fn unfit_predicate(&self, mismatch: Mismatch) -> Unfit {
        Unfit { text: self.predicate.map_or_else(String::new, |it| it.text().to_owned()), mismatch }
    }

    /// Returns the parts of the predicate that are decided at a call's entry, and at its exit.
    fn halves(
        &self,
        entry: &Scope<'_>,
        exit: &Scope<'_>,
    ) -> Result<(Option<Program>, Option<Program>), Unfit> {
        let late = match self.program(exit) {
            Ok(program) => return Ok((None, program.filter(|_| !self.is_evaluated_later))),
            Err(late) if self.is_evaluated_later => return Err(late),
            Err(late) => late,
        };
        if let Ok(program) = self.program(entry) {
            return Ok((program, None));
        }
        let Some(node) = self.predicate.map(Predicate::node) else { return Err(late) };
        let is_at_exit = |condition: &&Node| Program::condition(condition, exit).is_ok();
        let (at_exit, at_entry): (Vec<_>, Vec<_>) = node.conjuncts().into_iter().partition(is_at_exit);
        let program =
            |of: &[&Node], scope| Node::all_of(of).map(|node| Program::condition(&node, scope)).transpose();
        match (program(&at_entry, entry), program(&at_exit, exit)) {
            // Terms that count hits have numbers in one program.
            (Ok(_), Ok(_)) if node.samples() != 0 => {
                let problem =
                    "parts of this are known at the entry, and others at the exit, so it can't count hits";
                Err(self.unfit_predicate(Mismatch::Type(ParseError::new(problem))))
            }
            (Ok(at_entry), Ok(at_exit)) => Ok((at_entry, at_exit)),
            _ => Err(late),
        }
    }
}
