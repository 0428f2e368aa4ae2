//! Perfetto's protobuf traces.
//!
//! The export is one sequence of packets. The first one makes `CLOCK_MONOTONIC` the clock of the
//! trace. Processes, threads, futures, and counters are tracks. Names are short; the source
//! location of an event has the full path as its function.
//!
//! - Polls of a future on threads have a flow, which leads from one to the next.
//! - A point with exactly one numeric field is a counter, too, below its process.
//! - Lost hits are an instant. Its packet says that data before it is missing, so Perfetto lists
//!   the loss in the trace's info.

mod intern;
mod message;
mod packets;
mod tracks;

#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::sync::Arc;

#[cfg(test)]
pub(super) use message::Trace;
pub(super) use message::TracePacket;
use message::{
    BOOTTIME, COUNTER, Clock, ClockSnapshot, DebugAnnotation, INSTANT, MONOTONIC, REALTIME, SLICE_BEGIN,
    SLICE_END, TrackEvent,
};
use packets::PacketWriter;
use tracks::Tracks;

use super::counter::counter_value;
use super::sink::Sink;
use crate::calls::{Begin, End, Fields, Instant, Slice, Step, Track};
use crate::item::{Definition, FieldValue, Gap};
use crate::layout::reading;

pub(super) struct Perfetto<W> {
    packets: PacketWriter<W>,
    tracks: Tracks,
}

impl<W: Write> Perfetto<W> {
    pub(super) fn new(writer: W) -> io::Result<Self> {
        Ok(Self { packets: PacketWriter::new(writer)?, tracks: Tracks::default() })
    }

    pub(super) fn writer(&mut self) -> &mut W {
        self.packets.writer()
    }

    /// Writes a reading of all clocks, so that Perfetto knows the calendar time, and can show the
    /// trace beside one of the kernel.
    pub(super) fn write_clocks(&mut self, now: &[u64; reading::WORDS]) -> io::Result<()> {
        let clocks = [
            (MONOTONIC, now[reading::MONOTONIC]),
            (REALTIME, now[reading::REAL]),
            (BOOTTIME, now[reading::BOOT]),
        ];
        let clocks = clocks.map(|(id, time)| Clock { clock_id: Some(id), timestamp: Some(time) });
        // The first packet has named the clock of the trace; a reader may refuse to hear it again.
        let snapshot = ClockSnapshot { clocks: clocks.to_vec(), primary_trace_clock: None };
        self.packets.write(TracePacket { clock_snapshot: Some(Box::new(snapshot)), ..TracePacket::default() })
    }

    fn describe(&mut self, descriptor: message::TrackDescriptor) -> io::Result<()> {
        self.packets
            .write(TracePacket { track_descriptor: Some(Box::new(descriptor)), ..TracePacket::default() })
    }

    fn write(&mut self, time: u64, event: TrackEvent) -> io::Result<()> {
        self.packets.write(TracePacket {
            timestamp: Some(time),
            track_event: Some(event),
            ..TracePacket::default()
        })
    }

    fn begin(&mut self, begin: &Begin) -> io::Result<()> {
        let probe = begin.fields.definition();
        if let (Track::Future(id), Slice::Future) = (begin.track, begin.slice) {
            let descriptor = self.tracks.future(id, probe);
            self.describe(descriptor)?;
        }
        let mut event = self.event(SLICE_BEGIN, begin.track);
        // A poll or a wait on the future's own track has its kind as its name.
        let is_part = matches!(begin.track, Track::Future(_)) && begin.slice != Slice::Future;
        self.name(&mut event, probe);
        if is_part {
            event.name_iid = Some(self.packets.interner.name(begin.slice.name()));
        }
        self.annotate(&mut event, &begin.fields);
        if begin.began_before {
            self.note(&mut event, "probe.began_before", true);
        }
        event.flow_ids.extend(begin.future.and_then(|id| self.tracks.id(Track::Future(id))));
        self.write(begin.time, event)
    }

    fn end(&mut self, end: &End) -> io::Result<()> {
        let mut event = self.event(SLICE_END, end.track);
        if let Some(fields) = &end.fields {
            self.annotate(&mut event, fields);
        }
        if let Some(cause) = end.ending.cause() {
            self.note(&mut event, "probe.ending", cause);
        }
        if let (Track::Future(id), Slice::Future) = (end.track, end.slice) {
            self.tracks.end_future(id);
        }
        self.write(end.time, event)
    }

    fn instant(&mut self, instant: &Instant) -> io::Result<()> {
        let probe = instant.fields.definition();
        let mut event = self.event(INSTANT, Track::Thread(instant.thread));
        self.name(&mut event, probe);
        self.annotate(&mut event, &instant.fields);
        if instant.lacks_entry {
            self.note(&mut event, "probe.lacks_entry", true);
        }
        self.write(instant.time, event)?;
        counter_value(instant).map_or(Ok(()), |(field, value)| self.count(instant, field, value))
    }

    /// Writes the value of a point's field to its counter.
    fn count(&mut self, instant: &Instant, field: &str, value: &FieldValue) -> io::Result<()> {
        let probe = instant.fields.definition();
        let (uuid, descriptor) = self.tracks.counter(instant.thread, probe, field);
        if let Some(descriptor) = descriptor {
            self.describe(descriptor)?;
        }
        let mut event = TrackEvent { kind: Some(COUNTER), track_uuid: Some(uuid), ..TrackEvent::default() };
        match *value {
            FieldValue::I64(value) => event.counter_value = Some(value),
            FieldValue::F64(value) => event.double_counter_value = Some(value),
            FieldValue::U64(value) => match i64::try_from(value) {
                Ok(value) => event.counter_value = Some(value),
                Err(_) => event.double_counter_value = Some(value as f64),
            },
            _ => return Ok(()),
        }
        self.write(instant.time, event)
    }

    fn gap(&mut self, gap: &Gap) -> io::Result<()> {
        self.packets.clear_interned();
        let mut event = self.event(INSTANT, Track::Thread(gap.thread));
        let interner = &mut self.packets.interner;
        event.category_iids.push(interner.category("probe"));
        event.name_iid = Some(interner.name(&format!("{} events lost", gap.lost)));
        self.note(&mut event, "lost", gap.lost);
        self.note(&mut event, "nanoseconds", gap.end - gap.begin);
        self.packets.write_after_loss(TracePacket {
            timestamp: Some(gap.begin),
            track_event: Some(event),
            ..TracePacket::default()
        })
    }

    fn event(&mut self, kind: i32, track: Track) -> TrackEvent {
        let mut event = self.packets.event();
        event.kind = Some(kind);
        event.track_uuid = self.tracks.id(track);
        event
    }

    fn name(&mut self, event: &mut TrackEvent, probe: &Arc<Definition>) {
        let (_, ids) = &*self.packets.interner.probe(probe);
        event.name_iid = Some(ids.name);
        event.category_iids.push(ids.category);
        event.source_location_iid = Some(ids.location);
    }

    fn annotate(&mut self, event: &mut TrackEvent, fields: &Fields) {
        if fields.numbered().next().is_none() {
            return;
        }
        let (_, ids) = &*self.packets.interner.probe(fields.definition());
        event.debug_annotations.extend(fields.numbered().map(|(number, value)| DebugAnnotation {
            name_iid: ids.fields.get(number).copied(),
            ..value.into()
        }));
    }

    fn note(&mut self, event: &mut TrackEvent, name: &str, value: impl Into<DebugAnnotation>) {
        let name_iid = Some(self.packets.interner.annotation(name));
        event.debug_annotations.push(DebugAnnotation { name_iid, ..value.into() });
    }
}

impl<W: Write> Sink for Perfetto<W> {
    fn step(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::Thread(thread) => {
                for descriptor in self.tracks.thread(thread) {
                    self.describe(descriptor)?;
                }
                Ok(())
            }
            Step::Begin(begin) => self.begin(begin),
            Step::End(end) => self.end(end),
            Step::Instant(instant) => self.instant(instant),
            Step::Gap(gap) => self.gap(gap),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.packets.flush()
    }
}

impl From<&FieldValue> for DebugAnnotation {
    fn from(value: &FieldValue) -> Self {
        match value {
            FieldValue::U64(value) => (*value).into(),
            FieldValue::I64(value) => Self { int_value: Some(*value), ..Self::default() },
            FieldValue::F64(value) => Self { double_value: Some(*value), ..Self::default() },
            FieldValue::Bool(value) => (*value).into(),
            value => value.to_string().as_str().into(),
        }
    }
}

impl From<u64> for DebugAnnotation {
    fn from(value: u64) -> Self {
        Self { uint_value: Some(value), ..Self::default() }
    }
}

impl From<bool> for DebugAnnotation {
    fn from(value: bool) -> Self {
        Self { bool_value: Some(value), ..Self::default() }
    }
}

impl From<&str> for DebugAnnotation {
    fn from(value: &str) -> Self {
        Self { string_value: Some(value.to_owned()), ..Self::default() }
    }
}
