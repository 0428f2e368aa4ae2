//! Encodes the definitions of a selection's probes for a file.

use std::collections::BTreeSet;

use probe_trace::layout::flag;

use crate::engine::control::ProbeSet;
use crate::engine::registry::ProbeId;
use probe_core::abi::{Convention, Definition, Kind};

/// Returns the payload of a block of definitions: of those that are not `known`, which are added.
pub(super) fn encode(probes: &ProbeSet, known: &mut BTreeSet<ProbeId>) -> Vec<u8> {
    let mut out = Vec::with_capacity(probes.len().saturating_sub(known.len()) * 128);
    probes.with_definitions(|definitions| {
        let new = definitions.filter(|(probe, _)| known.insert(*probe));
        new.for_each(|(probe, definition)| one(number(probe.index()), definition, &mut out));
    });
    out
}

fn one(probe: u32, definition: &Definition, out: &mut Vec<u8>) {
    out.extend(probe.to_le_bytes());
    out.push(definition.kind() as u8);
    let stack_pointer = match definition.convention() {
        Convention::Hidden => flag::FRAME | flag::OWN_FRAME,
        Convention::Call => flag::FRAME,
        Convention::ColdBlock | Convention::KeptColdBlock => 0,
    };
    let is_future = definition.kind() != Kind::Point
        && definition.fields().next() == Some(crate::engine::dispatch::FUTURE);
    out.push(stack_pointer | if is_future { flag::FUTURE } else { 0 });
    out.extend(u16::try_from(definition.field_count()).unwrap_or(u16::MAX).to_le_bytes());
    out.extend(definition.line().to_le_bytes());
    text(definition.path(), out);
    text(definition.file(), out);
    definition.fields().take(definition.field_count()).for_each(|name| text(name, out));
    out.resize(out.len().next_multiple_of(8), 0);
}

fn text(text: &str, out: &mut Vec<u8>) {
    out.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
    out.extend(text.as_bytes());
}

/// Returns a probe's number in files, which is never 0; fewer probes than that have counters.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "see above")]
pub(super) const fn number(probe: usize) -> u32 {
    probe as u32 + 1
}
