#!/usr/bin/env bash
# Tests of whole programs, but for those of the lane `built`.
# `PROBE_TEST_WHOLE=1` asks for whole tests in place of slices: see tests/README.md.
source "$(dirname "$0")/../common.sh"

tools

# `cargo test` alone builds the examples, too; with targets it doesn't.
step 'examples'
cargo build --workspace --examples

step 'integration tests'
cargo test --workspace --test '[!b]*' --test 'b[!u]*'
