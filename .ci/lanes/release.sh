#!/usr/bin/env bash
# Optimised builds: an optimiser could break these.
source "$(dirname "$0")/../common.sh"

tools

step 'tests in release mode'
cargo test "${optimised[@]}" --no-default-features --test sites --test patching --test consumers --test finstrument

# With the same packages, cargo finds the runtime with the same features, and so compiled.
step 'quickstart'
cargo build "${optimised[@]}" --no-default-features -p probe-examples --example quickstart
target/release/examples/quickstart
