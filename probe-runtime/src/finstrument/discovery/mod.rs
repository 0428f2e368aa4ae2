//! Discovers functions: hooks ▶ table ▶ call sites ▶ pending ▶ provider. The [module above](super)
//! describes the states of a call, and their costs. `probe_hooks` reads code and files.
//!
//! | files | part |
//! |---|---|
//! | `x86_64` | the door to the architecture: decodes calls, switches calls, has stubs |
//! | `call_site`, `chunk` | one call site, and the memory of many |
//! | `table` | finds a call site by its return address; publishes and reclaims call sites |
//! | `call_cache`, `counters`, `callback` | cache of calls; counters; the program's callback |
//! | `tail_jumps`, `first_hit`, `shared_calls` | which calls and jumps are changed, and when |
//! | `redirection` | calls that are bound to other hooks |
//! | `ahead`, `naming`, `reconcile`, `provider` | an operation's steps, for the registry |
//! | `hooks`, `interface` | the ways in: from C, and from programs |

mod ahead;
mod call_cache;
mod call_site;
mod callback;
mod chunk;
mod counters;
mod first_hit;
mod hooks;
mod interface;
mod naming;
mod provider;
mod reconcile;
mod redirection;
mod shared_calls;
mod table;
mod tail_jumps;
mod x86_64;

use super::outcome;
pub use interface::{
    DiscoveryAttachment, HookCall, attach, look_ahead, on_discovery, redirect, start, stats,
    stop_redirecting, stop_telling, text_policy, unpatched,
};
use x86_64::{call, call_patch, stub};
