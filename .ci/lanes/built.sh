#!/usr/bin/env bash
# The test programs `build` and `built`: they build others with the compilers and linkers that users
# have, which takes most of their time.
# `PROBE_TEST_WHOLE=1` asks for whole tests in place of slices: see tests/README.md.
source "$(dirname "$0")/../common.sh"

tools

step 'tests of programs that they build'
cargo test "$(wrapper linted)" --workspace --test build --test built
