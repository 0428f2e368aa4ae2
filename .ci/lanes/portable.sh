#!/usr/bin/env bash
# The portable backend.
source "$(dirname "$0")/../common.sh"

tools

# The programs of tests in which this backend has a part. The lane `whole` plays all that build.
programs=(--lib --test forks --test hooks --test interpreted --test sites --test consumers --test life --test patching)
[ "${PROBE_TEST_WHOLE:-0}" = 0 ] || programs=(--tests)

step 'tests of the portable backend'
# In the folder of the other lanes, whose dependencies serve here, too. The lane `unit` has played
# the cases of properties, most of which no backend has a part in.
PROPTEST_CASES=16 RUSTC_WORKSPACE_WRAPPER=$PWD/.ci/portable-rustc CARGO_CFG_PROBE_PORTABLE= \
    cargo test -p probe-patch -p probe-runtime -p probe-tests "${programs[@]}"
