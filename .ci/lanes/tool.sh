#!/usr/bin/env bash
# The test programs of the command-line tools, which watch other programs, live or in files, or
# build them.
# `PROBE_TEST_WHOLE=1` asks for whole tests in place of slices: see tests/README.md.
source "$(dirname "$0")/../common.sh"

tools

# As in the lane `integration`.
step 'examples'
cargo build "$(wrapper linted)" --workspace --examples --bin quickstart

step 'tests of the command-line tool'
cargo test "$(wrapper linted)" --workspace --test cli --test driver --test live --test shop --test theirs
