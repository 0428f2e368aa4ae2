#!/usr/bin/env bash
# Every interleaving of the lock-free protocols, as far as the model checker bounds it. A slice
# tries up to three switches away from a thread that could go on.
source "$(dirname "$0")/../common.sh"

# The model checker runs optimised, and `probe-patch`, whose models take longest. The other crates
# take longer to optimise than their models run.
step 'lock-free protocols under the model checker'
[ "${PROBE_TEST_WHOLE:-0}" != 0 ] || export LOOM_MAX_PREEMPTIONS=3
cargo test "$(wrapper loom)" "${like_release[@]}" \
    --config=profile.dev.package.{loom,generator}.{opt-level=2,debug-assertions=false,overflow-checks=false} \
    --config=profile.dev.package.probe-{runtime,trace}.opt-level=0 \
    -p probe-patch -p probe-runtime -p probe-workspace-hack --features probe-runtime/trace --lib interleavings
