#!/usr/bin/env bash
# Undefined behaviour.
source "$(dirname "$0")/../common.sh"

# First the backend that Miri has: sites, layouts, values and the rings of traces; then the other
# one's tables and protocol of words, as far as they touch no text. The lane `whole` has layouts,
# values and rings with that one, too. Safe code is left to the other lanes.
# Values cross as addresses; a panic's payload is never dropped. All share a folder: flags are those
# of the interpreted crates, so procedural macros are built once.
step 'undefined behaviour under Miri'
units=(--lib -- trace::ring:: trace::drain:: trace::disarmed::)
# A case of a property takes up to six seconds. The lane `whole` has some.
[ "${PROBE_TEST_WHOLE:-0}" != 0 ] || units+=(--skip histories::)
miri() {
    MIRIFLAGS='-Zmiri-disable-isolation -Zmiri-permissive-provenance -Zmiri-ignore-leaks' PROPTEST_CASES=8 \
        cargo +nightly miri test --target-dir target/miri "$@"
}
if cargo +nightly miri --version >/dev/null 2>&1 \
    || rustup toolchain install nightly --profile minimal --component miri,rust-src; then
    miri -p probe-runtime --features trace --test interpreted
    miri -p probe-core --lib -- abi::
    miri -p probe-runtime --features trace "${units[@]}"
    export RUSTFLAGS='--cfg probe_in_place'
    miri -p probe-patch --lib -- table::tests protocol:: --skip model:: --skip plan::
    if [ "${PROBE_TEST_WHOLE:-0}" != 0 ]; then
        miri -p probe-core --lib -- abi::
        miri -p probe-runtime --features trace "${units[@]}"
    fi
else
    echo 'left out: there is no Miri'
fi
