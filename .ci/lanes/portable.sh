#!/usr/bin/env bash
# The portable backend.
source "$(dirname "$0")/../common.sh"

tools

step 'tests of the portable backend'
RUSTFLAGS='--cfg probe_portable' cargo test -p probe-patch -p probe-runtime -p probe-tests --target-dir target/portable
