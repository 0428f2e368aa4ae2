#!/usr/bin/env bash
# Tests beside the code, and the documentation's examples.
source "$(dirname "$0")/../common.sh"

tools

# Properties have four times the cases in `cargo test`, and in the lane `whole`.
export PROPTEST_CASES=64

# Binaries have no tests: these are in libraries.
step 'unit tests'
cargo test "$(wrapper linted)" --workspace --lib

step 'examples of the documentation'
cargo test "$(wrapper linted)" --workspace --doc
