//! The messages of Perfetto's trace format that exports use, with the fields that they use.
//!
//! Names and numbers are those of `protos/perfetto/trace` in Perfetto. Fields of a `oneof` are
//! optional fields here, which are encoded alike. Lists of numbers are not packed: Perfetto's
//! reader takes them one by one.

use prost::Message;

/// `ClockSnapshot`'s and `TracePacketDefaults`' number of `CLOCK_MONOTONIC`.
pub(in crate::export) const MONOTONIC: u32 = 3;
/// The same of `CLOCK_REALTIME`, the calendar time.
pub(in crate::export) const REALTIME: u32 = 1;
/// The same of `CLOCK_BOOTTIME`, which the kernel's own traces have.
pub(in crate::export) const BOOTTIME: u32 = 6;

/// `SequenceFlags`: from here on, ids of interned names and the defaults are new.
pub(in crate::export) const INCREMENTAL_STATE_CLEARED: u32 = 1;
/// `SequenceFlags`: the packet uses ids or defaults of earlier ones.
pub(in crate::export) const NEEDS_INCREMENTAL_STATE: u32 = 2;

/// `TrackEvent.Type`.
pub(in crate::export) const SLICE_BEGIN: i32 = 1;
pub(in crate::export) const SLICE_END: i32 = 2;
pub(in crate::export) const INSTANT: i32 = 3;
pub(in crate::export) const COUNTER: i32 = 4;

#[derive(Clone, PartialEq, Message)]
pub(in crate::export) struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::export) packet: Vec<TracePacket>,
}

/// Parts that few packets have are boxed.
#[derive(Clone, PartialEq, Message)]
pub(in crate::export) struct TracePacket {
    #[prost(message, optional, boxed, tag = "6")]
    pub(in crate::export) clock_snapshot: Option<Box<ClockSnapshot>>,
    #[prost(uint64, optional, tag = "8")]
    pub(in crate::export) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub(in crate::export) trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "11")]
    pub(in crate::export) track_event: Option<TrackEvent>,
    #[prost(message, optional, boxed, tag = "12")]
    pub(in crate::export) interned_data: Option<Box<InternedData>>,
    #[prost(uint32, optional, tag = "13")]
    pub(in crate::export) sequence_flags: Option<u32>,
    #[prost(uint32, optional, tag = "42")]
    pub(in crate::export) previous_packet_dropped: Option<u32>,
    #[prost(message, optional, tag = "59")]
    pub(in crate::export) defaults: Option<TracePacketDefaults>,
    #[prost(message, optional, boxed, tag = "60")]
    pub(in crate::export) track_descriptor: Option<Box<TrackDescriptor>>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::export) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::export) clocks: Vec<Clock>,
    #[prost(uint32, optional, tag = "2")]
    pub(in crate::export) primary_trace_clock: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::export) struct Clock {
    #[prost(uint32, optional, tag = "1")]
    pub(in crate::export) clock_id: Option<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub(in crate::export) timestamp: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::export) struct TracePacketDefaults {
    #[prost(uint32, optional, tag = "58")]
    pub(in crate::export) timestamp_clock_id: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::export) struct TrackDescriptor {
    #[prost(uint64, optional, tag = "1")]
    pub(in crate::export) uuid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(in crate::export) name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub(in crate::export) process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    pub(in crate::export) thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    pub(in crate::export) parent_uuid: Option<u64>,
    #[prost(message, optional, tag = "8")]
    pub(in crate::export) counter: Option<CounterDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::export) struct ProcessDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(in crate::export) pid: Option<i32>,
    #[prost(string, optional, tag = "6")]
    pub(in crate::export) process_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::export) struct ThreadDescriptor {
    #[prost(int32, optional, tag = "1")]
    pub(in crate::export) pid: Option<i32>,
    #[prost(int64, optional, tag = "2")]
    pub(in crate::export) tid: Option<i64>,
    #[prost(string, optional, tag = "5")]
    pub(in crate::export) thread_name: Option<String>,
}

/// Says by its presence that a track is a counter.
#[derive(Clone, PartialEq, Message)]
pub(in crate::export) struct CounterDescriptor {}

#[derive(Clone, PartialEq, Message)]
pub(in crate::export) struct TrackEvent {
    #[prost(uint64, repeated, packed = "false", tag = "3")]
    pub(in crate::export) category_iids: Vec<u64>,
    #[prost(message, repeated, tag = "4")]
    pub(in crate::export) debug_annotations: Vec<DebugAnnotation>,
    #[prost(int32, optional, tag = "9")]
    pub(in crate::export) kind: Option<i32>,
    #[prost(uint64, optional, tag = "10")]
    pub(in crate::export) name_iid: Option<u64>,
    #[prost(uint64, optional, tag = "11")]
    pub(in crate::export) track_uuid: Option<u64>,
    #[prost(int64, optional, tag = "30")]
    pub(in crate::export) counter_value: Option<i64>,
    #[prost(uint64, optional, tag = "34")]
    pub(in crate::export) source_location_iid: Option<u64>,
    #[prost(double, optional, tag = "44")]
    pub(in crate::export) double_counter_value: Option<f64>,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    pub(in crate::export) flow_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::export) struct DebugAnnotation {
    #[prost(uint64, optional, tag = "1")]
    pub(in crate::export) name_iid: Option<u64>,
    #[prost(bool, optional, tag = "2")]
    pub(in crate::export) bool_value: Option<bool>,
    #[prost(uint64, optional, tag = "3")]
    pub(in crate::export) uint_value: Option<u64>,
    #[prost(int64, optional, tag = "4")]
    pub(in crate::export) int_value: Option<i64>,
    #[prost(double, optional, tag = "5")]
    pub(in crate::export) double_value: Option<f64>,
    #[prost(string, optional, tag = "6")]
    pub(in crate::export) string_value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::export) struct InternedData {
    #[prost(message, repeated, tag = "1")]
    pub(in crate::export) event_categories: Vec<InternedName>,
    #[prost(message, repeated, tag = "2")]
    pub(in crate::export) event_names: Vec<InternedName>,
    #[prost(message, repeated, tag = "3")]
    pub(in crate::export) debug_annotation_names: Vec<InternedName>,
    #[prost(message, repeated, tag = "4")]
    pub(in crate::export) source_locations: Vec<SourceLocation>,
}

/// `EventCategory`, `EventName`, and `DebugAnnotationName`, which have the same fields.
#[derive(Clone, PartialEq, Message)]
pub(in crate::export) struct InternedName {
    #[prost(uint64, optional, tag = "1")]
    pub(in crate::export) iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(in crate::export) name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(in crate::export) struct SourceLocation {
    #[prost(uint64, optional, tag = "1")]
    pub(in crate::export) iid: Option<u64>,
    #[prost(string, optional, tag = "2")]
    pub(in crate::export) file_name: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(in crate::export) function_name: Option<String>,
    #[prost(uint32, optional, tag = "4")]
    pub(in crate::export) line_number: Option<u32>,
}
