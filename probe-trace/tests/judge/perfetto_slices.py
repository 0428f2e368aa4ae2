"""Prints what a Perfetto trace tells: tracks, slices, instants, counters, arguments, and flows.

Usage: perfetto_slices.py FILE.pftrace

Reads the file with the message classes of the Python package `perfetto`, so with Perfetto's own
definitions. Follows the rules of Perfetto's reader: a packet that needs incremental state is only
read after one that clears it, ids of interned names must be known, and each end closes the innermost
open slice of its track. The script fails if a rule is broken.
"""

import sys
from typing import NamedTuple

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

CLEARED = pb.TracePacket.SequenceFlags.SEQ_INCREMENTAL_STATE_CLEARED
NEEDED = pb.TracePacket.SequenceFlags.SEQ_NEEDS_INCREMENTAL_STATE
TABLES = ("event_categories", "event_names", "debug_annotation_names", "source_locations")


class Clock(NamedTuple):
    name: str

    def __str__(self):
        return f"clock {self.name}"


class DataLoss(NamedTuple):
    def __str__(self):
        return "data loss"


class Track(NamedTuple):
    # After its parents: `process 7 server / thread 101 main`.
    name: str

    def __str__(self):
        return self.name


class Flow(NamedTuple):
    begin: int
    begin_track: str
    end: int
    end_track: str

    def __str__(self):
        return f"flow from {self.begin} {self.begin_track} to {self.end} {self.end_track}"


class Heading(NamedTuple):
    category: str
    name: str
    # `FUNCTION@FILE:LINE`, or nothing.
    source: str
    # Each as `NAME=TYPE:VALUE`.
    arguments: tuple

    def __str__(self):
        return " ".join(word for word in (self.category, self.name, self.source, *self.arguments) if word)


class Slice(NamedTuple):
    track: str
    # Tells tracks of one name apart.
    uuid: int
    begin: int
    end: int
    depth: int
    heading: Heading

    def __str__(self):
        return f"slice {self.begin}+{self.end - self.begin} {self.depth} {self.track} | {self.heading}"


class Instant(NamedTuple):
    track: str
    time: int
    heading: Heading

    def __str__(self):
        return f"instant {self.time} {self.track} | {self.heading}"


class Value(NamedTuple):
    track: str
    time: int
    value: float

    def __str__(self):
        return f"value {self.time} {self.track} | {self.value}"


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

    def arguments(self, event):
        """Returns debug annotations with the type of their value."""
        texts = []
        for annotation in event.debug_annotations:
            kind = annotation.WhichOneof("value")
            name = self.name("debug_annotation_names", annotation.name_iid)
            texts.append(f"{name}={kind.removesuffix('_value')}:{getattr(annotation, kind)}")
        return tuple(texts)

    def heading(self, event):
        category = ",".join(self.name("event_categories", iid) for iid in event.category_iids)
        source = ""
        if event.HasField("source_location_iid"):
            location = self.interned["source_locations"][event.source_location_iid]
            source = f"{location.function_name}@{location.file_name}:{location.line_number}"
        return Heading(category, self.name("event_names", event.name_iid), source, self.arguments(event))


def track_name(descriptor, tracks):
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


def read(path):
    """Yields the parts of a file in their order. A slice comes at its end."""
    trace = pb.Trace()
    with open(path, "rb") as file:
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
            yield Clock(pb.BuiltinClock.Name(primary_clock))
        if packet.previous_packet_dropped:
            yield DataLoss()
        if packet.HasField("track_descriptor"):
            descriptor = packet.track_descriptor
            tracks[descriptor.uuid] = track_name(descriptor, tracks)
            yield Track(tracks[descriptor.uuid])
        if not packet.HasField("track_event"):
            continue
        if primary_clock is None or sequence.clock != primary_clock:
            sys.exit("an event's clock is not that of the trace")
        event = packet.track_event
        track, time = tracks[event.track_uuid], packet.timestamp
        stack = is_open.setdefault(event.track_uuid, [])
        if event.type == Type.TYPE_SLICE_BEGIN:
            stack.append((time, sequence.heading(event)))
            for flow in event.flow_ids:
                if flow in flows:
                    yield Flow(*flows[flow], time, track)
                flows[flow] = (time, track)
        elif event.type == Type.TYPE_SLICE_END:
            if not stack:
                sys.exit(f"an end without a begin on {track} at {time}")
            begin, heading = stack.pop()
            heading = heading._replace(arguments=heading.arguments + sequence.arguments(event))
            yield Slice(track, event.track_uuid, begin, time, len(stack), heading)
        elif event.type == Type.TYPE_INSTANT:
            yield Instant(track, time, sequence.heading(event))
        elif event.type == Type.TYPE_COUNTER:
            yield Value(track, time, getattr(event, event.WhichOneof("counter_value_field")))
        else:
            sys.exit(f"unexpected type {event.type}")
    for uuid, stack in is_open.items():
        if stack:
            sys.exit(f"{len(stack)} slices of {tracks[uuid]} are open at the end")


if __name__ == "__main__":
    for told in read(sys.argv[1]):
        print(told)
