//! The messages of Perfetto's trace format that exports use, with the fields that they use.
//!
//! Names and numbers are those of `protos/perfetto/trace` in Perfetto. Fields of a `oneof` are
//! optional fields here, which are encoded alike. Lists of numbers are not packed: Perfetto's
//! reader takes them one by one.

use prost::Message;

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

/// `TrackEvent.Type`.
pub(super) const SLICE_BEGIN: i32 = 1;
pub(super) const SLICE_END: i32 = 2;
pub(super) const INSTANT: i32 = 3;
pub(super) const COUNTER: i32 = 4;

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
    }
    /// `EventCategory`, `EventName`, and `DebugAnnotationName`, which have the same fields.
    InternedName {
        iid: Option<u64> = (uint64, optional, tag = "1"),
        name: Option<String> = (string, optional, tag = "2"),
    }
    SourceLocation {
        iid: Option<u64> = (uint64, optional, tag = "1"),
        file_name: Option<String> = (string, optional, tag = "2"),
        function_name: Option<String> = (string, optional, tag = "3"),
        line_number: Option<u32> = (uint32, optional, tag = "4"),
    }
}
