//! Which probes begin and end intervals, and the keys by which their hits belong together.
//!
//! Life cycle: the roles of all probes so far are kept, so that a probe that appears later may make
//! use of an earlier one: a function that gives what another one takes is needed only then.

use std::collections::HashMap;

use super::hit::{KeySource, unfit};
use super::intervals::{Intervals, SharedKey};
use super::key::Key;
use super::{Aggregate, AggregateFunction};
use crate::consumers::filter::{Expressions, HitsOfCall, Plan, fields};
use crate::engine::control::ProbeSet;
use crate::engine::error::Error;
use crate::engine::registry::{ProbeId, ProbeInfo};
use probe_core::abi::{Definition, Kind};
use probe_lang::Predicate;
use probe_lang::aggregation::Ends;
use probe_lang::expression::{Program, Scope, groups};
use probe_lang::modules::{GIVES_NOTE, MODULE_NOTE, RESULT, TAKES_IF_NOTE, TAKES_NOTE};

/// A probe's part in intervals.
#[derive(Clone, Default)]
pub(super) struct Role {
    begins: bool,
    /// Whether some of its hits do begin intervals: their keys fit.
    is_begun: bool,
    ends: bool,
    /// The number of its module.
    module: u32,
    /// Of a function of a module: the fields that it takes and gives, and when it takes.
    takes: Option<String>,
    takes_if: Option<String>,
    gives: Option<String>,
}

pub(super) type Roles = HashMap<ProbeId, Role>;

impl Role {
    /// Reads the notes of a function of a module.
    fn of_notes(definition: &Definition) -> Self {
        let note = |name| definition.note(name).map(str::to_owned);
        let (takes, gives) = (note(TAKES_NOTE), note(GIVES_NOTE));
        let module = definition.note(MODULE_NOTE).unwrap_or_default();
        // FNV-1a.
        let module = module
            .bytes()
            .fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        Self {
            begins: takes.is_some(),
            ends: gives.is_some(),
            module,
            takes,
            takes_if: note(TAKES_IF_NOTE),
            gives,
            ..Self::default()
        }
    }

    fn of_selectors(definition: &Definition, ends: &Ends) -> Self {
        let begins = ends.begins.as_ref().is_none_or(|begins| begins.matches(definition));
        Self { begins, ends: ends.selector.matches(definition), ..Self::default() }
    }
}

impl Aggregate {
    /// Returns the probes whose hits belong to groups: of intervals, those that begin them.
    pub(super) fn beginning(&self, probes: &ProbeSet, roles: &Roles) -> ProbeSet {
        if !self.aggregation.function.is_of_intervals() {
            return probes.clone();
        }
        probes.only(&|id| roles.get(id).is_some_and(|role| role.begins))
    }

    /// Adds what these probes begin and end.
    pub(super) fn add_roles(&self, roles: &mut Roles, probes: &ProbeSet) -> Result<(), Error> {
        let ends = self.aggregation.ends.as_ref();
        if !self.aggregation.function.is_of_intervals() {
            return Ok(());
        }
        let role = |definition: &Definition| {
            ends.map_or_else(|| Role::of_notes(definition), |ends| Role::of_selectors(definition, ends))
        };
        probes.with_definitions(|all| roles.extend(all.map(|(id, definition)| (id, role(definition)))));
        let Some(ends) = ends else {
            if roles.is_empty() || roles.values().any(|role| role.begins) {
                return Ok(());
            }
            let problem = "none of these probes takes anything; `held` is of functions whose modules say so, such \
                           as `lock::*=held`, and `until` names the hits: `app::took=until(app::gave)`";
            return Err(Error::Consumer(problem.into()));
        };
        let all_end = match &ends.begins {
            // Whichever probes there are yet.
            Some(begins) => begins.text() == ends.selector.text(),
            None => roles.values().all(|role| role.ends),
        };
        // A hit that ends an interval begins none, unless all hits do.
        if !all_end {
            roles.values_mut().for_each(|role| role.begins &= !role.ends);
        }
        Ok(())
    }

    /// Gets ready for intervals between hits of these probes. `begins` is the plan of those that
    /// begin them.
    pub(super) fn intervals(
        &self,
        probes: &ProbeSet,
        mut roles: Roles,
        begins: &Plan,
    ) -> Result<Option<Box<Intervals>>, Error> {
        if !self.aggregation.function.is_of_intervals() {
            return Ok(None);
        }
        let intervals = Intervals::of(probes)?;
        note_begun(&mut roles, begins);
        let ending = probes.only(&|id| self.is_ending(&roles, *id));
        let plan = self.plan_of_ends(&ending)?;
        plan.check().map_err(|error| self.of_shared_key(error))?;
        self.add_ends(&intervals, &plan, &roles)?;
        intervals.filter.prepare(&ending, plan)?;
        intervals.roles.set(roles);
        Ok(Some(Box::new(intervals)))
    }

    /// Says what the first key is, in the error of one that hits that end do not have.
    fn of_shared_key(&self, error: Error) -> Error {
        match error {
            Error::Expression { text, at, problem } if self.aggregation.ends.is_some() => {
                let problem = format!(
                    "{problem}; the first key is that of both hits, which `until(b by(x))` names otherwise at the \
                     second"
                );
                Error::Expression { text, at, problem }
            }
            error => error,
        }
    }

    /// Gets ready for probes that join. Earlier ones that they need are switched on.
    pub(super) fn join_intervals(
        &self,
        intervals: &Intervals,
        probes: &ProbeSet,
        mut roles: Roles,
        begins: &Plan,
    ) -> Result<(), Error> {
        note_begun(&mut roles, begins);
        let mut all: Vec<_> = roles.keys().copied().collect();
        all.sort_unstable();
        let ending = probes.clone().with(&all).only(&|id| self.is_ending(&roles, *id));
        let set = intervals.filter.joined_by(&ending);
        let plan = self.plan_of_ends(&set)?;
        intervals.filter.check(&set)?;
        self.add_ends(intervals, &plan, &roles)?;
        intervals.filter.join(&set, plan)?;
        intervals.roles.set(roles);
        let is_earlier = |id: &&ProbeId| intervals.needs(**id) && probes.ids().binary_search(id).is_err();
        intervals.switch_on(&set.ids().iter().filter(is_earlier).copied().collect::<Vec<_>>());
        Ok(())
    }

    /// Returns whether hits of a probe end intervals. Of the functions of a module, those of fields
    /// that no function takes are left out: keys leave out the functions that lack them.
    fn is_ending(&self, roles: &Roles, id: ProbeId) -> bool {
        let Some(given) = roles.get(&id).filter(|role| role.ends) else { return false };
        if self.aggregation.function != AggregateFunction::Held {
            return true;
        }
        let in_module = || roles.values().filter(|role| role.begins && role.module == given.module);
        let is_same = |it: &Role| it.takes == given.gives;
        // If none has its name, it may be of any.
        let has_name = in_module().any(is_same);
        let mut begun = in_module().filter(|role| role.is_begun);
        begun.any(|it| !has_name || is_same(it) || it.takes.as_deref() == Some(RESULT))
    }

    fn plan_of_ends(&self, probes: &ProbeSet) -> Result<Plan, Error> {
        // Functions of modules name their keys themselves.
        let key =
            self.aggregation.shared_key().filter(|_| self.aggregation.function == AggregateFunction::Until);
        let expressions = Expressions {
            text: &self.aggregation.text,
            keys: &|_, scope| key.map_or(Ok(()), |key| groups(key, scope, false)),
            key_count: usize::from(key.is_some()),
            value: &|_| Ok(()),
            hits: HitsOfCall::One,
            ..Expressions::NONE
        };
        Plan::of(probes, &expressions)
    }

    /// Adds the probes of a plan that end intervals. One thread at a time calls it.
    fn add_ends(&self, intervals: &Intervals, plan: &Plan, roles: &Roles) -> Result<(), Error> {
        let (room, mut ends) = (Key::room(self.aggregation.keys.len()), Vec::new());
        for info in plan.infos.iter().filter(|info| plan.place(info.id()).value) {
            let Some(role) = roles.get(&info.id()) else { continue };
            let source = match (self.aggregation.function, self.aggregation.shared_key()) {
                (AggregateFunction::Held, _) if info.kind() != Kind::Entry => continue,
                (AggregateFunction::Held, _) => Some(field(info, role.gives.as_deref())?),
                (_, Some(key)) => Some(KeySource::of(key, info)?),
                _ => None,
            };
            ends.push((
                info.id(),
                SharedKey { subject: role.module, room, source, condition: None, predicate: None },
            ));
        }
        intervals.add_ends(ends);
        Ok(())
    }

    /// Returns how hits of a probe begin an interval. `is_of_entry` says whether the first key is
    /// known at the entry only.
    pub(super) fn shared_key(
        &self,
        info: &ProbeInfo,
        role: &Role,
        is_of_entry: bool,
    ) -> Result<Option<Box<SharedKey>>, Error> {
        let room = Key::room(self.aggregation.keys.len());
        if self.aggregation.function != AggregateFunction::Held {
            let source = match self.aggregation.keys.first() {
                Some(_) if is_of_entry => Some(KeySource::OfEntry),
                key => key.map(|key| KeySource::of(key, info)).transpose()?,
            };
            return Ok(Some(Box::new(SharedKey {
                subject: 0,
                room,
                source,
                condition: None,
                predicate: None,
            })));
        }
        if info.kind() == Kind::Entry {
            return Ok(None);
        }
        let source = Some(field(info, role.takes.as_deref())?);
        let scope = Scope { fields: &fields(info), has_latency: true };
        let predicate = self.predicate.as_ref().map(|it| Program::condition(it.node(), &scope));
        let predicate = predicate.transpose().map_err(unfit)?;
        let condition = role.takes_if.as_ref().map(|condition| {
            let problem = || Error::Consumer(format!("`{condition}` does not fit {}", info.path()).into());
            let condition: Predicate = condition.parse().map_err(|_| problem())?;
            let scope = Scope { has_latency: false, ..scope };
            Program::condition(condition.node(), &scope).map_err(|_| problem())
        });
        let condition = condition.transpose()?;
        Ok(Some(Box::new(SharedKey { subject: role.module, room, source, condition, predicate })))
    }
}

/// Notes the probes whose hits begin intervals by this plan.
fn note_begun(roles: &mut Roles, begins: &Plan) {
    roles.iter_mut().for_each(|(id, role)| role.is_begun |= begins.place(*id).value);
}

/// Returns the source of a field.
fn field(info: &ProbeInfo, name: Option<&str>) -> Result<KeySource, Error> {
    let name = name.unwrap_or_default();
    let at = info.fields().iter().position(|field| field.name() == name);
    let missing = || Error::Consumer(format!("{} has no field `{name}`", info.path()).into());
    at.map(KeySource::Field).ok_or_else(missing)
}
