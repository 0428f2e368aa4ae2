//! Reports and snapshots of attachments.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use probe_protocol::{Body, FailureKind};

use super::attachments::{ClientAttachment, flush, has_snapshots};
use super::out::{Out, done};
use super::stop::{Stop, failed};
use super::{PART, PATIENCE};
#[cfg(feature = "metrics")]
use crate::engine::dispatch::lost_hits;
use crate::engine::os::guarded_file::GuardedFile;
use crate::engine::registry::ProbeId;
#[cfg(feature = "metrics")]
use crate::report::metrics::Metrics;
use crate::session::spec::{Format, Rendered, SpecAttachment};
use probe_lang::error::floor_char_boundary;
use probe_lang::format::endings;

fn chosen<'a>(
    attachment: &'a ClientAttachment,
    consumer: u32,
    format: &str,
) -> Result<(&'a SpecAttachment, Format), Stop> {
    let Some(one) = attachment.consumers.iter().nth(consumer as usize) else {
        let (id, len) = (attachment.id, attachment.consumers.len());
        let message = format!("attachment {id} has no consumer {consumer}; it has {len}, from 0");
        return Err(failed(FailureKind::Unknown, message));
    };
    let known = one.formats().iter().copied().find(|it| it.ending() == format);
    let Some(format) = known else {
        let format = super::stop::cut(format.to_owned(), 20);
        let (name, has) = (one.consumer(), endings(one.formats()));
        let message = format!("`{name}` has no report as .{format}; it has {has}");
        return Err(failed(FailureKind::Malformed, message));
    };
    Ok((one, format))
}

/// Sends the current report of a consumer, or that of the functions with `only` these probes. If it
/// is a trace, its file has the events before.
pub(super) fn report(
    attachment: &ClientAttachment,
    consumer: u32,
    format: &str,
    only: &[u32],
    out: &Out<'_>,
) -> Result<Body, Stop> {
    let (one, format) = chosen(attachment, consumer, format)?;
    if one.reported().is_streamed(format) {
        let message = format!("a report as .{} goes to a file; ask for a snapshot", format.ending());
        return Err(failed(FailureKind::Malformed, message));
    }
    let (content, notes): (_, Vec<_>) = match format {
        Format::Text => {
            // The client may read the file as it grows.
            let missing = flush(one, PATIENCE);
            (one.to_string(), missing.into_iter().collect())
        }
        #[cfg(feature = "metrics")]
        Format::Prometheus => {
            let mut metrics = Metrics::default();
            one.reported().measure(&mut metrics);
            metrics.count_lost(lost_hits());
            (metrics.to_prometheus(), one.notes())
        }
        _ => {
            let only: Vec<_> = only.iter().map(|number| ProbeId::new(*number as usize)).collect();
            let Rendered { content, missing } = one.reported().report_only(format, &only);
            // Notes are about all sites, of which each is looked at.
            let notes = if only.is_empty() { one.notes() } else { Vec::new() };
            (content, notes.into_iter().chain(missing).collect())
        }
    };
    let mut rest = content.as_str();
    while !rest.is_empty() {
        let (part, after) = rest.split_at(floor_char_boundary(rest, PART));
        out.send(Body::Text(part.to_owned()))?;
        rest = after;
    }
    Ok(done(notes))
}

/// Writes what a flight recorder holds to a file.
pub(super) fn snapshot(
    attachment: &ClientAttachment,
    consumer: u32,
    format: &str,
    file: Option<File>,
) -> Result<Body, Stop> {
    let (one, format) = chosen(attachment, consumer, format)?;
    if !has_snapshots(one) || !one.reported().is_streamed(format) {
        let [others @ .., last] = &Format::SNAPSHOTS.map(|it| format!(".{}", it.ending()));
        let message = format!(
            "`{}` has no snapshots as .{}; `trace(flight)` has: as {} and {last}",
            one.consumer(),
            format.ending(),
            others.join(", ")
        );
        return Err(failed(FailureKind::Malformed, message));
    }
    let Some(file) = file else {
        return Err(failed(FailureKind::Protocol, "the snapshot's file is missing"));
    };
    let file = GuardedFile::new(file).map_err(|error| unwritable(&error))?;
    let mut file = BufWriter::new(file);
    let written = one.reported().write(format, &mut file).and_then(|missing| {
        file.flush()?;
        Ok(missing)
    });
    match written {
        Ok(missing) => Ok(done(missing)),
        Err(error) => Err(unwritable(&error)),
    }
}

fn unwritable(error: &io::Error) -> Stop {
    failed(FailureKind::File, format!("the snapshot can't be written: {error}"))
}
