"""Prints what a Perfetto trace tells: tracks, slices, instants, counters, arguments, and flows.

Usage: perfetto_slices.py FILE.pftrace

Reads the file with the message classes of the Python package `perfetto`, so with Perfetto's own
definitions. Follows the rules of Perfetto's reader: a packet that needs incremental state is only
read after one that clears it, ids of interned names must be known, and each end closes the innermost
open slice of its track. The script fails if a rule is broken.
"""

import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

CLEARED = pb.TracePacket.SequenceFlags.SEQ_INCREMENTAL_STATE_CLEARED
NEEDED = pb.TracePacket.SequenceFlags.SEQ_NEEDS_INCREMENTAL_STATE
TABLES = ("event_categories", "event_names", "debug_annotation_names", "source_locations")


class Sequence:
    """The incremental state of one sequence of packets."""

    def __init__(self):
        self.is_valid = False
        self.clock = None
        self.interned = {table: {} for table in TABLES}

    def take(self, packet):
        if packet.sequence_flags & CLEARED:
            self.__init__()
            self.is_valid = True
        if packet.sequence_flags & NEEDED and not self.is_valid:
            sys.exit("a packet needs state that no packet gave")
        if packet.HasField("trace_packet_defaults"):
            self.clock = packet.trace_packet_defaults.timestamp_clock_id
        for table in TABLES:
            for entry in getattr(packet.interned_data, table):
                if entry.iid == 0 or entry.iid in self.interned[table]:
                    sys.exit(f"{table} has the id {entry.iid} twice, or it is zero")
                self.interned[table][entry.iid] = entry

    def name(self, table, iid):
        return self.interned[table][iid].name


def track_text(descriptor, tracks):
    """Names a track after its parents."""
    parent = ""
    if descriptor.HasField("parent_uuid"):
        parent = tracks[descriptor.parent_uuid] + " / "
    if descriptor.HasField("process"):
        return f"{parent}process {descriptor.process.pid} {descriptor.process.process_name}"
    if descriptor.HasField("thread"):
        thread = descriptor.thread
        return f"{parent}thread {thread.tid} {thread.thread_name}"
    kind = "counter" if descriptor.HasField("counter") else "track"
    return f"{parent}{kind} {descriptor.name}"


def arguments(event, sequence):
    """Shows debug annotations with the type of their value."""
    texts = []
    for annotation in event.debug_annotations:
        kind = annotation.WhichOneof("value")
        name = sequence.name("debug_annotation_names", annotation.name_iid)
        texts.append(f"{name}={kind.removesuffix('_value')}:{getattr(annotation, kind)}")
    return texts


def heading(event, sequence):
    categories = ",".join(sequence.name("event_categories", iid) for iid in event.category_iids)
    text = f"{categories} {sequence.name('event_names', event.name_iid)}"
    if event.HasField("source_location_iid"):
        location = sequence.interned["source_locations"][event.source_location_iid]
        text += f" {location.function_name}@{location.file_name}:{location.line_number}"
    return text


def main():
    trace = pb.Trace()
    with open(sys.argv[1], "rb") as file:
        trace.ParseFromString(file.read())
    sequences, tracks, flows, is_open = {}, {}, {}, {}
    primary_clock = None
    Type = pb.TrackEvent.Type
    for packet in trace.packet:
        sequence = sequences.setdefault(packet.trusted_packet_sequence_id, Sequence())
        sequence.take(packet)
        if packet.clock_snapshot.HasField("primary_trace_clock"):
            if primary_clock is not None:
                sys.exit("the clock of the trace is named twice")
            primary_clock = packet.clock_snapshot.primary_trace_clock
            print("clock", pb.BuiltinClock.Name(primary_clock))
        if packet.previous_packet_dropped:
            print("data loss")
        if packet.HasField("track_descriptor"):
            descriptor = packet.track_descriptor
            tracks[descriptor.uuid] = track_text(descriptor, tracks)
            print(tracks[descriptor.uuid])
        if not packet.HasField("track_event"):
            continue
        if primary_clock is None or sequence.clock != primary_clock:
            sys.exit("an event's clock is not that of the trace")
        event = packet.track_event
        track, time = tracks[event.track_uuid], packet.timestamp
        stack = is_open.setdefault(event.track_uuid, [])
        texts = arguments(event, sequence)
        if event.type == Type.TYPE_SLICE_BEGIN:
            text = heading(event, sequence)
            stack.append((time, text, texts))
            for flow in event.flow_ids:
                if flow in flows:
                    print(f"flow from {flows[flow]} to {time} {track}")
                flows[flow] = f"{time} {track}"
        elif event.type == Type.TYPE_SLICE_END:
            if not stack:
                sys.exit(f"an end without a begin on {track} at {time}")
            begin, text, first = stack.pop()
            print("slice", f"{begin}+{time - begin}", len(stack), track, "|", text, *first, *texts)
        elif event.type == Type.TYPE_INSTANT:
            print("instant", time, track, "|", heading(event, sequence), *texts)
        elif event.type == Type.TYPE_COUNTER:
            value = event.WhichOneof("counter_value_field")
            print("value", time, track, "|", getattr(event, value))
        else:
            sys.exit(f"unexpected type {event.type}")
    for track, stack in is_open.items():
        if stack:
            sys.exit(f"{len(stack)} slices of {tracks[track]} are open at the end")


main()
