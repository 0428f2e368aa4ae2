//! The binary interface between sites and runtimes, version 1: layouts only, no behaviour.
//!
//! `docs/abi.md` describes it in words, for tools and for other languages. Every table entry begins
//! with its version and size, so that a reader can step over newer entries. All references are
//! self-relative or inline: loading an object with a million sites costs no relocation.

mod definition;
mod kind;
#[cfg(feature = "std")]
pub mod noted;
#[cfg(any(feature = "usdt", feature = "std"))]
pub mod usdt;

// The functions that make values trust their arguments. So only expansions may name them, through
// `__private`.
pub(crate) mod formatted;
pub(crate) mod passage;
pub(crate) mod value;

#[cfg(probe_backend = "patched")]
mod record;

#[cfg(all(feature = "std", probe_backend = "patched"))]
pub use definition::FIELD_COUNT;
pub use definition::{Definition, FieldNames, INLINE_TEXT, field_index};
pub use formatted::Sink;
pub use kind::{Convention, Kind};
#[cfg(feature = "std")]
pub use value::TextStart;
#[cfg(feature = "std")]
pub use value::unreadable_texts;
pub use value::{Field, Type, Value, ValueRef};

#[cfg(probe_backend = "patched")]
pub use record::{
    ENTRY_TYPE, FIELD_TYPE, FieldRecord, NOTE_OWNER, NOTE_TYPE, Note, RUNTIME_AGENT, RUNTIME_OWNER,
    RUNTIME_TYPE, Record, SITE_CALL, SITE_JUMP,
};

/// The version that every table entry written by this crate carries.
pub const VERSION: u16 = 1;
