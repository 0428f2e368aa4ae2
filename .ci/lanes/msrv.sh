#!/usr/bin/env bash
# The oldest supported Rust checks the runtime, with the features of the examples, and the macros'
# expansions. In the lane `whole` it checks all crates and the tests of sites, too, and builds
# examples. Outside of expansions, lints find what the standard library of that Rust lacks.
source "$(dirname "$0")/../common.sh"

step 'the oldest Rust that is supported'
oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
if command -v rustup >/dev/null && rustup toolchain install "$oldest" --profile minimal; then
    cargo "+$oldest" check -p probe-runtime --no-default-features --target-dir target/oldest
    # All at once, so that each dependency has one set of features. The tests of sites have every
    # expansion, the examples most. In the whole, the agent has all features of the runtime that it
    # can have.
    checked=(-p probe-examples -p quickstart --examples --bins)
    [ "${PROBE_TEST_WHOLE:-0}" = 0 ] ||
        checked+=(-p probe-agent -p probe-build -p probe-cli -p cargo-probe -p probe-sync -p probe-tests --features probe-build/parallel --lib --bins --test sites)
    cargo "+$oldest" check "${checked[@]}" --target-dir target/oldest
    if [ "${PROBE_TEST_WHOLE:-0}" != 0 ]; then
        # Checks make no code. These builds have sites, which are linked and switched.
        cargo "+$oldest" run -p traced --target-dir target/oldest -- target/oldest/traced.folded
        cargo "+$oldest" run -p quickstart --target-dir target/oldest
        cargo "+$oldest" check -p probe-runtime --features=off --target-dir target/oldest
    fi
else
    echo "left out: there is no Rust $oldest"
fi
