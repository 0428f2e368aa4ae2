//! Changing code while threads execute it.
//!
//! - Sites of probes, a batch at a time: see below. [`ProbeSet`](crate::ProbeSet) uses these.
//! - [`word`] replaces any instruction of up to 8 bytes, wherever it lies, at once or
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
//! 1. [`plan`] reads the word, refuses any other instruction than these two, and computes the new
//!    word.
//! 2. The text policy [`TextPolicy::Sealed`] opens the pages of the batch, once for each run of
//!    pages. (`pages` counts pages that somebody else holds open, or opens meanwhile. So nobody
//!    seals pages that another is writing.)
//! 3. `poke` writes the aligned word by one `lock cmpxchg`, expecting the bytes of step 1. A thread
//!    that fetches sees all of the old instruction or all of the new one. Both are 5 bytes long, so
//!    no thread can be between them.
//! 4. `Sealed` restores the rights that the pages had.
//! 5. The visibility [`Visibility::Synchronous`] ends the batch with one barrier that makes every
//!    thread serialise. When it returns, every thread executes the new instruction.
//!    [`Visibility::Eventual`] skips the barrier. Other threads go on to execute the old
//!    instruction for a moment (hundreds of cycles, measured). That is harmless, since both
//!    instructions are complete.
//!
//! Where hits are only counted, a site may hold a third instruction, the JMP to a block of code that
//! counts. Any of the three replaces any other in these same steps.
//!
//! Step 3 rests on an aligned store within a cache line being atomic for instruction fetch. AMD APM
//! vol. 2, 7.6.1, "cross-modifying code", allows changing a naturally aligned quadword without
//! further synchronisation. Intel SDM vol. 3, 9.1.3, promises less; "Living on the edge", sections
//! 3 and 8.1, measures that it holds. If that is not enough,
//! [`ProbeSet::strict`](crate::ProbeSet::strict) goes through `int3`, as [`word`] does.
//!
//! A foreign patch (a debugger's breakpoint, another patcher's code) is never overwritten, since
//! the comparison fails. A crash between the steps leaves each site wholly latent or wholly active.

mod code;
mod plan;
mod report;
mod text;

#[cfg(probe_backend = "x86_64")]
mod batch;
#[cfg(probe_backend = "x86_64")]
mod bytes;
#[cfg(probe_backend = "x86_64")]
pub mod call;
#[cfg(probe_backend = "x86_64")]
mod error;
#[cfg(all(test, probe_backend = "x86_64", not(loom)))]
mod model;
#[cfg(probe_backend = "x86_64")]
mod near;
#[cfg(probe_discovers)]
mod now;
#[cfg(probe_backend = "x86_64")]
mod pages;
#[cfg(probe_backend = "x86_64")]
mod poke;
#[cfg(probe_backend = "x86_64")]
mod quiet;
#[cfg(probe_backend = "x86_64")]
mod refused;
#[cfg(probe_backend = "x86_64")]
mod site;
#[cfg(probe_backend = "x86_64")]
mod strays;
#[cfg(probe_backend = "x86_64")]
mod trapped;

pub use code::{Instruction, Rel32, SITE_LEN, SiteAddr, TextWord};
pub(crate) use plan::Mode;
pub use plan::{SiteState, Step, plan};
pub(crate) use report::unmatched_lines;
pub use report::{Refusal, RefusalReason, Report, UnmatchedTerm};
pub(crate) use text::{ALIAS_WORKS, Access};
pub use text::{TextPolicy, Visibility};

#[cfg(probe_backend = "x86_64")]
pub mod word;

#[cfg(probe_backend = "x86_64")]
pub(crate) use batch::{Batch, Left, exchange};
#[cfg(probe_backend = "x86_64")]
pub use bytes::{Bytes, MAX_LEN};
#[cfg(probe_backend = "x86_64")]
pub use error::PatchError;
#[cfg(probe_backend = "x86_64")]
pub(crate) use near::{map_near, unmap};
#[cfg(probe_discovers)]
pub(crate) use now::{NotNow, read_word, replace_now, write_text, write_text_now, write_word};
#[cfg(probe_backend = "x86_64")]
use pages::WritableRuns;
#[cfg(all(test, probe_backend = "x86_64"))]
pub(crate) use pages::while_locked;
#[cfg(probe_backend = "x86_64")]
pub use pages::{OpenText, TextError, unrestored_bytes};
#[cfg(probe_backend = "x86_64")]
pub(crate) use pages::{READY, forget_gone, set_quieting};
#[cfg(probe_discovers)]
pub(crate) use pages::{close_held, make_room};
#[cfg(probe_backend = "x86_64")]
pub(crate) use quiet::Quieting;
#[cfg(probe_backend = "x86_64")]
pub(crate) use site::Site;
#[cfg(probe_backend = "x86_64")]
pub(crate) use strays::strays;
#[cfg(probe_backend = "x86_64")]
pub(crate) use trapped::alias_works;

/// Waits until every thread of the process executes the code that was written before. One system
/// call, membarrier(2): 0.4 µs alone, 1 to 8 µs with running peers.
///
/// If the system denies that call, each running thread is interrupted instead, which is best
/// effort.
///
/// ```
/// // After patches with eventual visibility, once for all of them:
/// probe_runtime::patch::synchronize();
/// ```
#[cfg(probe_backend = "x86_64")]
pub fn synchronize() {
    while !crate::os::heavy_barrier() {
        // No memory, for a moment.
        std::thread::yield_now();
    }
}
