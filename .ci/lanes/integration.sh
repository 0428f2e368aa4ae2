#!/usr/bin/env bash
# Tests of whole programs, but for those of the lanes `built` and `tool`.
# `PROBE_TEST_WHOLE=1` asks for whole tests in place of slices: see tests/README.md.
source "$(dirname "$0")/../common.sh"

tools

# `cargo test` alone builds the examples, too; with targets it doesn't.
step 'examples'
cargo build "$(wrapper linted)" --workspace --examples --bin quickstart

step 'integration tests'
others=$(cargo metadata --no-deps --format-version 1 |
    grep -o '"kind":\["test"\],"crate_types":\["bin"\],"name":"[^"]*"' | cut -d'"' -f 12 |
    grep -vxF -e build -e built -e cli -e driver -e live -e shop -e theirs)
mapfile -t others < <(sort -u <<<"$others")
cargo test "$(wrapper linted)" --workspace "${others[@]/#/--test=}"
