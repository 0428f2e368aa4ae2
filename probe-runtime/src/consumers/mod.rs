//! The consumers that come with the runtime. They use only the public [`Consumer`](crate::Consumer)
//! interface.

// As in `engine`.
#![cfg_attr(
    not(probe_whole),
    allow(dead_code, unused_imports, unused_macros, reason = "a consumer that is left out uses it")
)]

/// Reads the clock in this field of a meter, the only number that it needs.
macro_rules! reads_clock {
    ($($clock:ident).+) => {
        #[inline(always)]
        fn read(&self, _: crate::engine::per_thread::Local<'_, Self::Head, ()>) -> [u64; 1] {
            [self.$($clock).+.now()]
        }

        #[inline(always)]
        fn read_inline(&self) -> Option<[u64; 1]> {
            self.$($clock).+.counter().map(|now| [now])
        }
    };
}

/// The quick part of a consumer that only passes hits to its `calls`.
macro_rules! hits_quickly {
    ($consumer:ident) => {
        impl crate::engine::dispatch::QuickListener for $consumer {
            #[inline(always)]
            fn hit_quickly(&self, event: &Event<'_>) -> bool {
                self.calls.hit_quickly(event, self)
            }
        }
    };
    () => {
        #[expect(
            unsafe_code,
            reason = "the consumer is alive while it is called; its hits stay in this crate"
        )]
        fn quick(&self) -> Option<crate::engine::dispatch::Quick> {
            // SAFETY: the quick part is this consumer. It reads and writes atomics of its own and
            // of its calls, and reads the processor's counter: `counter` is that, or nothing.
            self.clock.is_counter().then(|| unsafe { crate::engine::dispatch::quick(self) })
        }
    };
}

/// Implements `Debug` by some of a type's fields.
macro_rules! impl_debug {
    ($type:ident: $($field:ident),+) => {
        impl std::fmt::Debug for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let mut shown = f.debug_struct(stringify!($type));
                $(shown.field(stringify!($field), &self.$field);)+
                shown.finish_non_exhaustive()
            }
        }
    };
}

/// Prints an attachment as a report of its consumer.
macro_rules! impl_display {
    ($consumer:ident: $report:ident) => {
        impl std::fmt::Display for crate::engine::control::Attachment<$consumer> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let (report, notes) = (self.$report(), crate::report::notes(self.untyped()));
                // It gets the formatter's width.
                std::fmt::Display::fmt(&crate::report::view(&report, notes), f)
            }
        }
    };
}

mod aggregate;
mod buckets;
mod count;
mod filter;
mod memory;

#[cfg(feature = "call-tree")]
mod call_tree;
#[cfg(feature = "latency")]
mod latency;
#[cfg(feature = "perf")]
mod perf;
#[cfg(feature = "profiler")]
mod profiler;
#[cfg(any(feature = "latency", feature = "trace"))]
mod slow;
#[cfg(feature = "trace")]
mod trace;
#[cfg(feature = "tracing")]
mod tracing;
#[cfg(feature = "perf")]
mod waits;

pub use aggregate::Aggregate;
#[cfg(feature = "call-tree")]
pub use call_tree::CallTree;
pub use count::Count;
#[cfg(feature = "latency")]
pub use latency::{FunctionLatency, Latencies, Latency};
pub use memory::Memory;
#[cfg(feature = "perf")]
pub use perf::{EventCounts, FunctionEvents, MissingEvent, NoEvents, Perf, PerfEvent};
#[cfg(feature = "profiler")]
pub use profiler::{Budget, Estimated, FunctionProfile, Profile, ProfileCost, Profiler, UnusableBudget};
#[cfg(feature = "latency")]
pub use slow::{Slow, SlowCall};
#[cfg(feature = "trace")]
pub use slow::{Trigger, TriggerCall};
#[cfg(feature = "trace")]
pub use trace::{Trace, TraceTotals};
#[cfg(feature = "tracing")]
pub use tracing::{Tracing, TracingTotals};
