"""Checks the traces of the example `traced` as speedscope has understood them.

Usage: traced_speedscope.py CHROME.speedscope.json FOLDED.speedscope.json traced.folded

The first two files are those that `speedscope.mjs` saves, the third is what the second was read
from. Which worker counts a page differs from run to run; the sum over the workers does not.
"""

import json
import re
import sys
from collections import Counter

from traced import PAGES, PARTS, check_threads, equal, page


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def calls(saved, profile):
    """Returns how often a stack was entered, and its own time."""
    frames = [frame["name"] for frame in saved["shared"]["frames"]]
    stack, entered, own, last = [], Counter(), Counter(), profile["startValue"]
    for event in profile["events"]:
        if stack:
            own[tuple(stack)] += event["at"] - last
        last = event["at"]
        name = frames[event["frame"]]
        if event["type"] == "O":
            stack.append(name)
            entered[tuple(stack)] += 1
        else:
            equal("the end of a call", name, stack.pop())
    equal("open calls at the end", stack, [])
    equal("the end of the profile", last, profile["endValue"])
    return entered, own


def check_chrome(saved):
    """Each thread is a profile, with its calls and their arguments."""
    by_thread = {}
    for profile in saved["profiles"]:
        name = re.fullmatch(r"traced \(pid \d+\), (.+) \(tid \d+\)", profile["name"])
        if not name:
            sys.exit(f"a profile has the name {profile['name']}")
        equal("a profile's type and unit", (profile["type"], profile["unit"]), ("evented", "microseconds"))
        by_thread[name[1]], _ = calls(saved, profile)
    equal("profiles", len(by_thread), len(saved["profiles"]))
    check_threads(by_thread)
    first = ("traced::fetch_all",)
    polls = [(*first, f'traced::fetch {{"number":{number}}}') for number in range(PAGES)]
    later = (*first, "traced::fetch")
    expected = Counter({first: 1, later: PAGES * PARTS, (*later, "traced::compose"): PAGES * PARTS})
    expected.update(polls)
    equal("the fetcher's calls", by_thread.pop("fetcher"), expected)
    expected = Counter({("traced::merge",): PAGES})
    expected.update((f'traced::count {{"bytes":{len(page(number))}}}',) for number in range(PAGES))
    equal("the workers' calls", sum(by_thread.values(), Counter()), expected)


def check_folded(saved, path):
    """Each stack has the time that the file says."""
    stacks = {}
    with open(path, encoding="utf-8") as file:
        for line in file:
            stack, time = line.rsplit(" ", 1)
            if int(time):
                stacks[tuple(stack.split(";"))] = int(time)
    (profile,) = saved["profiles"]
    entered, own = calls(saved, profile)
    equal("own times", {stack: time for stack, time in own.items() if time}, stacks)
    equal("all times", profile["endValue"], sum(stacks.values()))
    check_threads({thread for program, thread, *_ in stacks})
    deepest = ("traced", "fetcher", "traced::fetch_all", "traced::fetch", "traced::compose")
    of_fetcher = {stack for stack in entered if stack[1:2] == ("fetcher",)}
    equal("the fetcher's stacks", of_fetcher, {deepest[:depth] for depth in range(2, 6)})
    of_workers = {stack[2:] for stack in entered if len(stack) > 2} - {stack[2:] for stack in of_fetcher}
    equal("the workers' stacks", of_workers, {("traced::count",), ("traced::merge",)})


def main():
    chrome, folded, path = sys.argv[1:]
    check_chrome(load(chrome))
    check_folded(load(folded), path)
    print("speedscope has each call, and its time")


main()
