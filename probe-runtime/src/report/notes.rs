//! Notes that a reader of a report needs besides its numbers.

#[cfg(any(feature = "trace", feature = "tracing"))]
use std::fmt;

use crate::engine::control::{HitFilter, Untyped};
use crate::engine::dispatch::lost_hits;
use crate::engine::sites::{Refusal, unmatched_lines};

/// Returns one line for each note that applies. The note on refused sites has a further line for
/// each of them.
pub(crate) fn notes(attachment: &Untyped) -> Vec<String> {
    let mut notes = Vec::new();
    match attachment.suppressed() {
        0 => (),
        1 => notes.push("1 hit came from inside a consumer, and was not delivered".to_owned()),
        hits => notes.push(format!("{hits} hits came from inside a consumer, and were not delivered")),
    }
    notes.extend(attachment.left_out_later());
    notes.extend(attachment.joined_late());
    notes.extend(attachment.hit_filter().into_iter().flat_map(HitFilter::notes));
    if let Some(failure) = attachment.failure() {
        notes.push(format!("the consumer is called no more: {failure}"));
    }
    notes.extend(foreign(&attachment.foreign()));
    if !attachment.report().is_complete() {
        notes.push(attachment.report().to_string());
    }
    // A report of refused sites names its terms, too.
    let said = notes.join("\n");
    notes.extend(unmatched_lines(&attachment.unmatched()).filter(|line| !said.contains(line.as_str())));
    notes
}

/// Describes sites that other code has written to: a line each, up to a few.
pub(crate) fn foreign(strays: &[Refusal]) -> Option<String> {
    const SHOWN: usize = 4;
    let sites = match strays.len() {
        0 => return None,
        1 => "1 site holds other bytes than it was left with, and hits may be missing:".to_owned(),
        sites => format!("{sites} sites hold other bytes than they were left with, and hits may be missing:"),
    };
    let mut lines = vec![sites];
    lines.extend(strays.iter().take(SHOWN).map(|stray| format!("  {stray}")));
    if strays.len() > SHOWN {
        lines.push(format!("  and {} more", strays.len() - SHOWN));
    }
    Some(lines.join("\n"))
}

/// Returns the notes on counts, hits that could not be counted first.
pub(crate) fn notes_of_counts(attachment: &Untyped) -> Vec<String> {
    let mut all: Vec<_> = lost(lost_hits()).into_iter().collect();
    all.append(&mut notes(attachment));
    all
}

fn lost(hits: u64) -> Option<String> {
    match hits {
        0 => None,
        1 => Some("1 hit was lost: there was no memory for its thread's counters".to_owned()),
        _ => Some(format!("{hits} hits were lost: there was no memory for their threads' counters")),
    }
}

/// Writes notes below a text.
#[cfg(any(feature = "trace", feature = "tracing"))]
pub(crate) fn footnotes(notes: &[String], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    notes.iter().try_for_each(|note| write!(f, "\n{note}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_that_were_lost_are_counted() {
        assert_eq!(lost(0), None);
        assert_eq!(lost(1).as_deref(), Some("1 hit was lost: there was no memory for its thread's counters"));
        assert_eq!(
            lost(2).as_deref(),
            Some("2 hits were lost: there was no memory for their threads' counters")
        );
    }
}
