//! Consumers of this process as readings of the rules' engine.

use std::time::Instant;

use crate::consumers::{Aggregate, Count};
#[cfg(feature = "latency")]
use crate::consumers::{FunctionLatency, Latency};
use crate::engine::registry::ProbeCount;
use crate::session::spec::{SpecAttachment, SpecAttachments};
use probe_core::abi::Kind;
#[cfg(feature = "latency")]
use probe_lang::rules::Bucket;
use probe_lang::rules::{Reading, Row, RowKind};
use probe_report::reports::Group;

/// Reads the consumer of a figure, which was attached at this time.
pub(super) fn reading(attached: &SpecAttachments, since: Instant) -> Reading {
    let rows = attached.iter().flat_map(rows).collect();
    Reading { time: since.elapsed(), rows }
}

fn rows(consumer: &SpecAttachment) -> Vec<Row> {
    if let Some(count) = consumer.attachment::<Count>() {
        return count.counts().iter().map(hits).collect();
    }
    if let Some(aggregate) = consumer.attachment::<Aggregate>() {
        return aggregate.groups().iter().map(group).collect();
    }
    #[cfg(feature = "latency")]
    if let Some(latency) = consumer.attachment::<Latency>() {
        return latency.latencies().iter().map(times).collect();
    }
    Vec::new()
}

fn hits(ProbeCount { probe, hits }: &ProbeCount) -> Row {
    let kind = match probe.kind() {
        Kind::Entry | Kind::Point => RowKind::Begin,
        Kind::Exit => RowKind::Exit,
        _ => RowKind::Other,
    };
    let name = format!("{} ({}:{})", probe.path(), probe.file(), probe.line());
    Row { name, kind, count: *hits, ..Row::default() }
}

fn group(group: &Group) -> Row {
    let (min, max) = (Some(group.min()), Some(group.max()));
    Row { name: group.path().to_owned(), count: group.count(), sum: group.sum(), min, max, ..Row::default() }
}

#[cfg(feature = "latency")]
#[expect(clippy::cast_precision_loss, reason = "times are compared with limits")]
fn times(it: &FunctionLatency) -> Row {
    let bucket = |(number, time, calls)| Bucket { number: number as u64, time, calls };
    let function = it.function();
    Row {
        name: format!("{} ({}:{})", function.path(), function.file(), function.line()),
        count: it.calls(),
        sum: it.sum() as f64,
        max: (it.calls() != 0).then(|| it.max() as f64),
        buckets: it.numbered_buckets().map(bucket).collect(),
        ..Row::default()
    }
}
