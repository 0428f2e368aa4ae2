//! Writes packets, with the state that they share.

use std::io::{self, Write};

use prost::Message;

use super::{
    intern::Interner,
    message::{
        Clock, ClockSnapshot, INCREMENTAL_STATE_CLEARED, MONOTONIC, NEEDS_INCREMENTAL_STATE, Trace,
        TracePacket, TracePacketDefaults, TrackEvent,
    },
};

/// The export is one sequence of packets.
const SEQUENCE_ID: u32 = 1;

pub(super) struct PacketWriter<W> {
    writer: W,
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
        let clock = Clock { clock_id: Some(MONOTONIC), timestamp: Some(0) };
        packets.encode(TracePacket {
            clock_snapshot: Some(Box::new(ClockSnapshot {
                clocks: vec![clock],
                primary_trace_clock: Some(MONOTONIC),
            })),
            sequence_flags: Some(INCREMENTAL_STATE_CLEARED),
            defaults: Some(defaults()),
            ..TracePacket::default()
        })?;
        Ok(packets)
    }

    pub(super) fn writer(&mut self) -> &mut W {
        &mut self.writer
    }

    /// Returns an event without content.
    pub(super) fn event(&mut self) -> TrackEvent {
        let TrackEvent { mut category_iids, mut debug_annotations, mut flow_ids, .. } =
            std::mem::take(&mut self.spare);
        category_iids.clear();
        debug_annotations.clear();
        flow_ids.clear();
        TrackEvent { category_iids, debug_annotations, flow_ids, ..TrackEvent::default() }
    }

    /// Writes a packet, and the names that it introduces.
    pub(super) fn write(&mut self, packet: TracePacket) -> io::Result<()> {
        self.encode(TracePacket { sequence_flags: Some(NEEDS_INCREMENTAL_STATE), ..packet })
    }

    /// Forgets the interned names, before a packet that says that hits before it are missing.
    /// Perfetto's reader forgets them there, too.
    pub(super) fn clear_interned(&mut self) {
        self.interner = Interner::default();
    }

    /// Writes a packet that says that hits before it are missing.
    pub(super) fn write_after_loss(&mut self, packet: TracePacket) -> io::Result<()> {
        self.encode(TracePacket {
            sequence_flags: Some(INCREMENTAL_STATE_CLEARED),
            previous_packet_dropped: Some(1),
            defaults: Some(defaults()),
            ..packet
        })
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
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

/// Packets that name no clock have times of this one.
fn defaults() -> TracePacketDefaults {
    TracePacketDefaults { timestamp_clock_id: Some(MONOTONIC) }
}
