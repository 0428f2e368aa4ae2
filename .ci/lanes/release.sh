#!/usr/bin/env bash
# Optimised builds: an optimiser could break these.
source "$(dirname "$0")/../common.sh"

tools

step 'tests in release mode'
cargo test "${optimised[@]}" --test sites --test patching --test consumers --test finstrument -- \
    live:: macros:: backtrace:: registers:: word:: traps:: call:: call_threads:: ways:: \
    called_sites:: stress:: finstrument_threads:: \
    calls:: latency:: perf:: perf_events:: perf_life:: perf_permits:: \
    trap_blocked:: text_unknown:: unrelated::

# With the same packages, cargo finds the runtime with the same features, and so compiled.
step 'quickstart'
cargo build "${optimised[@]}" -p probe-examples --example quickstart
target/release/examples/quickstart
