//! The list of the program's probes and sites.
//!
//! Life: the registry is empty until its first use, which reads the tables of all loaded objects
//! (`patched::tables`). If objects were unloaded, the next use reads all tables again. If objects
//! were only added, it reads the tables of the new ones (`patched`). A [`ProbeId`] is dense and
//! stays with its probe. A probe whose object was unloaded keeps its id and has no sites.
//! Definitions are grouped by identity (path, file, line, column, kind), so copies of one probe in
//! several objects are one probe. The registry is refreshed only while objects can't be unloaded
//! ([`freeze`](crate::engine::os::objects::freeze)). It keeps addresses of definitions, and gives
//! out references for as long as [`KeptLoaded`](crate::engine::os::objects::KeptLoaded) proves that
//! no object is unloaded.
//!
//! Cost: some 20 ns a site at the first use; one query of the dynamic linker at each later use.

use std::ops::Range;

mod counts;
mod info;
pub(crate) mod provider;

#[cfg(probe_backend = "patched")]
mod patched;
#[cfg(probe_backend = "patched")]
pub(crate) use patched::Registry;
#[cfg(probe_values)]
pub(crate) use patched::sites_with_fields;

#[cfg(not(probe_backend = "patched"))]
mod unpatched;
#[cfg(not(probe_backend = "patched"))]
pub(crate) use unpatched::Registry;

pub use crate::engine::dispatch::ProbeId;
pub use counts::{Counts, ProbeCount};
pub use info::{FieldInfo, ProbeInfo, ProbeState};
use provider::{CallSite, RetiredMemory};

/// The changes since the previous refresh.
#[derive(Default)]
pub(crate) struct Change {
    /// Pages of unloaded objects that no object with probes occupies by now.
    pub(crate) gone: Vec<Range<usize>>,
    /// Call sites in unloaded objects that a provider had found.
    pub(crate) unloaded: Vec<RetiredMemory>,
    /// Whether the lists of probes and sites are new.
    pub(crate) is_list_new: bool,
    /// The probes of new objects, ascending. Used only if the lists are not new.
    pub(crate) new_probes: Vec<ProbeId>,
    /// New findings of a provider; all its findings if the lists are new.
    pub(crate) found: Vec<(ProbeId, &'static dyn CallSite)>,
}
