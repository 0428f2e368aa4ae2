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
//! | sums, extremes and histograms of fields | [`Aggregate`] | `sum(bytes) by(path)` | |
//! | the values of fields, or whatever else | a [`Consumer`] of your own | | |
//! | counts and latencies for Prometheus or OpenTelemetry | [`metrics::Exporter`] | `PROBES_OUT=….prom` | `metrics` |
//!
//! Your own consumers can use the same building blocks: [`calls`] pairs entries with exits,
//! [`PerThread`] keeps memory for each thread without the heap, and [`Clock`] reads the time in a
//! few nanoseconds.
//!
//! # Features
//! | feature | |
//! |---|---|
//! | `std` (default) | everything an application needs; without it the crate is `no_std`, and holds what a library needs to ship probes |
//! | `latency`, `call-tree`, `profiler`, `perf`, `trace`, `tracing`, `metrics` | consumers, see above |
//! | `finstrument` | probes in C and C++ objects that were compiled with `-finstrument-functions` |
//! | `agent` | other processes of the same user list probes, attach and read while the program runs: `agent` |
//! | `serde` | `serde::Serialize` for [`Counts`], [`Latencies`] and all other reports, with the members of their `to_json`; for their rows, [`ProbeInfo`] and [`Report`] |
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
#[cfg(feature = "std")]
mod report;
#[cfg(feature = "std")]
mod session;

#[cfg(feature = "std")]
pub use engine::{calls, sites as patch};
#[cfg(feature = "metrics")]
pub use report::metrics;
#[cfg(feature = "agent")]
pub use session::agent;

pub use probe_core::{Field, Kind, Type, ValueRef};

#[cfg(feature = "std")]
pub use {
    consumers::{Aggregate, Count, Group, Groups},
    engine::clock::{Clock, Scale},
    engine::control::{
        Attachment, Consumer, DeliveryMode, Hold, ProbeSet, Replacement, Start, Switch, discover_probes,
        probes, select, select_persistent, unreadable_objects, unreadable_records,
    },
    engine::dispatch::{Event, Fields, lost_hits},
    engine::error::Error,
    engine::per_thread::{Local, PerThread, Zeroed},
    engine::registry::{Counts, FieldInfo, ProbeCount, ProbeId, ProbeInfo, ProbeState},
    engine::self_test::{SelfTest, self_test},
    engine::sites::{Refusal, RefusalReason, Report, TextPolicy, UnmatchedTerm, Visibility},
    session::environment::{EnvGuard, init_from_env},
    session::spec::{
        Format, Rendered, Reporter, Spec, SpecAttachment, SpecAttachments, attach_spec, register,
    },
};
#[cfg(feature = "std")]
pub use {
    probe_core::{failed_captures, unreadable_texts},
    probe_lang::{ParseError, Predicate, Selectable, Selector, SelectorError, Setting, Suggestions},
};

#[cfg(feature = "profiler")]
pub use consumers::{Budget, Estimated, FunctionProfile, Profile, ProfileCost, Profiler, UnusableBudget};
#[cfg(feature = "call-tree")]
pub use consumers::{CallTree, Tree, TreeNode};
#[cfg(feature = "perf")]
pub use consumers::{EventCounts, FunctionEvents, MissingEvent, NoEvents, Perf, PerfEvent};
#[cfg(feature = "latency")]
pub use consumers::{FunctionLatency, FunctionSlow, Latencies, Latency, Slow, SlowCall, SlowCalls};
#[cfg(feature = "trace")]
pub use consumers::{Trace, TraceTotals, Trigger, TriggerCall};
#[cfg(feature = "tracing")]
pub use consumers::{Tracing, TracingTotals};
/// The crate that [`FunctionLatency::histogram`] takes its type from.
#[cfg(feature = "latency")]
pub use hdrhistogram;
/// The crate that [`Tracing::level`] takes its type from.
#[cfg(feature = "tracing")]
pub use tracing_core;

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
