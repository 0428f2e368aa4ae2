//! ELF files of x86-64, as far as probes need them: loaded memory, notes, relocations, and where
//! functions begin.
//!
//! ```text
//! file ──▶ pages (bounded cache) ──▶ image: segments ─┬─▶ notes
//!                                                     ├─▶ dynamic: relocated pointers
//!                                                     └─▶ functions ──▶ function_starts ──▶ straight_line
//! ```
//! Program headers alone lead to the loaded parts, so stripping hides nothing. No number in a file
//! is believed. Each is compared with the file's length, and memory has a bound of its own.

mod dynamic;
mod error;
mod exported;
mod function_starts;
mod functions;
mod hook_calls;
mod image;
mod layout;
mod notes;
mod pages;
mod straight_line;

pub use dynamic::{Pointer, Pointers, needed};
pub use error::{ElfError, Problem};
pub use exported::Exported;
pub use function_starts::FunctionStarts;
pub use functions::{Functions, functions};
pub use hook_calls::{HookCalls, Hooks};
pub use image::{Image, ObjectType};
pub use notes::{NoteAt, Notes, Runtime, notes};
pub use pages::{Source, open_regular};
pub use straight_line::passed_once;
