//! Listening to probes: selecting, attaching, pausing, holding, detaching.
//!
//! Life of an attachment: [`select`] ▸ [`ProbeSet::attach`] publishes a new hook for each probe,
//! then activates its sites ▸ [`Attachment::pause`] and `resume` toggle them ▸ dropping it
//! publishes hooks without it, makes sites latent unless other attachments listen, waits until no
//! thread is inside its consumer, and drops the consumer.
//!
//! [`Switch`] pauses and resumes some of an attachment's probes, from any thread. `patched_sites`
//! finds their sites in machine code.
//!
//! The state ([`lock`]) has four large parts. The registry knows probes and sites.
//! `AttachmentTable` knows attachments and their slots in probes. `UnswitchedSites` are those that
//! could not be switched. `Reclaimer` keeps memory that hits may still be reading. Operations
//! (`attachments`, `pause`, `switch`, `refresh`, `join`) change attachments first, then publish
//! hooks, then switch sites.
//!
//! One lock guards all state; [`lock`] lists the other locks that may be held with it, their order,
//! and the reasons. While it is held, no consumer's code runs, and no thread waits for a hit to
//! end. Hits never take it. On the thread that holds it, calls of consumers are suppressed and
//! counted, so that a probe in the allocator can't lead back here.

mod attachment;
mod attachments;
#[cfg(probe_values)]
mod c_replacement;
mod consumer;
mod counting;
mod init;
mod join;
mod join_lock;
mod lazy_discovery;
mod lock;
mod pause;
mod probe_attachments;
mod reclaim;
mod refresh;
mod replacement;
mod select;
mod sites;
mod switch;
#[cfg(probe_values)]
mod values;

#[cfg(probe_backend = "patched")]
mod patched_sites;
#[cfg(not(probe_backend = "patched"))]
mod portable_sites;

#[cfg(probe_backend = "patched")]
use patched_sites as site_backend;
#[cfg(not(probe_backend = "patched"))]
use portable_sites as site_backend;

pub use attachment::Attachment;
#[cfg(probe_values)]
pub use c_replacement::{CFunction, CReplacement};
pub use consumer::{Consumer, DeliveryMode, Start};
pub use pause::Hold;
pub use replacement::{Replacement, install};
pub use select::{
    ProbeSet, discover_probes, probes, select, select_persistent, unreadable_objects, unreadable_records,
};
pub use switch::Switch;

pub(crate) use attachment::{HitFilter, Untyped};
pub(crate) use attachments::is_any_attached;
pub(crate) use counting::{Baseline, SlotWords};
pub(crate) use init::{init, is_initialized};
pub(crate) use lazy_discovery::{PeriodicDiscovery, probe_of};
pub(crate) use lock::ForkSafe;
pub(crate) use select::{
    DISCOVERY_INTERVAL, attachment_count, ids_outside_of_modules, infos_with_objects, module_probe_count,
    probe_count, select_parsed, select_persistent_parsed,
};
pub(crate) use switch::SuppressedHits;
#[cfg(probe_backend = "patched")]
pub(crate) use {
    lazy_discovery::discovered_calls,
    patched_sites::{SitePlace, code_generation},
};
