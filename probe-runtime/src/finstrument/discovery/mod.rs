//! Discovers functions: hooks ▶ table ▶ call sites ▶ pending ▶ provider. The [module above](super)
//! describes the states of a call, and their costs.
//!
//! | files | part |
//! |---|---|
//! | `call`, `jumps` | decode calls and jumps: bytes in, instructions out |
//! | `object_files` | symbols, extents of functions, and separate files of debug information |
//! | `call_site`, `chunk` | one call site, and the memory of many |
//! | `table` | finds a call site by its return address; publishes and reclaims call sites |
//! | `call_cache`, `counters`, `callback` | cache of calls; counters; the program's callback |
//! | `call_patch`, `tail_jumps`, `first_hit`, `shared` | change a call's bytes |
//! | `redirection` | calls that are bound to other hooks |
//! | `ahead`, `naming`, `reconcile`, `provider` | an operation's steps, for the registry |
//! | `hooks`, `interface` | the ways in: from C, and from programs |

mod ahead;
mod call;
mod call_cache;
mod call_patch;
mod call_site;
mod callback;
mod chunk;
mod counters;
mod first_hit;
mod hooks;
mod interface;
mod jumps;
mod naming;
mod object_files;
mod provider;
mod reconcile;
mod redirection;
mod shared_calls;
mod table;
mod tail_jumps;

use super::reason;
pub use interface::{
    DiscoveryAttachment, HookCall, attach, look_ahead, on_discovery, redirect, start, stats,
    stop_redirecting, stop_telling, text_policy, unpatched,
};
