//! The ELF note that leads to an object's tables.
//!
//! Each assembler context that holds a site emits the note; all notes of one object say the same. A
//! loaded object is found through `dl_iterate_phdr` and `PT_NOTE`, a file through its program
//! headers, so stripping does not hide it. It holds four self-relative 64-bit offsets:
//! `[start, stop)` of the records, then of the definitions.

/// The note's name, with its terminator.
pub const NOTE_OWNER: &[u8; 12] = b"LatentProbe\0";

/// The note's type: the layout of its descriptor.
pub const NOTE_TYPE: u32 = 1;

/// The note's descriptor. Each offset counts from its own address.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Note {
    /// Start of the records.
    pub records_start: i64,
    /// End of the records.
    pub records_stop: i64,
    /// Start of the definitions.
    pub definitions_start: i64,
    /// End of the definitions.
    pub definitions_stop: i64,
}

const _: () = assert!(size_of::<Note>() == 32);

/// The name of the note that a runtime leaves, with its terminator. It says that the object has the
/// application's part: what attaches to probes.
pub const RUNTIME_OWNER: &[u8; 12] = b"LatentOwner\0";

/// The type of that note: its descriptor is one 32-bit word of flags.
pub const RUNTIME_TYPE: u32 = 1;

/// The type of a note of the same name: its descriptor is the distance from itself to a function
/// that starts the agent.
pub const ENTRY_TYPE: u32 = 2;

/// The flag of a runtime that was built with the feature `agent`.
pub const RUNTIME_AGENT: u32 = 1;
