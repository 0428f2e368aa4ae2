//! Switching sites: from the bytes found and the state wanted to the bytes written.
//!
//! The protocol for one site, whose five bytes lie in one aligned 8-byte word:
//!
//! ```text
//!  before   0f 1f 44 00 08   NOP5            e9 xx xx xx xx   JMP cold
//!  after    e9 xx xx xx xx   JMP cold        0f 1f 44 00 08   NOP5
//! ```
//! 1. [`plan`]: read the word; refuse what is neither of the two instructions; compute the word wanted.
//! 2. The text policy: [`TextPolicy::Sealed`] opens the pages of the batch, once for each run of pages (`pages`: pages
//!    that somebody else holds open, or opens meanwhile, are counted, so that nobody seals what another is writing).
//! 3. `poke`: one `lock cmpxchg` of the aligned word, expecting the bytes of step 1. A thread that fetches
//!    sees all of the old instruction or all of the new one: an aligned store within a cache line is atomic
//!    for instruction fetch on the processors of both vendors. (AMD APM vol. 2, 7.6.1, "cross-modifying
//!    code": a naturally aligned quadword may be changed without further synchronisation. Intel SDM vol. 3,
//!    9.1.3 promises less; "Living on the edge", sections 3 and 8.1, measures that it holds.) Both
//!    instructions are 5 bytes long, so no thread can be between them.
//! 4. `Sealed` restores the rights that the pages had.
//! 5. The visibility: [`Visibility::Synchronous`] ends the batch with one barrier that makes every thread
//!    serialise; when it returns, every thread executes the new instruction. [`Visibility::Eventual`] skips it:
//!    other threads go on to execute the old instruction for a moment (hundreds of cycles, measured), which is
//!    harmless, since both are complete.
//!
//! What it rests on: a foreign patch (a debugger's breakpoint, another patcher) is never overwritten, since
//! the comparison fails; a crash between the steps leaves each site wholly latent or wholly active.

mod bytes;
mod code;
mod plan;
mod report;
mod text;

#[cfg(probe_backend = "x86_64")]
mod batch;
#[cfg(probe_backend = "x86_64")]
mod error;
#[cfg(probe_backend = "x86_64")]
mod pages;
#[cfg(probe_backend = "x86_64")]
mod poke;

pub use bytes::{Bytes, MAX_LEN};
pub use code::{Instruction, Rel32, SITE_LEN, SiteAddr, TextWord};
pub use plan::{SiteState, Step, plan};
pub use report::{Refusal, RefusalReason, Report};
pub(crate) use text::Access;
pub use text::{TextPolicy, Visibility};

#[cfg(probe_backend = "x86_64")]
pub mod word;

#[cfg(probe_backend = "x86_64")]
pub(crate) use batch::{Batch, Site};
#[cfg(probe_backend = "x86_64")]
pub use error::PatchError;
#[cfg(probe_backend = "x86_64")]
pub use pages::{OpenText, TextError, unrestored_bytes};
#[cfg(probe_backend = "x86_64")]
pub(crate) use pages::{forget_gone, prepare};

/// Waits until every thread of the process executes what was written to code before: one system call, 0.4 µs alone, 1 to
/// 8 µs with running peers. See membarrier(2).
#[cfg(probe_backend = "x86_64")]
pub fn synchronize() {
    crate::os::heavy_barrier();
}
