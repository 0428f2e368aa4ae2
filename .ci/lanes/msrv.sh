#!/usr/bin/env bash
# The oldest supported Rust builds the crates, and the expansions of the macros.
source "$(dirname "$0")/../common.sh"

step 'the oldest Rust that is supported'
oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
if command -v rustup >/dev/null && rustup toolchain install "$oldest" --profile minimal; then
    for features in --no-default-features --features=off; do
        cargo "+$oldest" check -p probe-runtime "$features" --target-dir target/oldest
    done
    cargo "+$oldest" check -p probe-cli -p probe-agent --target-dir target/oldest
    cargo "+$oldest" check -p probe-build --features parallel --target-dir target/oldest
    # Expansions need the same. This builds the runtime with all its features but `off`.
    cargo "+$oldest" test -p probe-tests --test sites --target-dir target/oldest -- macros:: futures:: futures_forms::
else
    echo "left out: there is no Rust $oldest"
fi
