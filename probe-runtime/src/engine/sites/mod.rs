//! Plans and batches of sites, and their outcomes. The docs of [`patch`](crate::patch) have the
//! protocol for a site, and the reasons why it holds.

mod access;
mod plan;
mod refusal;
mod report;

/// Sites whose text is patched: their instructions, batches that switch them, and the writes of
/// others that such a batch finds.
#[cfg(probe_backend = "patched")]
mod patched {
    mod batch;
    mod foreign_writes;
    mod site;
    mod trap;

    pub(crate) use batch::{Batch, LastState, exchange};
    pub(crate) use foreign_writes::foreign_writes;
    pub(crate) use site::Site;
    pub(crate) use trap::alias_works;
    #[cfg(probe_discovers)]
    pub(crate) use trap::reason as reason_of;
}

pub use access::Visibility;
pub(crate) use access::{ALIAS_WORKS, Access};
pub(crate) use plan::Mode;
pub use plan::{SitePlan, SiteState, plan};
#[doc(inline)]
pub use probe_patch::{Instruction, Rel32, SITE_LEN, SiteAddr, TextWord};
pub use refusal::{Refusal, RefusalReason};
pub(crate) use report::unmatched_lines;
pub use report::{Report, UnmatchedTerm};

/// For probes:
///
/// ```
/// use probe_runtime::patch::TextPolicy;
/// use probe_runtime::{Count, probe, select};
///
/// #[probe]
/// fn toggled() {}
///
/// // The text stays writable while the attachment lives, so pausing takes no system call for it.
/// let hits = select("**::toggled kind=entry")?.text_policy(TextPolicy::Open).attach(Count::new())?;
/// toggled();
/// hits.pause();
/// toggled();
/// assert_eq!(hits.total(), 1);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
///
/// In general, from the documentation of the crate `probe-patch` (replace `probe_patch` by
/// `probe_runtime::patch`):
#[doc(inline)]
pub use probe_patch::TextPolicy;

#[cfg(all(test, probe_backend = "patched"))]
pub(crate) use probe_patch::__runtime::WritableRuns;
#[cfg(probe_backend = "patched")]
#[doc(inline)]
pub use probe_patch::{
    Bytes, MAX_LEN, OpenText, PatchError, TextError, call, synchronize, unrestored_bytes, word,
};
/// For providers, which switch instructions of their own.
#[cfg(probe_discovers)]
pub(crate) use {
    patched::reason_of,
    probe_patch::__runtime::{Writable, check_readable, map_near_with_data, replace_each},
    word::Plan,
};
#[cfg(probe_backend = "patched")]
pub(crate) use {
    patched::{Batch, LastState, Site, alias_works, exchange, foreign_writes},
    probe_patch::__runtime::{
        NotNow, READY, ReentrancyHooks, close_held, forget_gone, make_room, map_near, read_word, renew,
        replace_now, set_reentrancy_hooks, table, unmap, write_text, write_text_now, write_word,
    },
};
