#!/usr/bin/env bash
# Optimised builds: an optimiser could break these.
source "$(dirname "$0")/../common.sh"

tools

# Dependencies stay unoptimised, which takes far less time to compile: they have no sites.
tests() { cargo test --release --config 'profile.release.package."*".opt-level=0' -p probe-tests "$@"; }

step 'tests in release mode'
tests --test sites --test patching --test consumers --test built --test finstrument -- \
    live:: macros:: backtrace:: registers:: word:: traps:: call:: call_threads:: ways:: \
    called_sites:: c_registers:: c_api_values:: c_toggle:: finstrument_threads:: \
    calls:: c_paired:: latency:: perf:: perf_events:: perf_life:: perf_permits:: \
    trap_blocked:: text_unknown:: unrelated::

# The optimised code toggles as often as the whole test asks for.
step 'stress, as a whole'
PROBE_TEST_WHOLE=1 tests --test patching stress::

step 'quickstart'
cargo run --release --example quickstart
