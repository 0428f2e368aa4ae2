#!/usr/bin/env bash
# The oldest supported Rust checks the crates and the macros' expansions, and builds an example. In
# the lane `whole` it checks the command-line tool and the tests of sites, too.
source "$(dirname "$0")/../common.sh"

step 'the oldest Rust that is supported'
oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
if command -v rustup >/dev/null && rustup toolchain install "$oldest" --profile minimal; then
    for features in --no-default-features --features=off; do
        cargo "+$oldest" check -p probe-runtime "$features" --target-dir target/oldest
    done
    # All at once, so that each dependency has one set of features. The tests of sites have every
    # expansion, the examples most.
    checked=(-p probe-agent -p probe-build -p probe-examples --features probe-build/parallel --lib --examples)
    [ "${PROBE_TEST_WHOLE:-0}" = 0 ] || checked+=(-p probe-cli -p probe-tests --bins --test sites)
    cargo "+$oldest" check "${checked[@]}" --target-dir target/oldest
    # Checks make no code: this one builds sites, links and switches them.
    cargo "+$oldest" run -p probe-examples --example quickstart --target-dir target/oldest
else
    echo "left out: there is no Rust $oldest"
fi
