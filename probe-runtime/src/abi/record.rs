//! The record: one for each site, that is for each machine-code copy of a probe.
//!
//! It lies in the section `probe_sites`, linked (`SHF_LINK_ORDER`) to the code it describes, so that the
//! linker drops it with a discarded function and keeps the table in the order of the code.

use core::mem::{offset_of, size_of};

/// A site that Rust macros made: NOP5 ↔ JMP to a cold block.
pub const SITE_PROVIDER_RUST: u8 = 1;

/// Where one site is, where it jumps to, and which probe it belongs to.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Record {
    /// [`super::VERSION`] at the time of writing.
    pub version: u8,
    /// Size of this record in bytes: the way to the next one.
    pub size: u8,
    /// What made the site, and so which instructions stand there.
    pub provider: u8,
    /// Zero.
    pub reserved: u8,
    /// The site, relative to this field.
    pub site: i32,
    /// The cold block that an active site jumps to, relative to this field.
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
