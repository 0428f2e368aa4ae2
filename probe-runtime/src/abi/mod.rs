//! The binary interface between sites and runtimes, version 1: layouts only, no behaviour.
//!
//! `docs/abi.md` is the same in words, for tools and for other languages. Every table entry begins
//! with its version and size, so that a reader steps over what is newer than itself. All references
//! are self-relative or inline: loading an object with a million sites costs no relocation.

mod definition;
mod fields;
mod kind;

// What makes values takes their words for what it says they are. So expansions alone may name it
// (`__private`), and nobody else.
pub(crate) mod formatted;
pub(crate) mod passage;
pub(crate) mod value;

#[cfg(probe_backend = "x86_64")]
mod note;
#[cfg(probe_backend = "x86_64")]
mod record;

pub use definition::{Definition, INLINE_TEXT};
pub use fields::{FieldNames, field_index};
pub use formatted::Sink;
pub use kind::{Convention, Kind};
pub use value::{Field, Type, Value, ValueRef};

#[cfg(probe_backend = "x86_64")]
pub use note::{NOTE_OWNER, NOTE_TYPE, Note};
#[cfg(probe_backend = "x86_64")]
pub use record::{FIELD_TYPE, FieldRecord, Record, SITE_CALL, SITE_JUMP};

/// The version that every table entry written by this crate carries.
pub const VERSION: u16 = 1;
