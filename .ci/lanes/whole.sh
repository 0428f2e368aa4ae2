#!/usr/bin/env bash
# Whole tests in place of slices, the tests of other people's crates, each pair of features, then
# the lane `judges`.
# Runs only by name, before a release: it takes long. See tests/README.md.
source "$(dirname "$0")/../common.sh"

tools

step 'whole integration tests'
PROBE_TEST_WHOLE=1 cargo test --workspace --test '*'

step "other people's crates"
cargo test -p probe-tests --test built crates::all_of_them -- --ignored

# A pair shows whatever a third feature could hide or break.
step 'lints of all pairs of features'
features 2

.ci/lanes/judges.sh
