#!/usr/bin/env bash
# Optimised code of sites, of patching and of hooks: an optimiser could break these.
source "$(dirname "$0")/../common.sh"

tools

step 'tests of optimised code'
cargo test "$(wrapper apart)" "${optimised[@]}" --no-default-features --features quick --test sites --test patching --test finstrument
