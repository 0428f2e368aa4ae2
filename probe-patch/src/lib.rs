#![cfg_attr(probe_backend = "patched", doc = include_str!("../README.md"))]
#![cfg_attr(
    not(probe_backend = "patched"),
    doc = "Replaces instructions while threads execute them: not on this target."
)]
#![deny(unsafe_code)]

mod arch;
#[expect(missing_docs, clippy::new_without_default, reason = "no part of the API")]
mod lifecycle;
#[expect(missing_docs, clippy::new_without_default, reason = "no part of the API")]
mod os;
mod self_test;
mod text;

#[cfg(probe_backend = "patched")]
mod bytes;
#[cfg(probe_backend = "patched")]
pub mod call;
#[cfg(probe_backend = "patched")]
mod code_pages;
#[cfg(probe_backend = "patched")]
mod error;
#[cfg(all(test, probe_backend = "patched", not(loom)))]
mod model;
#[cfg(probe_backend = "patched")]
mod pages;
#[cfg(probe_backend = "patched")]
mod poke;
#[cfg(probe_backend = "patched")]
mod table;
#[cfg(probe_backend = "patched")]
pub mod word;

pub use arch::{Instruction, Rel32, SITE_LEN, SiteAddr, TextWord};
pub use self_test::{SelfTest, SelfTestError, self_test};
pub use text::TextPolicy;

#[cfg(probe_backend = "patched")]
pub use {
    bytes::{Bytes, MAX_LEN},
    error::{PatchError, TextError},
    pages::{OpenText, unrestored_bytes},
};

/// The parts that `probe-runtime` of the same version needs beyond the API. Not part of the API:
/// they change with any version.
#[doc(hidden)]
pub mod __runtime {
    pub mod os {
        pub use crate::os::*;
        pub mod kept {
            pub use crate::lifecycle::HeldAcrossFork as Kept;
        }
    }
    #[cfg(probe_backend = "patched")]
    pub mod table {
        pub use crate::table::*;
    }
    pub use crate::lifecycle::{AcrossForks, Rank, Ready};

    #[cfg(probe_backend = "patched")]
    pub use crate::{
        code_pages::{map_near, unmap},
        pages::{
            NotNow, READY, ReentrancyHooks, WritableRuns, check_readable, close_held, forget_gone, make_room,
            renew, set_reentrancy_hooks,
        },
        poke::{poke, read},
        word::{
            backend::Writable,
            nonblocking::{read_word, replace_now, write_text, write_text_now, write_word},
            options::{read_instruction, replace_each, taken},
            trap::nobody_blocks,
        },
    };
}

/// Waits until every thread of the process executes the code that was written before. One system
/// call, membarrier(2): 0.4 µs alone, 1 to 8 µs with running peers.
///
/// If the system denies that call, each running thread is interrupted instead, which is best
/// effort.
///
/// ```
/// // After patches that did not wait, once for all of them:
/// probe_patch::synchronize();
/// ```
#[cfg(probe_backend = "patched")]
pub fn synchronize() {
    while !os::heavy_barrier() {
        // No memory, for a moment.
        std::thread::yield_now();
    }
}
