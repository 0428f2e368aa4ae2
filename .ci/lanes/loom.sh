#!/usr/bin/env bash
# Every interleaving of the lock-free protocols, as far as the model checker bounds it. A slice
# tries up to three switches away from a thread that could go on.
source "$(dirname "$0")/../common.sh"

# Models spend most of their time in the model checker, so that alone is optimised.
step 'lock-free protocols under the model checker'
[ "${PROBE_TEST_WHOLE:-0}" != 0 ] || export LOOM_MAX_PREEMPTIONS=3
cargo test "$(wrapper loom)" \
    --config=profile.dev.package.{loom,generator}.{opt-level=1,debug-assertions=false,overflow-checks=false} \
    -p probe-patch -p probe-runtime -p probe-workspace-hack --features probe-runtime/trace --lib interleavings
