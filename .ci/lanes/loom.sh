#!/usr/bin/env bash
# Every interleaving of the lock-free protocols, as far as the model checker bounds it.
source "$(dirname "$0")/../common.sh"

step 'lock-free protocols under the model checker'
RUSTFLAGS='--cfg loom' cargo test --release -p probe-patch -p probe-runtime --features probe-runtime/trace --target-dir target/loom --lib interleavings
