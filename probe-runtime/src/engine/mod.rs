//! The engine: from a definition in memory to a hit that its consumers see.
//!
//! ```text
//! os ▸ entry ▸ sites ▸ dispatch ▸ registry ▸ by_probe ▸ c_values ▸ control
//!    ▸ calls, per_thread, clock ▸ stacks, waits
//! ```

// A feature that is left out leaves out its consumer, and not each function that only that
// consumer calls. Builds with all features, on systems with all services, tell what nobody calls.
#![cfg_attr(
    not(probe_whole),
    allow(dead_code, unused_imports, unused_macros, reason = "a consumer that is left out calls it")
)]

pub(crate) mod by_probe;
pub mod c_values;
pub mod calls;
pub(crate) mod clock;
pub(crate) mod control;
pub(crate) mod dispatch;
pub(crate) mod entry;
pub(crate) mod error;
pub(crate) mod order;
pub(crate) mod os;
pub(crate) mod per_thread;
pub(crate) mod registry;
pub mod sites;
pub(crate) mod stacks;
#[cfg(feature = "perf")]
pub(crate) mod waits;
