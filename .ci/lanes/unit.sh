#!/usr/bin/env bash
# Tests beside the code, and the documentation's examples.
source "$(dirname "$0")/../common.sh"

tools

step 'unit tests'
cargo test --workspace --lib --bins

step 'examples of the documentation'
cargo test --workspace --doc
