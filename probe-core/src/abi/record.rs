//! The record of a site: one for each machine-code copy of a probe.
//!
//! It lies in the section `probe_sites`, linked (`SHF_LINK_ORDER`) to the code it describes. So the
//! linker drops it together with a discarded function, and keeps the table in the order of the
//! code.

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
        Type::ALL.into_iter().find(|ty| *ty as u32 == self.ty)
    }
}

const _: () = {
    assert!(size_of::<FieldRecord>() == 12);
    assert!(offset_of!(FieldRecord, index) == 3);
    assert!(offset_of!(FieldRecord, ty) == 4);
    assert!(offset_of!(FieldRecord, stub) == 8);
};
