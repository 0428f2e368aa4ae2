#!/usr/bin/env bash
# Optimised builds: an optimiser could break these.
source "$(dirname "$0")/../common.sh"

tools

step 'tests in release mode'
cargo test --release -p probe-tests --test live --test macros --test backtrace --test registers \
    --test word --test traps --test call --test call_threads --test ways \
    --test called_sites --test c_registers --test c_api_values --test c_toggle --test finstrument_threads \
    --test calls --test c_paired --test latency --test perf --test perf_events --test perf_life --test perf_permits \
    --test trap_blocked --test text_unknown --test unrelated

# The optimised code toggles as often as the whole test asks for.
step 'stress, as a whole'
PROBE_TEST_WHOLE=1 cargo test --release -p probe-tests --test stress

step 'quickstart'
cargo run --release --example quickstart
