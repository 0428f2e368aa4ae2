"""What the example `traced` does, computed anew, so that its traces can be checked exactly."""

import sys

PAGES, WORKERS, PARTS, WORDS_A_PART = 60, 3, 3, 400
WORDS = ["the", "tide", "lifts", "all", "boats", "and", "waits"]


def page(number):
    """The page as `compose` makes it. No space is between two parts."""
    return "".join(
        " ".join(WORDS[(number * 31 + part * 17 + at * at) % len(WORDS)] for at in range(WORDS_A_PART))
        for part in range(PARTS)
    )


def equal(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: {found}, and {expected} is expected")


def check_threads(names):
    """One thread fetches pages. The others are workers, of which one may find no page."""
    rest = sorted(names)
    if "fetcher" not in rest:
        sys.exit(f"no fetcher: {names}")
    rest.remove("fetcher")
    workers = [f"worker {number}" for number in range(WORKERS)]
    if not rest or len(set(rest)) != len(rest) or not set(rest) <= set(workers):
        sys.exit(f"threads: {names}")
