//! Latent probes: one 5-byte NOP in the code until a consumer attaches.
//!
//! Put `#[probe]` on functions and `probe!("name", field = expr)` into them; ship the program.
//! While no consumer is attached, each site is one NOP: no branch, no load, no spill, and no
//! argument is evaluated. At run time, [`select`] names probes, and [`ProbeSet::attach`] attaches a
//! [`Consumer`] to them: the runtime patches their sites in place, one by one or by the million,
//! while all threads run. Dropping the [`Attachment`] makes the probes latent again.
//!
//! ```
//! use probe_runtime::{Count, probe, select};
//!
//! #[probe] // sites at entry and exit
//! fn handle(request: &str) -> usize {
//!     probe!("parsed", bytes = request.len());
//!     request.len()
//! }
//!
//! let hits = select("**::handle, **::parsed")?.attach(Count::new())?;
//! handle("hello");
//! assert_eq!(hits.total(), 3);
//! println!("{hits}");
//! # Ok::<(), probe_runtime::Error>(())
//! ```
//!
//! # Without a change of code
//! A program whose `main` holds the guard of [`init_from_env`] takes its consumers from the
//! environment. It reports when it ends, on stderr or to the file that `PROBES_OUT` names:
//!
//! ```text
//! PROBES='net::**=latency' ./app
//! PROBES='**=call-tree' PROBES_OUT=/tmp/app.svg ./app      # a flame graph
//! PROBES='**, !net::tls::**=profile(budget=0.5%)' ./app
//! PROBES=list ./app                                        # its probes
//! PROBES=help ./app
//! ```
//!
//! # Consumers
//! | to know | consumer | in `PROBES` | feature |
//! |---|---|---|---|
//! | how often something runs | [`Count`] | `count` | |
//! | how long calls take: mean, percentiles, maximum | [`Latency`] | `latency` | `latency` |
//! | who calls whom; flame graphs | [`CallTree`] | `call-tree` | `call-tree` |
//! | calls and times of all functions, sampled within a budget | [`Profiler`] | `profile` | `profiler` |
//! | each call over a limit, as it ends, with its fields | [`Slow`] | `slow(over=5ms)` | `latency` |
//! | cycles, instructions, cache misses, page faults of functions | [`Perf`] | `perf` | `perf` |
//! | each hit, with its time, thread and fields | [`Trace`] | `trace` | `trace` |
//! | the events before a slow call | [`Trigger`] | `when latency(…) > 5ms then snapshot` | `trace` |
//! | probes as spans and events of `tracing` | [`Tracing`] | `tracing` | `tracing` |
//! | the same for some hits only | [`ProbeSet::attach_if`] | `f[bytes > 1K]=…` | |
//! | who allocates | [`Memory`] | `memory` | |
//! | sums, extremes and histograms of fields; how long locks are held | [`Aggregate`] | `sum(bytes) by(path)` | |
//! | the values of fields, or whatever else | a [`Consumer`] of your own | | |
//! | counts and latencies for Prometheus or OpenTelemetry | [`metrics::Exporter`] | `PROBES_OUT=….prom` | `metrics` |
//!
//! Your own consumers can use the same building blocks: [`calls`] pairs entries with exits,
//! [`PerThread`](consumer::PerThread) keeps memory for each thread without the heap, and
//! [`Clock`](consumer::Clock) reads the time in a few nanoseconds.
//!
//! # Modules
//! Each consumer's report has a module, such as [`latency`]. The others, by purpose:
//!
//! | for | module |
//! |---|---|
//! | fields and their values | [`field`] |
//! | lists of probes, ids and states | [`registry`] |
//! | selectors and conditions | [`selector`] |
//! | texts as in `PROBES`, and your own consumers' names there | [`spec`] |
//! | your own consumers | [`consumer`], [`calls`] |
//! | probes held off, switched, or replaced | [`control`] |
//! | policies of patching, refused sites, changes to any other code | [`patch`] |
//! | hits and fields that were lost | [`losses`] |
//!
//! # Features
//! | feature | |
//! |---|---|
//! | `std` (default) | everything an application needs; without it the crate is `no_std`, and holds what a library needs to ship probes |
//! | `latency`, `call-tree`, `profiler`, `perf`, `trace`, `tracing`, `metrics` | consumers, see above |
//! | `finstrument` | probes in C and C++ objects that were compiled with `-finstrument-functions`, or with [sleds] |
//! | `modules` | probes in functions of shared libraries that nobody prepared: [modules] |
//! | `agent` | other processes of the same user list probes, attach and read while the program runs: `agent` |
//! | `serde` | `serde::Serialize` for [`Counts`](count::Counts), [`Latencies`](latency::Latencies) and all other reports, with the members of their `to_json`; for their rows, [`ProbeInfo`] and [`Report`](patch::Report) |
//! | `usdt` | `#[probe(usdt)]` and `probe!(usdt, …)`: USDT probes for bpftrace, perf and gdb |
//! | `off` | removes all sites from the program, in every crate; for applications only |
//!
//! # Platforms
//! On x86-64 Linux, sites are patched in place. Other targets have the same API over a flag and a
//! branch. With `--cfg probe_off` in `RUSTFLAGS`, or the feature `off`, sites compile to nothing. A
//! library may therefore put a probe anywhere.
//!
//! The oldest supported Rust is 1.88, also for the code that the macros expand to.
#![cfg_attr(
    not(all(
        feature = "latency",
        feature = "call-tree",
        feature = "profiler",
        feature = "perf",
        feature = "trace",
        feature = "tracing",
        feature = "metrics"
    )),
    allow(rustdoc::broken_intra_doc_links, reason = "the table above has consumers of all features")
)]
#![cfg_attr(not(feature = "std"), no_std)]
#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

// The macros name this crate by its path, inside it too.
extern crate self as probe_runtime;

pub use probe_macros::probe;

// For tools that read sites and for tests of the format, which `docs/abi.md` describes.
#[doc(hidden)]
pub use probe_core::abi;

mod point;
mod replaced;

#[cfg(feature = "std")]
mod consumers;
#[cfg(feature = "std")]
mod engine;
#[cfg(feature = "finstrument")]
pub mod finstrument;
#[cfg(feature = "modules")]
pub mod modules;
#[cfg(feature = "std")]
pub mod patch;
#[cfg(feature = "std")]
mod report;
#[cfg(feature = "std")]
mod session;
#[cfg(feature = "finstrument")]
pub mod sleds;

#[cfg(feature = "std")]
pub use engine::calls;
#[cfg(feature = "metrics")]
pub use report::metrics;
#[cfg(feature = "agent")]
pub use session::agent;

pub use probe_core::Kind;

#[cfg(feature = "std")]
pub use {
    consumers::{Aggregate, Count, Memory},
    engine::control::{Attachment, Consumer, ProbeSet, probes, select, select_persistent},
    engine::dispatch::Event,
    engine::error::Error,
    engine::registry::ProbeInfo,
    probe_lang::Selector,
    session::environment::{EnvGuard, init_from_env},
};

#[cfg(feature = "call-tree")]
pub use consumers::CallTree;
#[cfg(feature = "perf")]
pub use consumers::Perf;
#[cfg(feature = "profiler")]
pub use consumers::Profiler;
#[cfg(feature = "tracing")]
pub use consumers::Tracing;
#[cfg(feature = "latency")]
pub use consumers::{Latency, Slow};
#[cfg(feature = "trace")]
pub use consumers::{Trace, Trigger};

/// The report of [`Aggregate`]: groups of hits, with their sums, extremes and histograms.
#[cfg(feature = "std")]
pub mod aggregate {
    pub use probe_report::reports::{Group, Groups, OpenInterval};
}

/// The report of [`CallTree`]: a tree of calls, of one thread or of all.
#[cfg(feature = "call-tree")]
pub mod call_tree {
    pub use probe_report::reports::{Tree, TreeNode};
}

/// The report of [`Count`]: hits of each probe. [`Attachment::counts`] returns it.
#[cfg(feature = "std")]
pub mod count {
    pub use crate::engine::registry::{Counts, ProbeCount};
}

/// The report of [`Latency`]: times of functions, with their histograms.
#[cfg(feature = "latency")]
pub mod latency {
    pub use crate::consumers::{FunctionLatency, Latencies};
    /// The crate that [`FunctionLatency::histogram`] takes its type from.
    pub use hdrhistogram;
    #[cfg(feature = "perf")]
    pub use probe_report::Split;
}

/// The report of [`Memory`]: what functions have allocated and freed.
#[cfg(feature = "std")]
pub mod memory {
    pub use probe_report::reports::{Allocations, FunctionAllocations};
}

/// Events that [`Perf`] counts, such as cycles and cache misses, and its report: the events of each
/// function.
#[cfg(feature = "perf")]
pub mod perf {
    pub use crate::consumers::{EventCounts, FunctionEvents, MissingEvent, NoEvents, PerfEvent};
}

/// The budget of a [`Profiler`], and its report: estimates for each function, and their cost.
#[cfg(feature = "profiler")]
pub mod profile {
    pub use crate::consumers::{Budget, Estimated, FunctionProfile, Profile, ProfileCost, UnusableBudget};
}

/// The report of [`Slow`]: calls over a limit, one by one and for each function.
#[cfg(feature = "latency")]
pub mod slow {
    pub use crate::consumers::SlowCall;
    pub use probe_report::reports::{FunctionSlow, SlowCalls};
}

/// Numbers of hits that a [`Trace`] has written and lost, and the call that a [`Trigger`] acts on.
/// The crate `probe-trace` reads the files.
#[cfg(feature = "trace")]
pub mod trace {
    pub use crate::consumers::{TraceTotals, TriggerCall};
}

/// Numbers of spans and events that [`Tracing`] has made.
#[cfg(feature = "tracing")]
pub mod tracing {
    pub use crate::consumers::TracingTotals;
    /// The crate that [`Tracing::level`](crate::Tracing::level) takes its type from.
    pub use tracing_core;
}

/// Fields of probes: types whose values a site can pass, the values that a consumer sees, and their
/// names and types, which are known without a hit.
pub mod field {
    #[cfg(feature = "std")]
    pub use crate::engine::{dispatch::Fields, registry::FieldInfo};
    pub use probe_core::{Field, Type, ValueRef};
}

/// Parts of your own consumers: answers of a [`Consumer`], memory for each thread, and the time.
///
/// [`calls`] pairs entries with exits, and [`spec::register`] makes a consumer available to
/// `PROBES`.
#[cfg(feature = "std")]
pub mod consumer {
    pub use crate::engine::clock::{Clock, Scale};
    pub use crate::engine::control::{DeliveryMode, Start};
    pub use crate::engine::per_thread::{Local, PerThread, Zeroed};
}

/// Handles beside an [`Attachment`]. [`Hold`](control::Hold) keeps probes off while it lives,
/// [`Switch`](control::Switch) turns some probes of an attachment off and on, and a
/// [`Replacement`](control::Replacement) lets a closure run instead of a function, or a function
/// instead of one of C (`CFunction`, feature `c-values`).
#[cfg(feature = "std")]
pub mod control {
    #[cfg(probe_values)]
    pub use crate::engine::c_values::{CSignature, CType};
    #[cfg(probe_values)]
    #[cfg_attr(docsrs, doc(cfg(feature = "c-values")))]
    pub use crate::engine::control::{CFunction, CReplacement};
    pub use crate::engine::control::{Hold, Replacement, Switch};
}

/// Losses in this process, for the end of a report: hits without memory for their counters, fields
/// that panicked or could not be read, and probes of a later version.
#[cfg(feature = "std")]
pub mod losses {
    pub use crate::engine::control::{unreadable_objects, unreadable_records};
    pub use crate::engine::dispatch::lost_hits;
    pub use probe_core::{failed_captures, unreadable_texts};
}

/// The program's probes: their ids and states, and their discovery after objects were loaded.
/// [`probes`] lists them.
#[cfg(feature = "std")]
pub mod registry {
    pub use crate::engine::control::discover_probes;
    pub use crate::engine::registry::{ProbeId, ProbeState};
}

/// Values that a [`Selector`] can match, mistakes in selectors, suggestions for names that match
/// nothing, and conditions on hits.
#[cfg(feature = "std")]
pub mod selector {
    pub use crate::engine::sites::UnmatchedTerm;
    pub use probe_lang::{Predicate, Selectable, SelectorError, Suggestions};
}

/// Texts such as `net::**=latency`, as in `PROBES`: [`attach_spec`](spec::attach_spec) attaches
/// one. [`register`](spec::register) adds a [`Reporter`](spec::Reporter), a consumer that they can
/// name.
#[cfg(feature = "std")]
pub mod spec {
    pub use crate::session::spec::{
        Format, Rendered, Reporter, Spec, SpecAttachment, SpecAttachments, attach_spec, register,
    };
    pub use probe_lang::{ParseError, Setting};
}

// `docs` is a link to the repository's folder; packages hold copies of its files. The examples are
// compiled and run.
#[cfg(all(
    doctest,
    feature = "agent",
    feature = "call-tree",
    feature = "latency",
    feature = "trace",
    feature = "tracing",
    not(probe_backend = "off")
))]
#[doc = include_str!("../docs/recipes.md")]
mod recipes {}

#[cfg(all(doctest, feature = "trace", not(probe_backend = "off")))]
#[doc = include_str!("../docs/traces.md")]
mod traces {}

#[cfg(all(doctest, feature = "std", not(probe_backend = "off")))]
#[doc = include_str!("../docs/shipping-latent-probes.md")]
mod shipping_latent_probes {}

#[cfg(all(doctest, feature = "usdt"))]
#[doc = include_str!("../docs/usdt.md")]
mod usdt_probes {}

#[cfg(all(doctest, feature = "metrics", not(probe_backend = "off")))]
#[doc = include_str!("../docs/reports-and-metrics.md")]
mod reports_and_metrics {}

#[doc(hidden)]
#[cfg(feature = "std")]
pub mod __preload;

/// The items that macro expansions name. Not public API: it changes only with the ABI's version.
#[doc(hidden)]
pub mod __private {
    pub mod v1;
}
