//! Calls of the hooks of `-finstrument-functions` in a file, as probes: those that an agent makes
//! of them, for lists; and those that can be switched without an agent.

mod certain;
mod listed;

pub use certain::{CertainCalls, told};
pub(crate) use listed::{FUNCTIONS_AT_ONCE, ProbesWithSites};
pub use listed::{HookProbe, HookProbes, HookSite};
