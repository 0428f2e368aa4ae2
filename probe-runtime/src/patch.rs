//! Changing code while threads execute it.
//!
//! The crate [`probe_patch`] changes code, also in programs without probes. This module re-exports
//! all of it; only its [`self_test`] returns this crate's [`Error`]. The path
//! `probe_patch` in its examples is `probe_runtime::patch` here.
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

use probe_patch::SelfTestError;

use crate::engine::error::Error;

#[cfg(probe_backend = "patched")]
pub use crate::engine::sites::{
    Bytes, MAX_LEN, OpenText, PatchError, TextError, call, synchronize, unrestored_bytes, word,
};
pub use crate::engine::sites::{
    Instruction, Refusal, RefusalReason, Rel32, Report, SITE_LEN, SiteAddr, SitePlan, SiteState, TextPolicy,
    TextWord, Visibility, plan,
};

/// For programs with probes, whose [`self_test`] returns it:
///
/// ```
/// let seen = probe_runtime::patch::self_test()?;
/// println!("{} patches, {} traps: {seen}", seen.patches, seen.traps);
/// # Ok::<(), probe_runtime::Error>(())
/// ```
///
/// As the crate `probe-patch`, which makes the test, says it:
#[doc(inline)]
pub use probe_patch::SelfTest;

/// Patches functions of its own, in the text of `probe-patch`: an instruction in one word and one
/// that lies across two cache lines, while another thread executes it. Checks each result.
///
/// Takes some milliseconds, and installs the handler of `SIGTRAP` that patching through traps
/// needs. In builds that don't patch (other targets, `--cfg probe_portable`, `--cfg probe_off`)
/// there is nothing to test.
///
/// # Errors
/// [`Error::SelfTest`] names the path that does not work here, and why.
///
/// ```
/// let seen = probe_runtime::patch::self_test()?;
/// println!("{seen}");
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub fn self_test() -> Result<SelfTest, Error> {
    if cfg!(probe_backend = "off") {
        return Ok(SelfTest::default());
    }
    probe_patch::self_test().map_err(|SelfTestError { path, problem, .. }| Error::SelfTest { path, problem })
}
