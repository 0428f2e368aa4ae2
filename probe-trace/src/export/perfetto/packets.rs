//! Writes packets, with the state that they share: the clock, and interned names. Each name is
//! written once, with an id that later packets use.
//!
//! The messages are those of Perfetto's trace format that exports use, with the fields that they
//! use. Names and numbers are those of `protos/perfetto/trace` in Perfetto. Fields of a `oneof` are
//! optional fields here, which are encoded alike. Lists of numbers are not packed: Perfetto's
//! reader takes them one by one.

use std::collections::HashMap;
use std::io::{self, Write};
use std::mem;
use std::sync::Arc;

use prost::Message;
use rustc_hash::FxHashMap;

use crate::export::labels::{crate_name, short_path};
use crate::item::{Definition, Stack};

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
    functions: Names,
    /// Ids of stacks, by the addresses of their calls, which are kept.
    stacks: FxHashMap<usize, (u64, Stack)>,
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

    /// Returns the id of a stack, whose calls come from the innermost; `None` if it has none.
    pub(super) fn stack(&mut self, calls: &Stack) -> Option<u64> {
        let address = calls.as_ptr().addr();
        if let Some((id, _)) = self.stacks.get(&address) {
            return Some(*id);
        }
        if calls.is_empty() {
            return None;
        }
        if self.stacks.is_empty() {
            self.new.mappings.push(Mapping { iid: Some(MAPPING) });
        }
        // A function's frame has the function's id, and its address.
        let frame = |call: &Arc<str>| {
            let known = self.new.function_names.len();
            let id = self.functions.id(call, &mut self.new.function_names);
            if self.new.function_names.len() != known {
                self.new.frames.push(Frame {
                    iid: Some(id),
                    function_name_id: Some(id),
                    mapping_id: Some(MAPPING),
                    rel_pc: Some(id),
                });
            }
            id
        };
        let frame_ids = calls.iter().rev().map(frame).collect();
        let id = self.stacks.len() as u64 + 1;
        self.stacks.insert(address, (id, Arc::clone(calls)));
        self.new.callstacks.push(Callstack { iid: Some(id), frame_ids });
        Some(id)
    }

    /// Returns the names that were interned since the last call.
    fn take(&mut self) -> Option<Box<InternedData>> {
        let is_new = self.new != InternedData::default();
        is_new.then(|| Box::new(mem::take(&mut self.new)))
    }
}

/// `ClockSnapshot`'s and `TracePacketDefaults`' number of `CLOCK_MONOTONIC`.
pub(super) const MONOTONIC: u32 = 3;
/// The same of `CLOCK_REALTIME`, the calendar time.
pub(super) const REALTIME: u32 = 1;
/// The same of `CLOCK_BOOTTIME`, which the kernel's own traces have.
pub(super) const BOOTTIME: u32 = 6;

/// `SequenceFlags`: from here on, ids of interned names and the defaults are new.
pub(super) const INCREMENTAL_STATE_CLEARED: u32 = 1;
/// `SequenceFlags`: the packet uses ids or defaults of earlier ones.
pub(super) const NEEDS_INCREMENTAL_STATE: u32 = 2;

/// The id of the only file of frames, of which nothing is known. Perfetto refuses frames without.
const MAPPING: u64 = 1;

/// `TrackEvent.Type`.
pub(super) const SLICE_BEGIN: i32 = 1;
pub(super) const SLICE_END: i32 = 2;
pub(super) const INSTANT: i32 = 3;
pub(super) const COUNTER: i32 = 4;

/// `GenericKernelTaskStateEvent.TaskStateEnum`.
pub(super) const RUNNABLE: i32 = 2;
pub(super) const RUNNING: i32 = 3;
pub(super) const SLEEPING: i32 = 4;
pub(super) const DEAD: i32 = 7;
pub(super) const DESTROYED: i32 = 8;

/// Declares messages: each field with its type here, and its type and number in protobuf.
macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $ty:ty = ($($spec:tt)*),)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Message)]
        pub(in crate::export) struct $name {
            $(#[prost($($spec)*)] pub(in crate::export) $field: $ty,)*
        }
    )*};
}

messages! {
    Trace {
        packet: Vec<TracePacket> = (message, repeated, tag = "1"),
    }
    /// Parts that few packets have are boxed.
    TracePacket {
        clock_snapshot: Option<Box<ClockSnapshot>> = (message, optional, boxed, tag = "6"),
        timestamp: Option<u64> = (uint64, optional, tag = "8"),
        trusted_packet_sequence_id: Option<u32> = (uint32, optional, tag = "10"),
        track_event: Option<TrackEvent> = (message, optional, tag = "11"),
        interned_data: Option<Box<InternedData>> = (message, optional, boxed, tag = "12"),
        sequence_flags: Option<u32> = (uint32, optional, tag = "13"),
        previous_packet_dropped: Option<u32> = (uint32, optional, tag = "42"),
        defaults: Option<TracePacketDefaults> = (message, optional, tag = "59"),
        track_descriptor: Option<Box<TrackDescriptor>> = (message, optional, boxed, tag = "60"),
        task_state: Option<Box<TaskState>> = (message, optional, boxed, tag = "117"),
    }
    /// `GenericKernelTaskStateEvent`.
    TaskState {
        cpu: Option<i32> = (int32, optional, tag = "1"),
        comm: Option<String> = (string, optional, tag = "2"),
        tid: Option<i64> = (int64, optional, tag = "3"),
        state: Option<i32> = (int32, optional, tag = "4"),
    }
    ClockSnapshot {
        clocks: Vec<Clock> = (message, repeated, tag = "1"),
        primary_trace_clock: Option<u32> = (uint32, optional, tag = "2"),
    }
    Clock {
        clock_id: Option<u32> = (uint32, optional, tag = "1"),
        timestamp: Option<u64> = (uint64, optional, tag = "2"),
    }
    TracePacketDefaults {
        timestamp_clock_id: Option<u32> = (uint32, optional, tag = "58"),
    }
    TrackDescriptor {
        uuid: Option<u64> = (uint64, optional, tag = "1"),
        name: Option<String> = (string, optional, tag = "2"),
        process: Option<ProcessDescriptor> = (message, optional, tag = "3"),
        thread: Option<ThreadDescriptor> = (message, optional, tag = "4"),
        parent_uuid: Option<u64> = (uint64, optional, tag = "5"),
        counter: Option<CounterDescriptor> = (message, optional, tag = "8"),
    }
    ProcessDescriptor {
        pid: Option<i32> = (int32, optional, tag = "1"),
        process_name: Option<String> = (string, optional, tag = "6"),
    }
    ThreadDescriptor {
        pid: Option<i32> = (int32, optional, tag = "1"),
        tid: Option<i64> = (int64, optional, tag = "2"),
        thread_name: Option<String> = (string, optional, tag = "5"),
    }
    /// Says by its presence that a track is a counter.
    CounterDescriptor {}
    TrackEvent {
        category_iids: Vec<u64> = (uint64, repeated, packed = "false", tag = "3"),
        debug_annotations: Vec<DebugAnnotation> = (message, repeated, tag = "4"),
        kind: Option<i32> = (int32, optional, tag = "9"),
        name_iid: Option<u64> = (uint64, optional, tag = "10"),
        track_uuid: Option<u64> = (uint64, optional, tag = "11"),
        counter_value: Option<i64> = (int64, optional, tag = "30"),
        source_location_iid: Option<u64> = (uint64, optional, tag = "34"),
        double_counter_value: Option<f64> = (double, optional, tag = "44"),
        flow_ids: Vec<u64> = (fixed64, repeated, packed = "false", tag = "47"),
        callstack_iid: Option<u64> = (uint64, optional, tag = "56"),
    }
    DebugAnnotation {
        name_iid: Option<u64> = (uint64, optional, tag = "1"),
        bool_value: Option<bool> = (bool, optional, tag = "2"),
        uint_value: Option<u64> = (uint64, optional, tag = "3"),
        int_value: Option<i64> = (int64, optional, tag = "4"),
        double_value: Option<f64> = (double, optional, tag = "5"),
        string_value: Option<String> = (string, optional, tag = "6"),
    }
    InternedData {
        event_categories: Vec<InternedName> = (message, repeated, tag = "1"),
        event_names: Vec<InternedName> = (message, repeated, tag = "2"),
        debug_annotation_names: Vec<InternedName> = (message, repeated, tag = "3"),
        source_locations: Vec<SourceLocation> = (message, repeated, tag = "4"),
        function_names: Vec<InternedName> = (message, repeated, tag = "5"),
        frames: Vec<Frame> = (message, repeated, tag = "6"),
        callstacks: Vec<Callstack> = (message, repeated, tag = "7"),
        mappings: Vec<Mapping> = (message, repeated, tag = "19"),
    }
    /// `EventCategory`, `EventName`, `DebugAnnotationName`, and `InternedString`, which have the
    /// same fields.
    InternedName {
        iid: Option<u64> = (uint64, optional, tag = "1"),
        name: Option<String> = (string, optional, tag = "2"),
    }
    Frame {
        iid: Option<u64> = (uint64, optional, tag = "1"),
        function_name_id: Option<u64> = (uint64, optional, tag = "2"),
        mapping_id: Option<u64> = (uint64, optional, tag = "3"),
        rel_pc: Option<u64> = (uint64, optional, tag = "4"),
    }
    /// Its frames come from the outermost.
    Callstack {
        iid: Option<u64> = (uint64, optional, tag = "1"),
        frame_ids: Vec<u64> = (uint64, repeated, packed = "false", tag = "2"),
    }
    Mapping {
        iid: Option<u64> = (uint64, optional, tag = "1"),
    }
    SourceLocation {
        iid: Option<u64> = (uint64, optional, tag = "1"),
        file_name: Option<String> = (string, optional, tag = "2"),
        function_name: Option<String> = (string, optional, tag = "3"),
        line_number: Option<u32> = (uint32, optional, tag = "4"),
    }
}
