//! Reports and snapshots of attachments.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use probe_protocol::{Body, FailureKind, MAX_FRAME, ReportForm, encode_part};
use probe_report::{Document, Part, View, text_parts};

use super::PART;
use super::answer::{Out, Stop, cut, done, failed};
use super::attachments::{ClientAttachment, has_snapshots};
#[cfg(feature = "metrics")]
use crate::engine::dispatch::lost_hits;
use crate::engine::os::guarded_file::GuardedFile;
use crate::engine::registry::ProbeId;
#[cfg(feature = "metrics")]
use crate::report::metrics::{Metrics, count_lost};
use crate::report::view;
use crate::session::spec::{Format, Rendered, SpecAttachment};
use probe_lang::format::endings;

fn consumer(attachment: &ClientAttachment, consumer: u32) -> Result<&SpecAttachment, Stop> {
    attachment.consumers.iter().nth(consumer as usize).ok_or_else(|| {
        let (id, len) = (attachment.id, attachment.consumers.len());
        let message = format!("attachment {id} has no consumer {consumer}; it has {len}, from 0");
        failed(FailureKind::Unknown, message)
    })
}

fn known_format(one: &SpecAttachment, format: &str) -> Result<Format, Stop> {
    one.formats().iter().copied().find(|it| it.ending() == format).ok_or_else(|| {
        let format = cut(format.to_owned(), 20);
        let (name, has) = (one.consumer(), endings(one.formats()));
        let message = format!("`{name}` has no report as .{format}; it has {has}");
        failed(FailureKind::Malformed, message)
    })
}

/// Sends the current report of a consumer.
pub(super) fn report(
    attachment: &ClientAttachment,
    number: u32,
    form: &ReportForm,
    out: &Out<'_>,
) -> Result<Body, Stop> {
    let one = consumer(attachment, number)?;
    match form {
        ReportForm::Document { only } => {
            let only: Vec<_> = only.iter().map(|number| ProbeId::new(*number as usize)).collect();
            let Some(source) = one.reported().source(&only) else {
                return file(one, Format::Json.ending(), out);
            };
            // Notes are about all sites, of which each is looked at.
            let mut notes = source.untold();
            notes.extend(if only.is_empty() { one.notes() } else { Vec::new() });
            let (head, rows, rest) = (source.head(), source.rows(), source.rest());
            Document::send(head, rows, rest, bounded(notes), PART, |part| send(&part, out))?;
            Ok(done([]))
        }
        ReportForm::View => {
            let send = |part: Part<'_>| send(&part, out);
            match one.reported().source(&[]) {
                Some(source) => {
                    let View { body, notes } = view(&*source, one.notes());
                    View::new(body, bounded(notes)).send(PART, send)?;
                }
                // The text of a trace also has the events before it written to its file, which the
                // client may read as it grows.
                None => View::text(one.to_string()).send(PART, send)?,
            }
            Ok(done([]))
        }
        ReportForm::File { format } => file(one, format, out),
        _ => Err(failed(FailureKind::Protocol, "this form of a report is not known")),
    }
}

fn send(part: &Part<'_>, out: &Out<'_>) -> Result<(), Stop> {
    let payload = encode_part(out.id, part);
    if payload.len() > MAX_FRAME {
        let message = format!("a row of the report takes {} bytes; a frame has {MAX_FRAME}", payload.len());
        return Err(failed(FailureKind::Limit, message));
    }
    out.send_payload(&payload).map_err(Stop::Channel)
}

/// Cuts notes that no frame holds.
fn bounded(notes: Vec<String>) -> Vec<String> {
    notes.into_iter().map(|note| cut(note, 2 * PART)).collect()
}

/// Sends the content of a report's file.
fn file(one: &SpecAttachment, format: &str, out: &Out<'_>) -> Result<Body, Stop> {
    let format = known_format(one, format)?;
    if one.reported().is_streamed(format) {
        let message = format!("a report as .{} goes to a file; ask for a snapshot", format.ending());
        return Err(failed(FailureKind::Malformed, message));
    }
    let (content, notes) = match format {
        #[cfg(feature = "metrics")]
        Format::Prometheus => {
            let mut metrics = Metrics::default();
            one.reported().measure(&mut metrics);
            count_lost(lost_hits(), &mut metrics);
            (metrics.to_prometheus(), one.notes())
        }
        Format::Text | Format::Json => (one.reported().report(format).content, Vec::new()),
        _ => {
            let Rendered { content, missing } = one.reported().report(format);
            (content, one.notes().into_iter().chain(missing).collect())
        }
    };
    text_parts(&content, PART).try_for_each(|part| out.send(Body::Text(part.to_owned())))?;
    Ok(done(notes))
}

/// Writes what a flight recorder holds to a file.
pub(super) fn snapshot(
    attachment: &ClientAttachment,
    number: u32,
    format: &str,
    file: Option<File>,
) -> Result<Body, Stop> {
    let one = consumer(attachment, number)?;
    let format = known_format(one, format)?;
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
