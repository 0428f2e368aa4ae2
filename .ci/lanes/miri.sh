#!/usr/bin/env bash
# Undefined behaviour.
source "$(dirname "$0")/../common.sh"

# First the backend that Miri has, sites and all; then the other one's tables and protocol of words,
# as far as they touch no text, and the rings of traces. Safe code is left to the other lanes.
# Values cross as addresses; a panic's payload is never dropped. All share a folder: flags are those
# of the interpreted crates, so procedural macros are built once.
step 'undefined behaviour under Miri'
# A case of a property takes up to six seconds. The lane `whole` has some.
[ "${PROBE_TEST_WHOLE:-0}" != 0 ] && slow=() || slow=(--skip histories::)
miri() {
    MIRIFLAGS='-Zmiri-disable-isolation -Zmiri-permissive-provenance -Zmiri-ignore-leaks' PROPTEST_CASES=8 \
        cargo +nightly miri test "$@"
}
if cargo +nightly miri --version >/dev/null 2>&1 \
    || rustup toolchain install nightly --profile minimal --component miri,rust-src; then
    miri -p probe-runtime --target-dir target/miri --test interpreted
    RUSTFLAGS='--cfg probe_in_place' miri -p probe-patch --target-dir target/miri --lib -- table::tests word:: --skip model:: --skip plan::
    RUSTFLAGS='--cfg probe_in_place' miri -p probe-runtime --features trace --target-dir target/miri --lib -- abi:: trace::ring:: trace::drain:: trace::dormant:: "${slow[@]}"
else
    echo 'left out: there is no Miri'
fi
