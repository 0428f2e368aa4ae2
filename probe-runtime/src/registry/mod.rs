//! Which probes and sites this program has.
//!
//! Life: nothing until the first use; then every loaded object is asked for its tables ([`tables`]), and
//! again whenever objects went; where they only came, these alone ([`arrived`]).
//! A [`ProbeId`] is dense and stays with its probe; a probe whose
//! object was unloaded keeps its id and has no sites. Definitions are grouped by identity (path, file, line,
//! column, kind), so that the copies of one probe in several objects are one probe.
//! It is read and renewed while no object can go ([`freeze`](crate::os::objects::freeze)); what it holds of objects that can
//! be unloaded is good only until the freeze ends.
//! Cost: some 20 ns a site at the first use; one question to the dynamic linker at each later one.

use std::ops::Range;

#[cfg(probe_backend = "x86_64")]
mod arrived;
#[cfg(probe_backend = "x86_64")]
mod blocks;
mod counts;
#[cfg(probe_backend = "x86_64")]
mod defined;
#[cfg(probe_backend = "x86_64")]
mod discovered;
#[cfg(probe_backend = "x86_64")]
mod grouped;
mod info;
pub(crate) mod provider;

#[cfg(probe_backend = "x86_64")]
mod named;
#[cfg(probe_backend = "x86_64")]
mod ranges;
#[cfg(probe_backend = "x86_64")]
mod tables;
#[cfg(probe_backend = "x86_64")]
mod taken;

#[cfg(probe_backend = "x86_64")]
mod loaded;
#[cfg(probe_backend = "x86_64")]
pub(crate) use loaded::Registry;

#[cfg(not(probe_backend = "x86_64"))]
mod collected;
#[cfg(not(probe_backend = "x86_64"))]
pub(crate) use collected::Registry;

#[cfg(all(probe_backend = "portable", probe_definitions = "linked"))]
mod linked;

#[cfg(all(probe_backend = "portable", probe_definitions = "seen"))]
mod seen;
#[cfg(all(probe_backend = "portable", probe_definitions = "seen"))]
pub(crate) use seen::see;

pub use crate::dispatch::ProbeId;
pub use counts::{Counts, ProbeCount};
pub use info::{FieldInfo, ProbeInfo, ProbeState};
use provider::{CallSite, Garbage};

/// What a look at the loaded objects has found.
#[derive(Default)]
pub(crate) struct Change {
    /// Pages of objects that were there and are gone, as far as no object with probes lies there by now.
    pub(crate) gone: Vec<Range<usize>>,
    /// Call sites of theirs that a provider had found.
    pub(crate) unloaded: Vec<Garbage>,
    /// Whether the lists of probes and sites are new.
    pub(crate) is_list_new: bool,
    /// Where they are not: the probes of objects that came, ascending.
    pub(crate) arrived: Vec<ProbeId>,
    /// What a provider has found; if the lists are new, all that it has found.
    pub(crate) found: Vec<(ProbeId, &'static dyn CallSite)>,
}
