//! Finding the probes that a selector's text names, or suggestions if it names none.

use std::sync::Arc;

use super::lock::operate;
use super::policy::Policy;
use super::set::{ProbeSet, unreadable_objects};
use super::standing::Rule;
use super::state::Control;
use crate::engine::error::Error;
use crate::engine::os::objects::KeptLoaded;
use crate::engine::registry::{ProbeId, provider};
use crate::engine::sites::UnmatchedTerm;
use probe_core::abi::Definition;
use probe_lang::selector::{NamedTerms, Selector};

/// The number of terms whose error has suggestions.
const SHOWN: usize = 3;

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
    let set = find(selector)?;
    if set.is_empty() { operate(|control, loaded| Err(nothing(control, selector, loaded))) } else { Ok(set) }
}

/// Returns the probes that a selector names, as a [standing](ProbeSet::standing) set. It may be
/// empty: probes that appear after it is attached join.
///
/// # Errors
/// [`Error::Selector`] if the selector is malformed, and [`Error::Skipped`], as [`select`].
///
/// ```
/// use probe_runtime::{Count, standing};
///
/// let calls = standing("plugin::**")?.attach(Count::new())?;
/// assert_eq!(calls.report().unmatched()[0].term(), "plugin::**");
/// // … load the plugin, whose functions join with the next operation …
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub fn standing(selector: &str) -> Result<ProbeSet, Error> {
    standing_parsed(&Arc::new(Selector::parse(selector)?))
}

/// The same, for a parsed selector.
pub(crate) fn standing_parsed(selector: &Arc<Selector>) -> Result<ProbeSet, Error> {
    Ok(find(selector)?.standing())
}

/// Returns the probes that a selector names; they may be none.
fn find(parsed: &Arc<Selector>) -> Result<ProbeSet, Error> {
    operate(|control, loaded| {
        let mut named = parsed.named();
        let ids: Arc<[_]> = (definitions(control, loaded))
            .filter(|(_, definition)| definition.path_begins_with(&parsed.beginning))
            .filter(|(_, definition)| {
                parsed.matches_noting(*definition, &mut named, || definition.skipped().is_some())
            })
            .map(|(id, _)| id)
            .collect();
        if ids.is_empty() {
            let error = nothing(control, parsed, loaded);
            if matches!(error, Error::Skipped { .. }) {
                return Err(error);
            }
        }
        let unmatched = unmatched(control, parsed, &named, loaded).into();
        let (policy, as_of) = (Policy::default(), control.changes);
        let rule = Some(Arc::new(Rule::Named(Arc::clone(parsed), named)));
        Ok(ProbeSet { ids, policy, unmatched, rule, as_of, room: 0 })
    })
}

/// Returns the terms of a selector that have named no probe.
pub(super) fn unmatched(
    control: &Control,
    parsed: &Selector,
    named: &NamedTerms,
    loaded: KeptLoaded<'_>,
) -> Vec<UnmatchedTerm> {
    let mut unmatched = Vec::new();
    for term in parsed.unnamed(named) {
        // A long list of paths that no longer exist needs no suggestion for each.
        let problem = (unmatched.len() < SHOWN).then(|| nothing_of(control, term, loaded)).flatten();
        unmatched.push(UnmatchedTerm::new(term.to_owned(), problem));
    }
    unmatched
}

fn definitions<'a>(
    control: &'a Control,
    loaded: KeptLoaded<'a>,
) -> impl Iterator<Item = (ProbeId, &'a Definition)> {
    let ids = (0..control.registry.len()).map(ProbeId::new);
    ids.filter_map(move |id| Some((id, control.registry.definition(id, loaded)?)))
}

/// Returns the reason why one term of a selector names nothing.
fn nothing_of(control: &Control, term: &str, loaded: KeptLoaded<'_>) -> Option<String> {
    // A term of a valid selector is a valid selector.
    Some(nothing(control, &Selector::parse(term).ok()?, loaded).to_string())
}

/// Returns the reason why a selector names nothing, with suggestions.
fn nothing(control: &Control, parsed: &Selector, loaded: KeptLoaded<'_>) -> Error {
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
