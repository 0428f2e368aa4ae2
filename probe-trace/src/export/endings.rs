//! The endings of trace files, each written here alone, without a dot. The usual one of a format
//! comes first.
//!
//! One file of two crates, a link in one of them: `probe-runtime` knows the endings even if it is
//! built without `probe-trace`.

pub(crate) const TRACE: &str = "probetrace";
pub(crate) const PERFETTO: &[&str] = &["pftrace", "perfetto-trace"];
pub(crate) const CHROME: &[&str] = &["json"];
pub(crate) const FIREFOX: &[&str] = &["firefox.json"];
pub(crate) const FOLDED: &[&str] = &["folded"];
