#!/usr/bin/env bash
# The published packages hold their files, and build from these alone.
source "$(dirname "$0")/../common.sh"

# Builds the packages as cargo packages them, also from a working tree with uncommitted changes.
step 'packages'
packages=(probe-macros probe-patch probe-trace probe-protocol probe-runtime probe-agent probe-build probe-cli)
# Cargo considers a package with the same version unchanged. So no source that an earlier run
# unpacked and no file that it compiled may stay.
rm -rf target/packaged
for package in "${packages[@]}"; do
    rm -rf "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/"$package"-[0-9]*
done
cargo package --allow-dirty --target-dir target/packaged "${packages[@]/#/--package=}"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
for package in "${packages[@]}"; do
    files=(LICENSE-APACHE LICENSE-MIT README.md)
    # Files that the crate's documentation includes.
    while read -r file; do files+=("$file"); done < <(sed -n 's/.*include_str!("..\/\(docs\/.*\.md\)").*/\1/p' "$package/src/lib.rs")
    held=$(tar -tzf "target/packaged/package/$package-$version.crate")
    for file in "${files[@]}"; do
        grep -qx "$package-$version/$file" <<<"$held" || { echo "$package: its package lacks $file"; exit 1; }
    done
done
