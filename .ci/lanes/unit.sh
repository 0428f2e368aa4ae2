#!/usr/bin/env bash
# Tests beside the code, and the documentation's examples.
source "$(dirname "$0")/../common.sh"

tools

# Binaries have no tests: these are in libraries.
step 'unit tests'
cargo test --workspace --lib

step 'examples of the documentation'
cargo test --workspace --doc
