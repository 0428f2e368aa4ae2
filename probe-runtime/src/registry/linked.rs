//! The definitions that the linker has collected in this binary, whichever version of this crate they were made with.
//!
//! `linkme` collects them, and panics when asked for them if two versions of this crate are in one program: each
//! declares the slice, which looks like a mistake. Here it is none: as long as its name is the same, so is the layout of
//! what lies in it (docs/abi.md). So where the bounds of the section have a name, they are read as they are. Elsewhere
//! (Apple's systems, Windows, the BSDs, illumos) two versions remain `linkme`'s panic at the first use.

// Safety: relies on the linker setting `__start_` and `__stop_` to the ends of a section, and on `linkme` and the macros
// putting nothing but definitions into this one.
#![cfg_attr(
    any(target_os = "linux", target_os = "android", target_os = "fuchsia"),
    expect(unsafe_code, reason = "see above")
)]

use crate::abi::Definition;

/// All definitions of this binary, in the order of the linker.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "fuchsia"))]
pub(super) fn definitions() -> &'static [Definition] {
    // SAFETY: both are the linker's; the section exists, since `linkme` keeps an empty array in it.
    unsafe extern "C" {
        #[link_name = "__start_linkme_PROBE_DEFINITIONS_V1"]
        static START: [Definition; 0];
        #[link_name = "__stop_linkme_PROBE_DEFINITIONS_V1"]
        static STOP: [Definition; 0];
    }
    let (start, stop) = ((&raw const START).cast::<Definition>(), &raw const STOP);
    let len = (stop.addr() - start.addr()) / size_of::<Definition>();
    // SAFETY: the section's bytes are definitions one after the other, which live as long as the program.
    unsafe { std::slice::from_raw_parts(start, len) }
}

/// All definitions of this binary, in the order of the linker.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "fuchsia")))]
pub(super) fn definitions() -> &'static [Definition] {
    crate::__private::v1::PROBE_DEFINITIONS_V1.static_slice()
}
