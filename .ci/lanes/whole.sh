#!/usr/bin/env bash
# Whole tests in place of slices, the tests of other people's crates, each pair of features, then
# the lane `judges`.
# Runs only by name, before a release: it takes long. See tests/README.md.
source "$(dirname "$0")/../common.sh"

tools

step 'whole unit tests'
PROBE_TEST_WHOLE=1 cargo test --workspace --lib

step 'optimised consumers, and an example'
cargo test "${optimised[@]}" --test consumers
cargo run --release -p quickstart

# The lane `release` plays slices of the first two, and none of the tests of C code.
step 'whole stress of optimised code, and C code beside an optimised runtime'
PROBE_TEST_WHOLE=1 cargo test "${optimised[@]}" --test patching --test built -- \
    live:: stress:: c_backtrace:: c_registers:: c_api_values:: c_toggle:: c_paired:: quick::

step 'whole models'
PROBE_TEST_WHOLE=1 .ci/lanes/loom.sh

step 'whole integration tests'
PROBE_TEST_WHOLE=1 cargo test --workspace --test '*'

step 'lints of the portable backend'
cargo build "$(wrapper clippy-portable)" --lib --tests \
    -p probe-core -p probe-lang -p probe-runtime -p probe-patch -p probe-workspace-hack \
    --features probe-runtime/agent,probe-runtime/latency,probe-runtime/call-tree,probe-runtime/profiler \
    --features probe-runtime/metrics,probe-runtime/perf,probe-runtime/serde,probe-runtime/trace,probe-runtime/tracing

step "other people's crates"
cargo test -p probe-tests --test built crates::all_of_them -- --ignored

# A pair shows whatever a third feature could hide or break.
step 'each feature, and each pair'
for one in $(features); do
    with_features "$one"
    for other in $(features | sed "0,/^$one\$/d"); do with_features "$one,$other"; done
done

PROBE_TEST_WHOLE=1 .ci/lanes/miri.sh
PROBE_TEST_WHOLE=1 .ci/lanes/portable.sh
PROBE_TEST_WHOLE=1 .ci/lanes/msrv.sh
PROBE_TEST_WHOLE=1 .ci/lanes/package.sh

.ci/lanes/judges.sh
