//! The numbers that consumers export.

use super::Metrics;
use crate::consumers::{Count, Memory};
#[cfg(feature = "latency")]
use crate::consumers::{FunctionLatency, Latency};
use crate::engine::control::{Attachment, Consumer};

/// A consumer whose numbers an [`Exporter`](super::Exporter) can export. `Count`, `Latency` and
/// `Memory` implement it, and your own consumers can.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use probe_runtime::field::ValueRef;
/// use probe_runtime::metrics::{Exporter, Measured, Metrics};
/// use probe_runtime::{Attachment, Consumer, Event, probe, select};
///
/// /// Sums up a field.
/// #[derive(Default)]
/// struct Bytes(AtomicU64);
///
/// impl Consumer for Bytes {
///     fn hit(&self, event: &Event<'_>) {
///         if let Some((_, ValueRef::U64(bytes))) = event.fields().find(|(name, _)| *name == "bytes") {
///             self.0.fetch_add(bytes, Ordering::Relaxed);
///         }
///     }
/// }
///
/// impl Measured for Bytes {
///     fn measure(bytes: &Attachment<Self>, into: &mut Metrics) {
///         into.count("myapp_received_bytes_total", "Bytes received.", &[], bytes.0.load(Ordering::Relaxed));
///     }
/// }
///
/// #[probe]
/// fn receive(request: &str) {
///     probe!("taken_in", bytes = request.len());
/// }
///
/// let exporter = Exporter::new();
/// let _bytes = exporter.watch(select("**::taken_in")?.attach(Bytes::default())?);
/// receive("hello");
/// assert!(exporter.collect().to_prometheus().contains("\nmyapp_received_bytes_total 5\n"));
/// # Ok::<(), probe_runtime::Error>(())
/// ```
pub trait Measured: Consumer + Sized {
    /// Adds all that the consumer has measured since it was attached.
    /// [`Exporter::collect`](super::Exporter::collect) calls this on its own thread. It is called
    /// once more before the consumer is detached.
    fn measure(attachment: &Attachment<Self>, into: &mut Metrics);
}

/// Adds hits of the whole process that reached no consumer.
pub(crate) fn count_lost(hits: u64, into: &mut Metrics) {
    if hits != 0 {
        let help = "Hits that were not counted: there was no memory for their threads' counters.";
        into.count("probe_lost_hits_total", help, &[], hits);
    }
}

impl Measured for Count {
    fn measure(attachment: &Attachment<Self>, into: &mut Metrics) {
        for count in &attachment.untyped().all_counts() {
            let probe = &count.probe;
            let labels = [("probe", probe.path()), ("kind", probe.kind().name()), ("file", probe.file())];
            into.count("probe_hits_total", "Hits of the probe.", &labels, count.hits);
        }
    }
}

impl Measured for Memory {
    fn measure(attachment: &Attachment<Self>, into: &mut Metrics) {
        let allocations = attachment.allocations();
        for it in &allocations {
            let labels = [("probe", it.path()), ("file", it.function().file())];
            let help = "Blocks that the function asked for.";
            into.count("probe_allocations_total", help, &labels, it.allocations());
            let help = "Bytes that the function asked for.";
            into.count("probe_allocated_bytes_total", help, &labels, it.bytes());
            into.count("probe_frees_total", "Blocks that the function freed.", &labels, it.frees());
            into.count("probe_freed_bytes_total", "Bytes that the function freed.", &labels, it.freed());
        }
        count_missed(allocations.lost(), attachment.suppressed(), into);
    }
}

/// Adds calls and hits that a consumer of calls lacks.
fn count_missed(calls: u64, suppressed: u64, into: &mut Metrics) {
    if calls != 0 {
        let help = "Calls that were not measured: too many under way, or no memory.";
        into.count("probe_unmeasured_calls_total", help, &[], calls);
    }
    if suppressed != 0 {
        let help = "Hits that came from inside a consumer, and were not delivered.";
        into.count("probe_suppressed_hits_total", help, &[], suppressed);
    }
}

#[cfg(feature = "latency")]
impl Measured for Latency {
    fn measure(attachment: &Attachment<Self>, into: &mut Metrics) {
        let latencies = attachment.all_latencies();
        latencies.iter().for_each(|it| measure_function(it, into));
        count_missed(latencies.lost(), attachment.suppressed(), into);
    }
}

#[cfg(feature = "latency")]
fn measure_function(it: &FunctionLatency, into: &mut Metrics) {
    let labels = [("probe", it.path()), ("file", it.function().file())];
    let unpaired = it.unpaired();
    for (missing, hits) in [("entry", unpaired.without_entry), ("exit", unpaired.without_exit)] {
        if hits != 0 {
            let help = "Hits whose partner is missing, and that are in no other number.";
            let labels = [labels[0], labels[1], ("missing", missing)];
            into.count("probe_unpaired_hits_total", help, &labels, hits);
        }
    }
    if it.calls() == 0 && it.busy() == 0 && unpaired.cancelled == 0 && unpaired.pending == 0 {
        return;
    }
    let help = "Calls that have ended, by their time from entry to exit.";
    into.histogram("probe_latency_seconds", help, &labels, it.sum(), it.buckets());
    let help = "Time in the function itself, and in no other that is measured.";
    into.time("probe_self_seconds_total", help, &labels, it.own());
    if it.function().is_future() {
        into.time("probe_busy_seconds_total", "Time of the future's polls.", &labels, it.busy());
        let help = "Futures that were dropped before their end.";
        into.count("probe_cancelled_futures_total", help, &labels, unpaired.cancelled);
        let help = "Futures that were entered, and have not ended.";
        let pending = unpaired.pending as f64;
        into.gauge("probe_pending_futures", help, &labels, pending);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_that_were_lost_are_a_counter() {
        let mut metrics = Metrics::default();
        count_lost(0, &mut metrics);
        assert_eq!(metrics.to_prometheus(), "");
        count_lost(3, &mut metrics);
        assert!(metrics.to_prometheus().ends_with("\nprobe_lost_hits_total 3\n"));
    }
}
