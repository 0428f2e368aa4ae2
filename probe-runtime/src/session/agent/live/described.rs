//! Attachments and consumers in answers. All of them fit into a frame.

use probe_protocol::{Attached, AttachedConsumer, ConsumerInfo};

use super::MOST_CONSUMERS;
use super::answer::{bounded_lines, cut};
use super::attachments::{ClientAttachment, has_snapshots};
use crate::session::spec::SpecAttachment;

/// The most bytes of an attachment's text, or of a selector.
pub(super) const SPEC: usize = 1000;

/// The most bytes of a consumer's name.
const NAME: usize = 100;

/// The most formats of a consumer.
const FORMATS: usize = 16;

/// The most bytes of the notes on all consumers of a text.
const NOTES: usize = 24 << 10;

/// Returns what a client is told of its new attachment.
pub(super) fn attached(attachment: &ClientAttachment) -> Attached {
    let share = NOTES / attachment.consumers.len().clamp(1, MOST_CONSUMERS);
    let consumers = attachment.consumers.iter().map(|it| one(it, share)).collect();
    Attached { id: attachment.id, consumers }
}

fn one(consumer: &SpecAttachment, notes: usize) -> AttachedConsumer {
    let untyped = consumer.reported().untyped();
    let report = untyped.report();
    let is_whole = report.refused() == 0 && report.unmatched().is_empty();
    let ConsumerInfo { name, formats, .. } = info(consumer);
    AttachedConsumer {
        selector: cut(consumer.selector().to_owned(), SPEC),
        consumer: name,
        formats,
        probes: untyped.probe_count() as u64,
        sites: (report.patched() + report.unchanged()) as u64,
        refused: report.refused() as u64,
        notes: if is_whole { Vec::new() } else { vec![cut(report.to_string(), notes)] },
    }
}

/// Returns what every client is told of a consumer.
pub(super) fn info(consumer: &SpecAttachment) -> ConsumerInfo {
    ConsumerInfo {
        name: cut(consumer.consumer().to_owned(), NAME),
        formats: consumer.formats().iter().take(FORMATS).map(|it| it.ending().to_owned()).collect(),
        has_snapshots: has_snapshots(consumer),
    }
}

/// Returns lines about objects that a status has room for.
pub(super) fn objects(lines: impl IntoIterator<Item = String>) -> Vec<String> {
    bounded_lines(lines.into_iter().map(|it| cut(it, SPEC)))
}

#[cfg(test)]
mod tests {
    use probe_protocol::{AttachmentInfo, Body, MAX_FRAME, OwnRules, Reply, Status, encode_reply};

    use super::*;

    fn fits(body: Body) {
        let bytes = encode_reply(&Reply { id: u32::MAX, body }).len();
        assert!(bytes <= MAX_FRAME, "{bytes}");
    }

    #[test]
    fn the_largest_answers_fit_into_a_frame() {
        let most = |bytes: usize| cut("a".repeat(100_000), bytes);
        let formats = vec!["probetrace".to_owned(); FORMATS];
        let consumer = AttachedConsumer {
            selector: most(SPEC),
            consumer: most(NAME),
            formats: formats.clone(),
            probes: u64::MAX,
            sites: u64::MAX,
            refused: u64::MAX,
            notes: vec![most(NOTES / MOST_CONSUMERS)],
        };
        fits(Body::Attached(Attached { id: u32::MAX, consumers: vec![consumer; MOST_CONSUMERS] }));
        let attachment = AttachmentInfo {
            id: u32::MAX,
            spec: most(SPEC),
            is_kept: true,
            client: u32::MAX,
            is_connected: true,
            milliseconds: u64::MAX,
            consumers: vec![ConsumerInfo { name: most(NAME), formats, has_snapshots: true }],
        };
        fits(Body::Status(Status {
            probes: u32::MAX,
            threads: u32::MAX,
            clients: u32::MAX,
            attachments: vec![attachment; MOST_CONSUMERS],
            of_program: u32::MAX,
            lost_hits: u64::MAX,
            unreadable_records: u64::MAX,
            unreadable_objects: objects(vec!["a".repeat(100_000); 100]),
            rules: Some(OwnRules { file: most(SPEC), rules: u32::MAX, firings: u64::MAX }),
        }));
    }
}
