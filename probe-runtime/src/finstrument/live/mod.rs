//! Discovers functions: hooks ▶ table ▶ discoveries ▶ pending ▶ provider. The [module above](super)
//! describes the states of a call, and their costs.

mod call;
mod call_patch;
mod callback;
mod chunk;
mod counters;
mod deferred_patch;
mod discovery;
mod extents;
mod fast;
mod first_hit;
mod garbage;
mod growing;
mod hooks;
mod interface;
mod jumps;
mod loaded;
mod naming;
mod pending;
mod policy;
mod provider;
mod read_call;
mod reconcile;
mod shared;
mod split_calls;
mod symbols;
mod table;
mod tail_jumps;
mod tokens;

use super::reason;
pub use interface::{
    Attachment, Discovered, attach, on_discovery, start, stats, stop_telling, text_policy, unpatched,
};
