//! Changing code while threads execute it.
//!
//! The crate [`probe_patch`] changes code, also in programs without probes. This module re-exports
//! all of it except its self-test, which is [`probe_runtime::self_test`](crate::self_test). Where
//! its examples use the path `probe_patch`, use `probe_runtime::patch`.
//!
//! - Batches switch the sites of probes: see below. [`ProbeSet`](crate::ProbeSet) uses these.
//! - [`word`] replaces any instruction of up to 8 bytes, at any alignment. It does so at once or
//!   asynchronously, through a trap if necessary.
//! - [`call`] switches CALLs and JMPs at any alignment on and off, by one write.
//! - [`OpenText`] makes text writable for a while, and restores its rights.
//! - [`synchronize`] waits until every thread executes the code that was written before.
//!
//! # Sites
//! The protocol for one site, whose five bytes lie in one aligned 8-byte word:
//!
//! ```text
//!  before   0f 1f 44 00 08   NOP5            e9 xx xx xx xx   JMP cold
//!  after    e9 xx xx xx xx   JMP cold        0f 1f 44 00 08   NOP5
//! ```
//! 1. [`plan`] reads the word, refuses any instruction other than these two, and computes the new
//!    word.
//! 2. The text policy [`TextPolicy::Sealed`] opens the pages of the batch, once for each run of
//!    pages. (`pages` counts the users of each open page, so no thread seals a page that another
//!    thread is writing.)
//! 3. `poke` writes the aligned word by one `lock cmpxchg`, expecting the bytes of step 1. A thread
//!    that fetches sees all of the old instruction or all of the new one. Both are 5 bytes long, so
//!    no thread can be between them.
//! 4. `Sealed` restores the rights that the pages had.
//! 5. The visibility [`Visibility::Synchronous`] ends the batch with one barrier that makes every
//!    thread serialise. When it returns, every thread executes the new instruction.
//!    [`Visibility::Eventual`] skips the barrier. Other threads still execute the old
//!    instruction for a moment (hundreds of cycles, measured). That is harmless, since both
//!    instructions are complete.
//!
//! If hits are only counted, a site may hold a third instruction: the JMP to a block of code that
//! counts. Any of the three replaces any other by these same steps.
//!
//! Step 3 rests on an aligned store within a cache line being atomic for instruction fetch. AMD APM
//! vol. 2, 7.6.1, "cross-modifying code", allows changing a naturally aligned quadword without
//! further synchronisation. Intel SDM vol. 3, 9.1.3, promises less; "Living on the edge", sections
//! 3 and 8.1, measures that it holds. If that is not enough,
//! [`ProbeSet::strict`](crate::ProbeSet::strict) goes through `int3`, as [`word`] does.
//!
//! A foreign patch (a debugger's breakpoint, another patcher's code) is never overwritten, since
//! the comparison fails. A crash between the steps leaves each site wholly latent or wholly active.

mod access;
mod plan;
mod refusal;
mod report;

#[cfg(probe_backend = "patched")]
mod patched;

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
/// use probe_runtime::{Count, TextPolicy, probe, select};
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
#[cfg(probe_discovers)]
pub(crate) use probe_patch::__runtime::{
    NotNow, close_held, make_room, read_word, replace_now, table, write_text, write_text_now, write_word,
};
#[cfg(probe_backend = "patched")]
#[doc(inline)]
pub use probe_patch::{
    Bytes, MAX_LEN, OpenText, PatchError, TextError, call, synchronize, unrestored_bytes, word,
};
#[cfg(probe_backend = "patched")]
pub(crate) use {
    patched::{Batch, LastState, Site, alias_works, exchange, foreign_writes},
    probe_patch::__runtime::{
        READY, ReentrancyHooks, forget_gone, map_near, renew, set_reentrancy_hooks, unmap,
    },
};
