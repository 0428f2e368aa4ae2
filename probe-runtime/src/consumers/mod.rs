//! The consumers that come with the runtime. They use only the public [`Consumer`](crate::Consumer)
//! interface.

mod aggregate;
mod buckets;
mod count;
mod filtered;
mod judge;
mod shown;

#[cfg(feature = "call-tree")]
mod call_tree;
#[cfg(feature = "latency")]
mod latency;
#[cfg(feature = "perf")]
mod perf;
#[cfg(feature = "profiler")]
mod profiler;
#[cfg(feature = "latency")]
mod slow;
#[cfg(feature = "trace")]
mod trace;
#[cfg(feature = "tracing")]
mod tracing;
#[cfg(feature = "trace")]
mod trigger;

pub use aggregate::{Aggregate, Group, Groups};
#[cfg(feature = "call-tree")]
pub use call_tree::{CallTree, Tree, TreeNode};
pub use count::Count;
#[cfg(feature = "latency")]
pub use latency::{FunctionLatency, Latencies, Latency};
#[cfg(feature = "perf")]
pub use perf::{EventCounts, FunctionEvents, MissingEvent, NoEvents, Perf, PerfEvent};
#[cfg(feature = "profiler")]
pub use profiler::{Budget, Estimated, FunctionProfile, Profile, ProfileCost, Profiler, UnusableBudget};
#[cfg(feature = "latency")]
pub use slow::{FunctionSlow, Slow, SlowCall, SlowCalls};
#[cfg(feature = "trace")]
pub use trace::{Trace, TraceTotals};
#[cfg(feature = "tracing")]
pub use tracing::{Tracing, TracingTotals};
#[cfg(feature = "trace")]
pub use trigger::{Trigger, TriggerCall};
