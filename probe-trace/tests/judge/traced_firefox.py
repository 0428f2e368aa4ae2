"""Checks the trace of the example `traced` in the Firefox Profiler's own code.

Usage: traced_firefox.py PROFILER_CLI traced.firefox.json

PROFILER_CLI is the program of the npm package `@firefox-devtools/profiler-cli`, which loads a
profile as profiler.firefox.com does.
"""

import json
import subprocess
import sys
from collections import Counter

from traced import PAGES, PARTS, check_threads, equal, page


def ask(*words):
    answer = subprocess.run([sys.argv[1], *words], check=True, capture_output=True, text=True)
    return answer.stdout


def markers(thread):
    """Returns each marker's label, and its length in nanoseconds."""
    words = ["thread", "markers", "--thread", thread["threadHandle"], "--top-n", "100000", "--json"]
    groups = json.loads(ask(*words))["byType"]
    found = [(it["label"], round(it.get("duration", 0) * 1e6)) for group in groups for it in group["topMarkers"]]
    equal(f"markers of {thread['name']}", len(found), thread["markerCount"])
    return found


def call_tree(thread):
    """Returns the total time of each stack in nanoseconds."""
    words = ["thread", "samples-top-down", "--thread", thread["threadHandle"], "--json"]
    stacks = {}

    def walk(node, stack):
        for child in node["children"]:
            stacks[(*stack, child["name"])] = child["totalSamples"]
            walk(child, (*stack, child["name"]))
        own = node["totalSamples"] - sum(child["totalSamples"] for child in node["children"])
        equal(f"own time of {stack}", node["selfSamples"], own)

    walk(json.loads(ask(*words))["regularCallTree"], ())
    return stacks


def sum_of(found, name):
    """All time of a function's markers. Their labels are its name, then its arguments."""
    return sum(length for label, length in found if label.split(" ")[0] == name)


def main():
    ask("load", sys.argv[2])
    try:
        threads = {it["name"]: it for it in json.loads(ask("thread", "list", "--json"))["threads"]}
        found = {name: markers(thread) for name, thread in threads.items()}
        trees = {name: call_tree(thread) for name, thread in threads.items()}
    finally:
        ask("stop")
    futures = found.pop("futures")
    check_threads(found)
    labels = {name: Counter(label for label, _ in of) for name, of in found.items()}
    first, later, deepest = "traced::fetch_all", "traced::fetch", "traced::compose"
    expected = Counter({first: 1, later: PAGES * PARTS, deepest: PAGES * PARTS})
    expected.update(f"{later} number={number}" for number in range(PAGES))
    equal("the fetcher's markers", labels.pop("fetcher"), expected)
    expected = Counter({"traced::merge": PAGES})
    expected.update(f"traced::count bytes={len(page(number))}" for number in range(PAGES))
    words = len(page(0).split(" "))
    expected.update(f"traced::words known={words * (number + 1):,}" for number in range(PAGES))
    equal("the workers' markers", sum(labels.values(), Counter()), expected)
    kinds = Counter(label.split("future=")[0].strip() for label, _ in futures)
    equal("futures", kinds, {later: PAGES, f"{later} waits": PAGES * PARTS})
    # The samples have the times of the markers.
    fetcher, tree = found.pop("fetcher"), trees.pop("fetcher")
    stacks = [(first,), (first, later), (first, later, deepest)]
    equal("the fetcher's call tree", tree, {stack: sum_of(fetcher, stack[-1]) for stack in stacks})
    for name, of in found.items():
        names = ["traced::count", "traced::merge"]
        equal(f"the call tree of {name}", trees[name], {(it,): sum_of(of, it) for it in names})
    print("the Firefox Profiler has each call, and its time")


main()
