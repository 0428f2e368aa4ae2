#!/usr/bin/env bash
# The portable backend.
source "$(dirname "$0")/../common.sh"

tools

step 'tests of the portable backend'
# In the folder of the other lanes, whose dependencies serve here, too.
RUSTC_WORKSPACE_WRAPPER=$PWD/.ci/portable-rustc CARGO_CFG_PROBE_PORTABLE= \
    cargo test -p probe-patch -p probe-runtime -p probe-tests
