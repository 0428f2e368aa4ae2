//! Writes packets, with the state that they share: the clock, and interned names. Each name is
//! written once, with an id that later packets use.

use std::collections::HashMap;
use std::io::{self, Write};
use std::mem;
use std::sync::Arc;

use prost::Message;
use rustc_hash::FxHashMap;

use super::message::{
    Clock, ClockSnapshot, INCREMENTAL_STATE_CLEARED, InternedData, InternedName, MONOTONIC,
    NEEDS_INCREMENTAL_STATE, SourceLocation, Trace, TracePacket, TracePacketDefaults, TrackEvent,
};
use crate::export::labels::{crate_name, short_path};
use crate::item::Definition;

/// The export is one sequence of packets.
const SEQUENCE_ID: u32 = 1;

pub(super) struct PacketWriter<W> {
    pub(super) writer: W,
    buffer: Vec<u8>,
    /// Holds one packet while it is encoded.
    trace: Trace,
    /// The event of the last packet, whose lists' memory the next one uses.
    spare: TrackEvent,
    pub(super) interner: Interner,
}

impl<W: Write> PacketWriter<W> {
    /// Writes the first packet, which makes `CLOCK_MONOTONIC` the clock of the trace.
    pub(super) fn new(writer: W) -> io::Result<Self> {
        let (buffer, trace, spare) = (Vec::new(), Trace::default(), TrackEvent::default());
        let mut packets = Self { writer, buffer, trace, spare, interner: Interner::default() };
        let clocks = vec![Clock { clock_id: Some(MONOTONIC), timestamp: Some(0) }];
        let snapshot = ClockSnapshot { clocks, primary_trace_clock: Some(MONOTONIC) };
        packets.write_cleared(TracePacket {
            clock_snapshot: Some(Box::new(snapshot)),
            ..TracePacket::default()
        })?;
        Ok(packets)
    }

    /// Returns an event without content.
    pub(super) fn event(&mut self) -> TrackEvent {
        let mut event = mem::take(&mut self.spare);
        event.clear();
        event
    }

    /// Writes a packet, and the names that it introduces.
    pub(super) fn write(&mut self, packet: TracePacket) -> io::Result<()> {
        self.encode(TracePacket { sequence_flags: Some(NEEDS_INCREMENTAL_STATE), ..packet })
    }

    /// Writes a packet at which Perfetto's reader forgets all names.
    pub(super) fn write_cleared(&mut self, packet: TracePacket) -> io::Result<()> {
        self.encode(TracePacket {
            sequence_flags: Some(INCREMENTAL_STATE_CLEARED),
            // Packets that name no clock have times of this one.
            defaults: Some(TracePacketDefaults { timestamp_clock_id: Some(MONOTONIC) }),
            ..packet
        })
    }

    fn encode(&mut self, mut packet: TracePacket) -> io::Result<()> {
        packet.trusted_packet_sequence_id = Some(SEQUENCE_ID);
        packet.interned_data = self.interner.take();
        self.buffer.clear();
        self.trace.packet.push(packet);
        self.trace.encode(&mut self.buffer).map_err(io::Error::other)?;
        let packet = self.trace.packet.pop();
        self.spare = packet.and_then(|packet| packet.track_event).unwrap_or_default();
        self.writer.write_all(&self.buffer)
    }
}

/// The names that the packets since the state was cleared have. Uses memory for each distinct one.
#[derive(Default)]
pub(super) struct Interner {
    categories: Names,
    names: Names,
    annotations: Names,
    /// Ids of source locations, by path, file and line.
    locations: HashMap<(String, String, u32), u64>,
    /// Ids of probes' names, by the addresses of their definitions.
    probes: FxHashMap<usize, Arc<ProbeIds>>,
    /// The names that the next packet has to introduce.
    new: InternedData,
}

/// Ids of the names of one probe.
pub(super) struct ProbeIds {
    /// Kept, so that no other definition gets its address.
    _definition: Arc<Definition>,
    pub(super) name: u64,
    pub(super) category: u64,
    pub(super) location: u64,
    /// Ids of the fields' names, in their order.
    pub(super) fields: Vec<u64>,
}

#[derive(Default)]
struct Names(HashMap<String, u64>);

impl Names {
    fn id(&mut self, name: &str, new: &mut Vec<InternedName>) -> u64 {
        if let Some(id) = self.0.get(name) {
            return *id;
        }
        // Zero is no id.
        let id = self.0.len() as u64 + 1;
        self.0.insert(name.to_owned(), id);
        new.push(InternedName { iid: Some(id), name: Some(name.to_owned()) });
        id
    }
}

impl Interner {
    pub(super) fn category(&mut self, name: &str) -> u64 {
        self.categories.id(name, &mut self.new.event_categories)
    }

    pub(super) fn name(&mut self, name: &str) -> u64 {
        self.names.id(name, &mut self.new.event_names)
    }

    pub(super) fn annotation(&mut self, name: &str) -> u64 {
        self.annotations.id(name, &mut self.new.debug_annotation_names)
    }

    /// Returns the ids of a probe's names.
    pub(super) fn probe(&mut self, probe: &Arc<Definition>) -> Arc<ProbeIds> {
        let address = Arc::as_ptr(probe).addr();
        if let Some(ids) = self.probes.get(&address) {
            return Arc::clone(ids);
        }
        let ids = Arc::new(ProbeIds {
            name: self.name(short_path(&probe.path)),
            category: self.category(crate_name(&probe.path)),
            location: self.location(probe),
            fields: probe.fields.iter().map(|field| self.annotation(field)).collect(),
            _definition: Arc::clone(probe),
        });
        self.probes.insert(address, Arc::clone(&ids));
        ids
    }

    /// Returns the id of a probe's source location; the location's function is the probe's path.
    fn location(&mut self, probe: &Definition) -> u64 {
        let next = self.locations.len() as u64 + 1;
        let id = *self.locations.entry((probe.path.clone(), probe.file.clone(), probe.line)).or_insert(next);
        if id == next {
            self.new.source_locations.push(SourceLocation {
                iid: Some(id),
                file_name: Some(probe.file.clone()),
                function_name: Some(probe.path.clone()),
                line_number: Some(probe.line),
            });
        }
        id
    }

    /// Returns the names that were interned since the last call.
    fn take(&mut self) -> Option<Box<InternedData>> {
        let is_new = self.new != InternedData::default();
        is_new.then(|| Box::new(mem::take(&mut self.new)))
    }
}
