//! The definitions that the linker has collected in this binary, for any version of this crate.
//!
//! `linkme` collects them. If two versions of this crate are in one program, `linkme` panics when
//! asked for them, since each version declares the slice and that looks like a mistake. It is not a
//! mistake here: definitions under the same name have the same layout (docs/abi.md). So if the
//! section's bounds have names, this module reads the section directly. On other systems (Apple's,
//! Windows, the BSDs, illumos) a program with two versions panics in `linkme` at the first use.

// Safety: relies on the linker setting `__start_` and `__stop_` to the ends of a section, and on
// `linkme` and the macros putting nothing but definitions into this one.
#![cfg_attr(
    any(target_os = "linux", target_os = "android", target_os = "fuchsia"),
    expect(unsafe_code, reason = "see above")
)]

use probe_core::abi::Definition;

/// Returns all definitions of this binary, in the order of the linker.
#[cfg(any(target_os = "linux", target_os = "android", target_os = "fuchsia"))]
pub(super) fn definitions() -> &'static [Definition] {
    // SAFETY: the linker defines both; the section exists, since `linkme` keeps an empty array in
    // it.
    unsafe extern "C" {
        #[link_name = "__start_linkme_PROBE_DEFINITIONS_V1"]
        static START: [Definition; 0];
        #[link_name = "__stop_linkme_PROBE_DEFINITIONS_V1"]
        static STOP: [Definition; 0];
    }
    let (start, stop) = ((&raw const START).cast::<Definition>(), &raw const STOP);
    let len = (stop.addr() - start.addr()) / size_of::<Definition>();
    // SAFETY: the section's bytes are consecutive definitions, which live as long as the program.
    unsafe { std::slice::from_raw_parts(start, len) }
}

/// Returns all definitions of this binary, in the order of the linker.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "fuchsia")))]
pub(super) fn definitions() -> &'static [Definition] {
    probe_core::__private::v1::PROBE_DEFINITIONS_V1.static_slice()
}
