//! Sets of probes: finding those that a selector names, and lists of all probes and of unreadable
//! ones.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::join::JoinRule;
use super::lock::{Control, operate};
use super::sites::PatchPolicy;
#[cfg(probe_values)]
use crate::engine::c_values::ValueTable;
use crate::engine::error::Error;
use crate::engine::os::objects::{KeptLoaded, freeze};
use crate::engine::registry::{ProbeId, ProbeInfo, provider};
use crate::engine::sites::{TextPolicy, UnmatchedTerm, Visibility};
use probe_core::abi::Definition;
#[cfg(probe_backend = "patched")]
use probe_core::abi::{NOTE_OWNER, NOTE_TYPE};
use probe_lang::selector::{NamedTerms, Selector};

/// Returns all probes of the loaded objects, sorted by path: latent and active ones, with and
/// without sites.
///
/// Cost: the first use of this crate reads the tables of all loaded objects. Later calls ask the
/// dynamic linker whether anything has changed. Each call builds the list anew.
///
/// ```
/// #[probe_runtime::probe]
/// fn listed() {}
/// listed();
/// let probes = probe_runtime::probes();
/// assert_eq!(probes.iter().filter(|probe| probe.path().ends_with("::listed")).count(), 2);
/// ```
pub fn probes() -> Vec<ProbeInfo> {
    let mut list = operate(|control, loaded| control.loaded_infos(&control.all_ids(), loaded));
    crate::engine::order::sort_by(&mut list, |a, b| {
        (a.path(), a.kind(), a.line()).cmp(&(b.path(), b.kind(), b.line()))
    });
    list
}

/// Returns the number of probes so far, including unloaded ones and functions that were left out.
pub(crate) fn probe_count() -> usize {
    operate(|control, _| control.registry.len())
}

/// Returns these probes, without unloaded ones, each with the file of its object: empty for the
/// executable.
pub(crate) fn infos_with_objects(ids: &[ProbeId]) -> Vec<(ProbeInfo, String)> {
    operate(|control, loaded| {
        let object = |info: &ProbeInfo| control.registry.object_of(info.id()).to_owned();
        let infos = control.loaded_infos(ids, loaded).into_iter();
        infos.map(|info| (with_own_fields(control, &info), object(&info))).collect()
    })
}

#[cfg(probe_values)]
fn with_own_fields(control: &Control, info: &ProbeInfo) -> ProbeInfo {
    control.with_own_fields(info.clone())
}
#[cfg(not(probe_values))]
fn with_own_fields(_: &Control, info: &ProbeInfo) -> ProbeInfo {
    info.clone()
}

/// Returns the number of probes of modules.
pub(crate) fn module_probe_count() -> usize {
    operate(|control, loaded| {
        definitions(control, loaded).filter(|(_, it)| it.note("module").is_some()).count()
    })
}

/// Returns all probes but those of modules.
pub(crate) fn ids_outside_of_modules() -> Vec<ProbeId> {
    operate(|control, loaded| {
        let others = definitions(control, loaded).filter(|(_, it)| it.note("module").is_none());
        others.map(|(id, _)| id).collect()
    })
}

/// Returns the number of attachments.
pub(crate) fn attachment_count() -> usize {
    operate(|control, _| control.attachments.records.iter().flatten().count())
}

/// Returns the number of sites that are left alone because their records, or the definitions that
/// these name, can't be read: they are damaged, or a newer version wrote them. (Some sites of an
/// object that another thread is loading may count until it is loaded.)
///
/// ```
/// // Probes of a later version of this crate are left alone.
/// assert_eq!(probe_runtime::losses::unreadable_records(), 0);
/// ```
pub fn unreadable_records() -> usize {
    operate(|control, loaded| control.registry.skipped(loaded))
}

/// Returns the file names of loaded objects whose probes are left alone because they have the
/// layout of a later version of this crate. If an object has probes of several versions, those of
/// this version are still used.
///
/// ```
/// assert!(probe_runtime::losses::unreadable_objects().is_empty());
/// ```
pub fn unreadable_objects() -> Vec<String> {
    // Other backends read nothing from objects.
    #[cfg(probe_backend = "patched")]
    return freeze(|frozen| frozen.others(NOTE_OWNER, NOTE_TYPE));
    #[cfg(not(probe_backend = "patched"))]
    return Vec::new();
}

/// The time between two looks of a thread that discovers probes periodically. Without patching, no
/// probes appear.
pub(crate) const DISCOVERY_INTERVAL: Duration =
    Duration::from_millis(if cfg!(probe_backend = "patched") { 300 } else { 3_600_000 });

/// Discovers probes that have appeared, and lets them join [persistent](ProbeSet::persistent)
/// attachments, as each operation does. Call it after loading an object.
///
/// Cost: without new objects and discovered functions, a query of the dynamic linker.
///
/// ```
/// // … dlopen …
/// probe_runtime::registry::discover_probes();
/// ```
pub fn discover_probes() {
    operate(|_, _| ());
}

/// A set of probes, and the way in which their sites are patched.
///
/// ```
/// use probe_runtime::patch::TextPolicy;
/// use probe_runtime::{Count, probe, select};
///
/// #[probe]
/// fn take_call() {}
///
/// let set = select("**::take_call")?;
/// assert_eq!(set.probes().len(), 2); // entry and exit
/// let hits = set.text_policy(TextPolicy::Open).attach(Count::new())?;
/// take_call();
/// assert_eq!(hits.total(), 2);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
#[derive(Clone)]
pub struct ProbeSet {
    pub(super) ids: Arc<[ProbeId]>,
    pub(super) policy: PatchPolicy,
    /// Terms of its selector that named nothing.
    pub(super) unmatched: Arc<[UnmatchedTerm]>,
    /// The rule that chose the probes.
    pub(super) rule: Option<Arc<JoinRule>>,
    /// The number of changes of the registry by then.
    pub(super) as_of: u64,
    /// For how many probes that join later consumers should have room; 0 unless it is persistent.
    pub(super) room: usize,
    /// Whether hits of C functions have all values.
    pub(super) has_all_values: bool,
    /// The values that the attachment reads.
    #[cfg(probe_values)]
    pub(super) values: Option<Arc<ValueTable>>,
}

impl ProbeSet {
    /// Returns the set of these probes, which ascend.
    pub(super) fn of(ids: Vec<ProbeId>) -> Self {
        let (policy, unmatched) = (PatchPolicy::default(), Arc::default());
        Self {
            ids: ids.into(),
            policy,
            unmatched,
            rule: None,
            as_of: 0,
            room: 0,
            has_all_values: false,
            #[cfg(probe_values)]
            values: None,
        }
    }

    /// Returns the empty set.
    #[cfg(all(feature = "finstrument", not(probe_discovers)))]
    pub(crate) fn none() -> Self {
        Self::of(Vec::new())
    }

    /// Returns the number of probes.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns whether the set is empty. [`select`](super::select()) never returns an empty set.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Returns the probes' numbers, ascending.
    pub fn ids(&self) -> &[ProbeId] {
        &self.ids
    }

    /// Returns the terms of its selector that named nothing.
    pub(crate) fn unmatched(&self) -> Arc<[UnmatchedTerm]> {
        Arc::clone(&self.unmatched)
    }

    /// Returns the probes in their present state, without those that were unloaded since.
    pub fn probes(&self) -> Vec<ProbeInfo> {
        let infos = operate(|control, loaded| control.loaded_infos(&self.ids, loaded));
        #[cfg(probe_values)]
        let infos = infos.into_iter().map(|info| self.with_site_fields(info)).collect();
        infos
    }

    /// Returns the set with these of its probes only.
    pub(crate) fn only(&self, keep: &dyn Fn(&ProbeId) -> bool) -> Self {
        let ids = self.ids.iter().copied().filter(|id| keep(id)).collect();
        Self { ids, ..self.clone() }
    }

    /// Returns the set with these probes, too.
    pub(crate) fn with(self, more: &[ProbeId]) -> Self {
        if more.is_empty() {
            return self;
        }
        let mut ids = [&*self.ids, more].concat();
        ids.sort_unstable();
        ids.dedup();
        Self { ids: ids.into(), ..self }
    }

    /// Returns the set with the probes of another selector, too.
    pub(crate) fn or(self, other: &Self) -> Self {
        let unmatched = [&*self.unmatched, &*other.unmatched].concat().into();
        let rule = match (self.rule.as_deref(), other.rule.as_deref()) {
            (Some(JoinRule::Named(own)), Some(JoinRule::Named(others))) => {
                Some(Arc::new(JoinRule::Named([&own[..], &others[..]].concat())))
            }
            _ => None,
        };
        // The earlier set may lack later changes.
        let as_of = self.as_of.min(other.as_of);
        Self { unmatched, rule, as_of, ..self.with(&other.ids) }
    }

    /// Lets forked children leave attachments to the set behind: their sites are latent there.
    pub(crate) fn of_parent(mut self) -> Self {
        self.policy.stays_in_parent = true;
        self
    }

    /// Calls `run` with the definitions of its loaded probes, which stay loaded meanwhile. The
    /// control lock is held: `run` takes no other lock.
    pub(crate) fn with_definitions<T>(
        &self,
        run: impl FnOnce(&mut dyn Iterator<Item = (ProbeId, &Definition)>) -> T,
    ) -> T {
        operate(|control, loaded| {
            let definition = |id: &ProbeId| Some((*id, control.registry.definition(*id, loaded)?));
            run(&mut self.ids.iter().filter_map(definition))
        })
    }

    /// Gives hits of C functions that have no fields their arguments and results as fields, as far
    /// as debug information tells them: for consumers that look at all fields. Predicates and
    /// [`Aggregate`](crate::Aggregate) get those that they name without this.
    ///
    /// Attaching reads the debug information of these functions, which takes some milliseconds. A
    /// value in no known place is [`Absent`](crate::field::ValueRef::Absent). So is a structure, a
    /// vector or a complex number.
    ///
    /// ```no_run
    /// # fn run() -> Result<(), probe_runtime::Error> {
    /// let _log = probe_runtime::select("net_read")?.c_values().attach_fn(|event| {
    ///     for (name, value) in event.fields() {
    ///         eprintln!("{name} = {value}");
    ///     }
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "c-values")]
    #[cfg_attr(docsrs, doc(cfg(feature = "c-values")))]
    #[must_use]
    pub fn c_values(mut self) -> Self {
        self.has_all_values = true;
        self
    }

    /// Sets how long text is writable. The default is [`TextPolicy::Sealed`].
    #[must_use]
    pub fn text_policy(mut self, policy: TextPolicy) -> Self {
        self.policy.text = policy;
        self
    }

    /// Sets whether each site is patched through `int3`, one byte at a time, instead of by one
    /// write of its aligned word. This is for processors that promise nothing about such a write
    /// (see [`patch::word`](crate::patch::word)). The default is `false`.
    ///
    /// Cost: two barriers a batch, a look at each thread of the process (10 to 14 µs), and a signal
    /// for each thread that runs into the `int3`.
    ///
    /// A trap would kill the process in a thread that blocks `SIGTRAP`, in a handler whose
    /// `sa_mask` holds it, or under a debugger that keeps it. A batch that finds one of these
    /// refuses its sites and names it. See [`word`](crate::patch::word#before-a-trap).
    ///
    /// Two kinds of writes are single writes of an aligned word even then (feature `finstrument`):
    /// switching calls of `-finstrument-functions` hooks that lie across two words, and the first
    /// hit that turns any such call into a site. A hook does this in any thread, whatever signals
    /// the thread blocks, and can't wait for other threads as an `int3` requires. If such a write
    /// can't be relied on, use `finstrument::text_policy(TextPolicy::Alias)`. It leaves first hits
    /// to operations, which then go through `int3`, and leaves calls across two words as the
    /// compiler made them.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.policy.strict = strict;
        self
    }

    /// Sets when threads see a change. The default is [`Visibility::Synchronous`].
    #[must_use]
    pub fn visibility(mut self, visibility: Visibility) -> Self {
        self.policy.visibility = visibility;
        self
    }

    /// The number of joining probes that [`persistent`](Self::persistent) asks consumers to have
    /// room for.
    const JOIN_ROOM: usize = 8_192;

    /// Keeps the selector with each attachment to the set: probes that appear later join the
    /// attachment if the selector names them.
    ///
    /// Probes appear when an object is loaded (`dlopen`), or when a function of
    /// `-finstrument-functions` code is called for the first time (feature `finstrument`). They
    /// join with the next operation that looks for new objects, on any thread, before that
    /// operation does its own work: [`probes`](crate::probes), [`select`](crate::select), attaching
    /// and detaching, counts and the reports that are made of them, each request of `probectl`,
    /// each report of `PROBES_EVERY`. [`discover_probes`](crate::registry::discover_probes) does
    /// nothing else: call it after `dlopen`. Hits before that are not the attachment's. Operations
    /// inside of a hit leave it to later ones.
    ///
    /// The consumer gets ready in [`Consumer::join`](crate::Consumer::join).
    /// [`Attachment::late_report`](crate::Attachment::late_report) says how their sites were
    /// switched, and [`Attachment::left_out_later`](crate::Attachment::left_out_later) which could
    /// not join. Probes of an unloaded object stay in it: if the object is loaded again, they
    /// are switched again.
    ///
    /// ```
    /// use probe_runtime::{Count, probe, select};
    ///
    /// #[probe]
    /// fn load() {}
    /// load();
    ///
    /// let calls = select("**::load, plugin::**")?.persistent().attach(Count::new())?;
    /// // … load plugins …
    /// probe_runtime::registry::discover_probes();
    /// load();
    /// assert_eq!(calls.total(), 2);
    /// # Ok::<(), probe_runtime::Error>(())
    /// ```
    #[must_use]
    pub fn persistent(mut self) -> Self {
        self.room = Self::JOIN_ROOM;
        self
    }

    /// Returns for how many further probes a consumer should have room; 0 unless the set is
    /// [persistent](Self::persistent).
    pub fn room(&self) -> usize {
        self.room
    }

    /// Returns the length of a table by the numbers of these probes, and of later ones if the set
    /// is persistent.
    pub(crate) fn numbers(&self) -> usize {
        if self.room == 0 {
            self.ids.last().map_or(0, |last| last.index() + 1)
        } else {
            probe_count() + LATER
        }
    }

    /// Returns the rule of a persistent set.
    pub(super) fn persistent_rule(&self) -> Option<JoinRule> {
        self.rule.as_deref().filter(|_| self.room != 0).cloned()
    }

    /// Returns its room if it has all that a provider finds.
    pub(super) fn discovered_room(&self) -> Option<usize> {
        matches!(self.rule.as_deref()?, JoinRule::Discovered).then_some(self.room)
    }

    /// Returns a persistent set's probes that are loaded, and the number of changes of the registry
    /// by now. The others join when their objects come back. Returns `None` for any other set.
    pub(super) fn present(&self) -> Option<(Self, u64)> {
        self.persistent_rule()?;
        Some(operate(|control, loaded| {
            let is_present = |id: &ProbeId| control.registry.definition(*id, loaded).is_some();
            (self.only(&is_present), control.changes)
        }))
    }

    /// Returns an empty set, which all that a provider finds joins.
    pub(crate) fn of_discovered(room: usize) -> Self {
        Self { rule: Some(Arc::new(JoinRule::Discovered)), room, ..Self::of(Vec::new()) }
    }
}

impl fmt::Debug for ProbeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut set = f.debug_struct("ProbeSet");
        set.field("len", &self.ids.len()).field("policy", &self.policy).field("unmatched", &self.unmatched);
        set.field("room", &self.room).finish_non_exhaustive()
    }
}

/// Numbers of later probes that the tables of a persistent attachment have. They are the program's
/// probes of any name, so these are more than those that may join.
const LATER: usize = if cfg!(miri) { 1 << 8 } else { 1 << 18 };

/// The number of terms whose error has suggestions.
const MAX_SUGGESTIONS: usize = 3;

/// Returns the probes that a selector names. [`Selector`] describes the grammar: `net::*`,
/// `**::handle`, `@server.rs:42`, `kind=entry`, `group=db`, and combinations of them.
///
/// # Errors
/// - [`Error::Selector`] if the selector is malformed.
/// - [`Error::NoMatch`] if it names no probe. The error suggests similar selectors that name some,
///   or else the nearest probes.
/// - [`Error::Skipped`] if it names only functions that a block with `#[probe]` has left out.
///
/// If only some of several terms name nothing, the [report](super::Attachment::report) of each
/// attachment to the set lists them.
///
/// ```
/// use probe_runtime::{Error, select};
///
/// mod net {
///     #[probe_runtime::probe(group = "net")]
///     pub fn handle(bytes: usize) {
///         probe!("parsed", bytes);
///     }
///     pub mod tcp {
///         #[probe_runtime::probe(group = "net::tcp")]
///         pub fn accept() {}
///     }
/// }
/// net::handle(7);
/// net::tcp::accept();
///
/// # let this = module_path!();
/// # let select = |selector: &str| select(&selector.replace("app", this));
/// assert_eq!(select("app::net::handle")?.len(), 2); // entry and exit
/// assert_eq!(select("app::net::*")?.len(), 3); // and the point, but nothing of `tcp`
/// assert_eq!(select("app::net::**")?.len(), 5);
/// assert_eq!(select("**::accept")?.len(), 2);
/// assert_eq!(select("**::net::** kind=entry|point")?.len(), 3);
/// assert_eq!(select("app::net::**, !**::parsed")?.len(), 4);
/// assert_eq!(select("group=net::* kind=exit")?.len(), 1);
///
/// let error = select("tcp::*").unwrap_err();
/// assert_eq!(error.to_string(), "no probe matches `tcp::*`; did you mean `**::tcp::*` (2 probes)?");
/// # Ok::<(), Error>(())
/// ```
pub fn select(selector: &str) -> Result<ProbeSet, Error> {
    select_parsed(&Arc::new(Selector::parse(selector)?))
}

/// The same, for a parsed selector.
pub(crate) fn select_parsed(selector: &Arc<Selector>) -> Result<ProbeSet, Error> {
    find(selector, false)
}

/// Returns the probes that a selector names, as a [persistent](ProbeSet::persistent) set. It may be
/// empty: probes that appear after it is attached join.
///
/// # Errors
/// [`Error::Selector`] if the selector is malformed, and [`Error::Skipped`], as [`select`].
///
/// ```
/// use probe_runtime::{Count, select_persistent};
///
/// let calls = select_persistent("plugin::**")?.attach(Count::new())?;
/// assert_eq!(calls.report().unmatched()[0].term(), "plugin::**");
/// // … load the plugin, whose functions join with the next operation …
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub fn select_persistent(selector: &str) -> Result<ProbeSet, Error> {
    select_persistent_parsed(&Arc::new(Selector::parse(selector)?))
}

/// The same, for a parsed selector.
pub(crate) fn select_persistent_parsed(selector: &Arc<Selector>) -> Result<ProbeSet, Error> {
    Ok(find(selector, true)?.persistent())
}

/// Returns the probes that a selector names.
fn find(parsed: &Arc<Selector>, may_be_empty: bool) -> Result<ProbeSet, Error> {
    operate(|control, loaded| {
        let mut named = parsed.named();
        let ids: Vec<_> = (definitions(control, loaded))
            .filter(|(_, definition)| definition.path_begins_with(&parsed.beginning))
            .filter(|(_, definition)| {
                parsed.matches_noting(*definition, &mut named, || definition.skipped().is_some())
            })
            .map(|(id, _)| id)
            .collect();
        let error = ids.is_empty().then(|| no_match(control, parsed, loaded));
        if let Some(error) = error.filter(|it| !may_be_empty || matches!(it, Error::Skipped { .. })) {
            return Err(error);
        }
        let unmatched = unmatched(control, parsed, &named, loaded).into();
        let rule = Some(Arc::new(JoinRule::Named(vec![(Arc::clone(parsed), named)])));
        Ok(ProbeSet { unmatched, rule, as_of: control.changes, ..ProbeSet::of(ids) })
    })
}

/// Returns the terms of a selector that have named no probe.
pub(super) fn unmatched(
    control: &Control,
    parsed: &Selector,
    named: &NamedTerms,
    loaded: KeptLoaded<'_>,
) -> Vec<UnmatchedTerm> {
    // A term of a valid selector is a valid selector.
    let problem = |term: &str| Some(no_match(control, &Selector::parse(term).ok()?, loaded).to_string());
    // A long list of paths that no longer exist needs no suggestion for each.
    let terms = parsed.unnamed(named).enumerate();
    let unmatched = terms.map(|(at, term)| {
        UnmatchedTerm::new(term.to_owned(), (at < MAX_SUGGESTIONS).then(|| problem(term)).flatten())
    });
    unmatched.collect()
}

fn definitions<'a>(
    control: &'a Control,
    loaded: KeptLoaded<'a>,
) -> impl Iterator<Item = (ProbeId, &'a Definition)> {
    control.all_ids().into_iter().filter_map(move |id| Some((id, control.registry.definition(id, loaded)?)))
}

/// Returns the reason why a selector names nothing, with suggestions.
fn no_match(control: &Control, parsed: &Selector, loaded: KeptLoaded<'_>) -> Error {
    let selector = parsed.text();
    let all: Vec<_> = definitions(control, loaded).map(|(_, definition)| definition).collect();
    let mut skipped: Vec<_> = (all.iter())
        .filter(|definition| parsed.matches(**definition))
        .filter_map(|definition| Some((definition.path().to_owned(), definition.skipped()?.to_owned())))
        .collect();
    if !skipped.is_empty() {
        crate::engine::order::sort_by(&mut skipped, Ord::cmp);
        return Error::Skipped { selector: selector.to_owned(), skipped };
    }
    let probes = all.iter().copied().filter(|definition| definition.skipped().is_none());
    let suggested = parsed.suggest_among(&probes, all.iter().copied());
    let (selector, unread, probes) = (selector.to_owned(), unreadable_objects(), probes.count());
    let (discovers, wider, nearest) = (provider::is_registered(), suggested.wider, suggested.nearest);
    Error::NoMatch { selector, probes, discovers, wider, nearest, unread }
}
