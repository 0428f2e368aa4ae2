//! The record of a site, one for each machine-code copy of a probe, and the ELF note that leads to
//! an object's records and definitions.
//!
//! The record lies in the section `probe_sites`, linked (`SHF_LINK_ORDER`) to the code that it
//! describes. So the linker drops it together with a discarded function, and keeps the table in the
//! order of the code.
//!
//! Each assembler context that holds a site emits the note; all notes of one object say the same. A
//! loaded object is found through `dl_iterate_phdr` and `PT_NOTE`, a file through its program
//! headers, so stripping does not hide it. It holds four self-relative 64-bit offsets:
//! `[start, stop)` of the records, then of the definitions.

use core::mem::{offset_of, size_of};

use super::value::Type;

/// A site that is a JMP while it is active, to a cold block that calls the stub. The macros of Rust
/// and of `probe.h` make such sites.
pub const SITE_JUMP: u8 = 1;
/// A site that is a CALL while it is active, of the stub itself. It needs a place where no data
/// lies below the stack pointer.
pub const SITE_CALL: u8 = 2;

/// Not a site, but the type of a field, as one of the probe's sites passes it: [`FieldRecord`].
pub const FIELD_TYPE: u8 = 3;

/// The place of a site, the target of its jump, and its probe.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Record {
    /// [`super::VERSION`] at the time of writing.
    pub version: u8,
    /// Size of this record in bytes: the distance to the next one.
    pub size: u8,
    /// The instruction of an active site: [`SITE_JUMP`] or [`SITE_CALL`].
    pub form: u8,
    /// Zero.
    pub reserved: u8,
    /// The site, relative to this field.
    pub site: i32,
    /// The target of an active site, the cold block or the stub, relative to this field.
    pub target: i32,
    /// The probe's stub, relative to this field; its first instruction names the definition.
    pub stub: i32,
}

const _: () = {
    assert!(size_of::<Record>() == 16);
    assert!(offset_of!(Record, site) == 4);
    assert!(offset_of!(Record, target) == 8);
    assert!(offset_of!(Record, stub) == 12);
};

/// The type of a field, recorded by the code that passes it, since only the compiler knows the
/// inferred type. It lies among the records, linked to that code. Copies of a generic function may
/// disagree.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FieldRecord {
    /// The same as in [`Record`].
    pub version: u8,
    /// Size of this record in bytes: the distance to the next one.
    pub size: u8,
    /// [`FIELD_TYPE`].
    pub form: u8,
    /// Index of the field, from 0.
    pub index: u8,
    /// A [`Type`], as a number.
    pub ty: u32,
    /// The probe's stub, relative to this field.
    pub stub: i32,
}

impl FieldRecord {
    /// Returns the type; `None` if this reader does not know it.
    pub fn ty(&self) -> Option<Type> {
        Type::from_number(self.ty.into())
    }
}

const _: () = {
    assert!(size_of::<FieldRecord>() == 12);
    assert!(offset_of!(FieldRecord, index) == 3);
    assert!(offset_of!(FieldRecord, ty) == 4);
    assert!(offset_of!(FieldRecord, stub) == 8);
};

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
