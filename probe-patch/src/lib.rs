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
mod engine;

pub use arch::{Instruction, Rel32, SITE_LEN, SiteAddr, TextWord};
pub use self_test::{SelfTest, SelfTestError, self_test};
pub use text::TextPolicy;

#[cfg(probe_backend = "patched")]
pub use engine::{
    Bytes, MAX_LEN, OpenText, PatchError, TextError, call, synchronize, unrestored_bytes, word,
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
    pub use crate::lifecycle::{AcrossForks, Rank, Ready};

    #[cfg(probe_backend = "patched")]
    pub use crate::engine::{
        code_pages::{map_near, map_near_with_data, unmap},
        pages::{
            NotNow, READY, ReentrancyHooks, WritableRuns, check_readable, close_held, forget_gone, make_room,
            renew, set_reentrancy_hooks,
        },
        poke::{poke, read},
        table,
        word::{
            nonblocking::{read_word, replace_now, write_text, write_text_now, write_word},
            options::{read_instruction, replace_each, taken},
            pending::Writable,
            trap::nobody_blocks,
        },
    };
}
