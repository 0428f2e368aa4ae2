#!/usr/bin/env bash
# Optimised builds: an optimiser could break these.
source "$(dirname "$0")/../common.sh"

step 'tests in release mode'
cargo test --release -p probe-tests --test live --test macros --test backtrace --test registers \
    --test word --test traps --test call --test call_threads --test ways --test stress \
    --test called_sites --test c_registers --test c_api_values --test c_toggle --test finstrument_threads \
    --test calls --test c_paired --test latency --test perf --test perf_events --test perf_life --test perf_permits \
    --test trap_blocked --test text_unknown --test unrelated

step 'quickstart'
cargo run --release --example quickstart
