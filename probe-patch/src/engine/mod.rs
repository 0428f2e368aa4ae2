//! Replaces instructions while threads execute them. From the lowest room up:
//!
//! ```text
//!  bytes, error  an instruction; why it was not patched
//!  poke          one write to a word of text
//!  table         a hash table that signal handlers and hooks can look into
//!  protocol      an instruction through a breakpoint: plan, state machine, waits
//!  pages         who may write to which pages, and their former rights
//!  code_pages    new pages of code, within reach of the code that leads there
//!  word          an instruction, in one write or by the protocol
//!  call          a call site, in one write
//!  self_test     proof on the machine at hand
//!  model         (tests) all mixes of old and new bytes that a thread may fetch
//! ```

pub(crate) mod bytes;
pub mod call;
pub(crate) mod code_pages;
pub(crate) mod error;
#[cfg(all(test, not(loom)))]
pub(crate) mod model;
pub(crate) mod pages;
pub(crate) mod poke;
pub(crate) mod protocol;
pub(crate) mod self_test;
pub mod table;
pub mod word;

pub use bytes::{Bytes, MAX_LEN};
pub use error::{PatchError, TextError};
pub use pages::{OpenText, unrestored_bytes};
pub use protocol::synchronize;
