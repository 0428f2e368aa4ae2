//! ELF files of x86-64, as far as probes need them: loaded memory, notes, relocations, and where
//! functions begin.
//!
//! ```text
//! file ──▶ pages (bounded cache) ──▶ image: segments ─┬─▶ notes
//!                                                     ├─▶ dynamic: symbols, pointers ──▶ hook_calls
//!                                                     └─▶ functions ──▶ straight_line
//! ```
//! Program headers alone lead to the loaded parts, so stripping hides nothing. No number in a file
//! is believed. Each is compared with the file's length, and memory has a bound of its own.

mod dynamic;
mod functions;
mod hook_calls;
mod image;
mod notes;
mod pages;
mod sections;
mod straight_line;

pub use dynamic::{Dynamic, Pointer, Pointers};
pub use functions::{FunctionStarts, Functions, functions};
pub use hook_calls::{HookCalls, Hooks, TailJump};
pub use image::{ElfError, Image, ObjectType, Problem};
pub use notes::{NoteAt, Notes, Runtime, notes};
pub(crate) use pages::usize_of;
pub use pages::{Source, open_regular};
pub use sections::left_by_bolt;
pub use straight_line::passed_once;
