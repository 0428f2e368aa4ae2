//! Listening to probes: selecting, attaching, pausing, holding, detaching.
//!
//! Life of an attachment: [`select`] ▸ [`ProbeSet::attach`] publishes a new hook for each probe,
//! then activates its sites ▸ [`Attachment::pause`] and `resume` toggle them ▸ dropping it
//! publishes hooks without it, makes sites latent unless other attachments listen, waits until no
//! thread is inside its consumer, and drops the consumer.
//!
//! [`Switch`] pauses and resumes some of an attachment's probes, from any thread. `code` tells
//! where their sites are.
//!
//! The state ([`state`]) has four large parts. The registry knows probes and sites. `Attachments`
//! knows attachments and their parts in probes. `Unswitched` knows the sites that could not be
//! switched. `Reclaimer` keeps memory that hits may still be reading. Operations (`attach`, `pause`,
//! `partial`, `refresh`, `join`) change attachments first, then publish hooks, then switch
//! sites.
//!
//! One lock guards all state; [`lock`] lists the other locks that may be held with it, their order,
//! and the reasons. While it is held, no consumer's code runs, and no thread waits for a hit to
//! end. Hits never take it. On the thread that holds it, calls of consumers are suppressed and
//! counted, so that a probe in the allocator can't lead back here.

mod attach;
mod attached;
mod attachment;
mod attachments;
mod baseline;
mod cells;
#[cfg(all(feature = "profiler", probe_backend = "patched", not(miri)))]
mod code;
mod consumer;
mod counters;
mod counting;
#[cfg(probe_discovers)]
mod discovering;
mod first_hits;
mod garbage;
mod held;
mod hold;
mod hooks;
mod join;
mod lock;
mod looking;
mod members;
mod partial;
mod parts;
mod pause;
mod policy;
mod ready;
mod refresh;
mod remembered;
mod replacement;
mod retired;
mod runs;
mod screen;
mod select;
mod set;
mod standing;
mod state;
mod turn;
mod unsettled;
mod untyped;
mod wants;

#[cfg(not(probe_backend = "patched"))]
mod flags;
#[cfg(probe_backend = "patched")]
mod sites;
#[cfg(probe_backend = "patched")]
mod strays;
#[cfg(probe_backend = "patched")]
mod text;

#[cfg(not(probe_backend = "patched"))]
use flags::{
    HeldText, Unswitched, close_text, forget_unloaded_text, is_still_open, leave_taken, open_text, refuse,
    refuse_taken,
};
#[cfg(probe_backend = "patched")]
use sites::{leave_taken, refuse, refuse_taken};
#[cfg(probe_backend = "patched")]
use strays::Unswitched;
#[cfg(probe_backend = "patched")]
use text::{HeldText, close_text, forget_unloaded_text, is_still_open, open_text};

pub use attachment::Attachment;
#[cfg(all(feature = "profiler", probe_backend = "patched", not(miri)))]
pub(crate) use code::{SitePlace, code_generation};
pub use consumer::Consumer;
pub use hold::Hold;
pub(crate) use looking::Looking;
#[cfg(feature = "trace")]
pub(crate) use partial::SuppressedHits;
pub use partial::Switch;
pub use replacement::{Replacement, install};
#[cfg(feature = "trace")]
pub(crate) use select::select_parsed;
pub(crate) use select::standing_parsed;
pub use select::{select, standing};
pub(crate) use set::BETWEEN_LOOKS;
pub(crate) use set::probe_numbers;
pub use set::{ProbeSet, look_for_probes, probes, unreadable_objects, unreadable_records};
#[cfg(probe_agent)]
pub(crate) use set::{attachment_count, described};
pub use wants::{Start, Wants};

#[cfg(probe_discovers)]
pub(crate) use attachments::is_any_attached;
pub(crate) use baseline::Baseline;
pub(crate) use cells::Cells;
#[cfg(probe_discovers)]
pub(crate) use discovering::{discovered, probe_of};
pub(crate) use held::Held;
#[cfg(probe_discovers)]
pub(crate) use ready::is_ready;
pub(crate) use ready::prepare;
pub(crate) use screen::Screen;
pub(crate) use untyped::Untyped;
