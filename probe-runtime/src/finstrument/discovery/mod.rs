//! Discovers functions: hooks ▶ table ▶ discoveries ▶ pending ▶ provider. The [module above](super)
//! describes the states of a call, and their costs.
//!
//! A file names only files of the rows above its own, or earlier ones of its row. A chunk and its
//! discoveries name each other.
//!
//! | files | part |
//! |---|---|
//! | `call`, `call_patch`, `read_call`, `jumps` | the bytes of calls and jumps, and their replacements |
//! | `symbols`, `separate`, `extents`, `loaded` | loaded objects, and the symbols in their files, or in separate ones |
//! | `counters`, `policy`, `tokens`, `fast` | numbers; how text is written; proofs of locks; the cache of calls |
//! | `discovery`, `chunk` | one call site, and the memory of many |
//! | `table`, `garbage`, `callback`, `counted`, `pending` | lists of discoveries: all, retired, told, counted, pending |
//! | `split_calls`, `first_hit`, `tail_jumps`, `shared`, `batch` | changes of a call's bytes |
//! | `publish` | puts calls into the table |
//! | `redirection` | calls that are bound to other hooks |
//! | `reconcile`, `naming`, `ahead`, `deferred_patch`, `provider` | an operation's steps, for the registry |
//! | `hooks`, `interface` | the ways in: from C, and from programs |

mod ahead;
mod batch;
mod call;
mod call_patch;
mod call_site;
mod callback;
mod chunk;
mod counted;
mod counters;
mod deferred_patch;
mod extents;
mod fast;
mod first_hit;
mod garbage;
mod hooks;
mod interface;
mod jumps;
mod loaded;
mod naming;
mod pending;
mod policy;
mod provider;
mod publish;
mod read_call;
mod reconcile;
mod redirection;
mod separate;
mod shared;
mod split_calls;
mod symbols;
mod table;
mod tail_jumps;
mod tokens;

use super::reason;
pub use interface::{
    DiscoveryAttachment, HookCall, attach, look_ahead, on_discovery, redirect, start, stats,
    stop_redirecting, stop_telling, text_policy, unpatched,
};
