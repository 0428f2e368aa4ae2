#!/usr/bin/env bash
# Every interleaving of the lock-free protocols, as far as the model checker bounds it.
source "$(dirname "$0")/../common.sh"

# The model checker runs optimised, and `probe-patch`, whose models take longest. The other crates
# take longer to optimise than their models run. A target keeps the flag away from procedural
# macros, which debug builds have, too.
step 'lock-free protocols under the model checker'
RUSTFLAGS='--cfg loom' cargo test "${like_release[@]}" \
    --config=profile.dev.package.{loom,generator}.{opt-level=3,debug-assertions=false,overflow-checks=false} \
    --config=profile.dev.package.probe-runtime.opt-level=0 \
    -p probe-patch -p probe-runtime --features probe-runtime/trace --target "$(rustc --print host-tuple)" --lib interleavings
