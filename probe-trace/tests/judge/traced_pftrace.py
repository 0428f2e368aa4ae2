"""Checks each slice, argument, flow and counter in the trace of the example `traced`.

Usage: traced_pftrace.py traced.pftrace

All values are exact, but for times. Which worker counts a page differs from run to run; the sum
over the workers does not.
"""

import sys
from collections import Counter, defaultdict

import traced
from perfetto_slices import Clock, DataLoss, Flow, Instant, Slice, Track, Value, read
from traced import PAGES, PARTS, equal, page

def of_type(told, kind):
    return [it for it in told if isinstance(it, kind)]


def function(heading):
    """The function, without the line of its source."""
    return heading.source.rsplit(":", 1)[0]


def source(path):
    return f"traced::{path}@examples/traced/src/main.rs"


def check_nesting(slices):
    """Each slice lies inside of one that is a level above it, on the same track."""
    by_track = defaultdict(list)
    for it in slices:
        by_track[it.uuid].append(it)
    for track in by_track.values():
        parents = []
        for it in sorted(track, key=lambda it: (it.begin, -it.end, it.depth)):
            del parents[it.depth :]
            equal(f"depth of {it}", len(parents), it.depth)
            if parents and not parents[-1].begin <= it.begin <= it.end <= parents[-1].end:
                sys.exit(f"{it} is not inside of {parents[-1]}")
            parents.append(it)


def check_tracks(told):
    tracks = Counter(it.name.split(" / ", 1)[-1] for it in of_type(told, Track))
    equal("process tracks", sum(name.startswith("process ") for name in tracks), 1)
    equal("tracks of futures", tracks["track traced::fetch"], PAGES)
    equal("tracks of counters", tracks["counter traced::words known"], 1)
    # A thread's track is `thread TID NAME`.
    threads = [name.split(" ", 2)[2] for name in tracks.elements() if name.startswith("thread ")]
    traced.check_threads(threads)


def check_threads(slices):
    """The calls of each thread, their depths and arguments."""
    on_threads = [it for it in slices if " / thread " in it.track]
    name = lambda it: it.track.split(" / ")[1].split(" ")[2]
    found = Counter((name(it), it.depth, function(it.heading)) for it in on_threads)
    expected = {
        ("fetcher", 0, source("fetch_all")): 1,
        ("fetcher", 1, source("fetch")): PAGES * (PARTS + 1),
        ("fetcher", 2, source("compose")): PAGES * PARTS,
        ("worker", 0, source("count")): PAGES,
        ("worker", 0, source("merge")): PAGES,
    }
    equal("calls", found, expected)
    arguments = defaultdict(Counter)
    for it in on_threads:
        arguments[it.heading.name].update([it.heading.arguments])
    expected = {
        "traced::fetch_all": {(): 1},
        # The first poll has the arguments of the call.
        "traced::fetch": {(): PAGES * PARTS} | {(f"number=uint:{number}",): 1 for number in range(PAGES)},
        "traced::compose": {(): PAGES * PARTS},
        "traced::count": Counter((f"bytes=uint:{len(page(number))}",) for number in range(PAGES)),
        "traced::merge": {(): PAGES},
    }
    equal("arguments", arguments, expected)


def check_futures(slices):
    """Each future's track: the call, and in it polls and waits by turns."""
    on_futures = defaultdict(list)
    for it in slices:
        if it.track.endswith(" / track traced::fetch"):
            on_futures[it.uuid].append(it)
    numbers = []
    for track in on_futures.values():
        *parts, whole = sorted(track, key=lambda it: (-it.depth, it.begin))
        names = [it.heading.name for it in parts]
        equal("a future's polls and waits", names, ["poll", "wait"] * PARTS + ["poll"])
        equal("their depths", {it.depth for it in parts}, {1})
        ends = [it.end for it in parts]
        equal("begins of polls and waits", [it.begin for it in parts], [whole.begin, *ends[:-1]])
        equal("a future's end", whole.end, ends[-1])
        found = (whole.depth, whole.heading.name, function(whole.heading))
        equal("a future", found, (0, "traced::fetch", source("fetch")))
        future, number = whole.heading.arguments
        if not future.startswith("future=uint:"):
            sys.exit(f"{whole} does not say which future it is")
        numbers.append(number)
    equal("futures", sorted(numbers), sorted(f"number=uint:{number}" for number in range(PAGES)))
    return {it.begin: it.uuid for it in slices if it.uuid in on_futures and it.heading.name == "poll"}


def check_flows(told, polls):
    """Flows lead from each poll of a future to its next one."""
    flows = of_type(told, Flow)
    equal("flows", len(flows), PAGES * PARTS)
    for it in flows:
        equal(f"the future of {it}", polls[it.begin], polls[it.end])
    equal("polls that flows lead to", len({it.end for it in flows}), PAGES * PARTS)


def check_counters(told):
    """The point `words`: an instant of its thread, and a value of the counter."""
    steps = [sum(len(page(number).split(" ")) for number in range(last + 1)) for last in range(PAGES)]
    # Pages have equally many words, so the order of pages does not matter.
    equal("words", steps[-1], PAGES * steps[0])
    values, instants = of_type(told, Value), of_type(told, Instant)
    equal("values of the counter", [it.value for it in values], steps)
    equal("times of the counter", [it.time for it in values], sorted(it.time for it in values))
    tracks = {it.track.split(" / ", 1)[1] for it in values}
    equal("the counter's track", tracks, {"counter traced::words known"})
    points = [(it.heading.name, function(it.heading)) for it in instants]
    equal("points", points, [("traced::words", source("words"))] * PAGES)
    arguments = [it.heading.arguments for it in instants]
    equal("arguments of points", arguments, [(f"known=uint:{words}",) for words in steps])
    equal("times of points", [it.time for it in instants], [it.time for it in values])
    return instants


def main():
    told = list(read(sys.argv[1]))
    slices = of_type(told, Slice)
    equal("clocks", [it.name for it in of_type(told, Clock)], ["BUILTIN_CLOCK_MONOTONIC"])
    equal("losses", of_type(told, DataLoss), [])
    equal("categories", {it.heading.category for it in slices}, {"traced"})
    check_tracks(told)
    check_nesting(slices)
    check_threads(slices)
    check_flows(told, check_futures(slices))
    merges = [it for it in slices if it.heading.name == "traced::merge"]
    for instant in check_counters(told):
        around = [it for it in merges if it.track == instant.track and it.begin <= instant.time <= it.end]
        equal(f"calls of `merge` around {instant}", len(around), 1)
    print(f"Perfetto's classes have all {len(slices)} slices of {sys.argv[1]}")


main()
