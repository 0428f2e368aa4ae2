#!/usr/bin/env bash
# The portable backend.
source "$(dirname "$0")/../common.sh"

tools

# The programs of tests in which this backend has a part. The lane `whole` plays all that build,
# consumers too, and the unit tests of the runtime. It lints this backend, too.
programs=(--test interpreted --test sites --test life --test patching)
[ "${PROBE_TEST_WHOLE:-0}" = 0 ] || programs=(--tests)

# In the folder of the other lanes, whose dependencies serve here, too. The lane `unit` has played
# the cases of properties, most of which no backend has a part in. The wrapper is a variable, so
# that what tests build is portable, too.
export PROPTEST_CASES=16 RUSTC_WORKSPACE_WRAPPER=$PWD/.ci/rustc/portable

step 'tests of the portable backend'
cargo test -p probe-patch -p probe-workspace-hack --lib
cargo test -p probe-core -p probe-lang -p probe-runtime -p probe-tests -p probe-workspace-hack "${programs[@]}"
