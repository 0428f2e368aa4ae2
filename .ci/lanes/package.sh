#!/usr/bin/env bash
# The published packages hold their files, and in the lane `whole` build from these alone.
source "$(dirname "$0")/../common.sh"

# The packages are made as cargo makes them, also from a working tree with uncommitted changes.
step 'packages'
packages=(probe-target probe-core probe-lang probe-report probe-expand probe-macros probe-patch probe-trace probe-protocol probe-inject probe-hooks probe-runtime probe-agent probe-build probe-cc probe-coldpatch probe-cli cargo-probe)
rm -rf target/package target/unpacked
cargo package --allow-dirty --no-verify "${packages[@]/#/--package=}"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
for package in "${packages[@]}"; do
    files=(LICENSE-APACHE LICENSE-MIT README.md)
    # Files that the crate's documentation includes.
    while read -r file; do files+=("$file"); done < <(sed -n 's/.*include_str!("..\/\(docs\/.*\.md\)").*/\1/p' "$package/src/lib.rs")
    held=$(tar -tzf "target/package/$package-$version.crate")
    for file in "${files[@]}"; do
        grep -qx "$package-$version/$file" <<<"$held" || { echo "$package: its package lacks $file"; exit 1; }
    done
done

[ "${PROBE_TEST_WHOLE:-0}" != 0 ] || exit 0

# Checked, not built: other lanes link these sources. The lane `lint` has compiled the dependencies
# in the same folder. Alone, the runtime has its default features.
step 'the packages as a workspace of their own'
unpacked=target/unpacked
mkdir -p "$unpacked"
{
    printf '[workspace]\nresolver = "3"\nmembers = ["*"]\n[patch.crates-io]\n'
    for package in "${packages[@]}"; do
        tar -xzf "target/package/$package-$version.crate" -C "$unpacked"
        printf '%s = { path = "%s" }\n' "$package" "$package-$version"
    done
    # With other profiles, no dependency would be the one that is compiled already.
    sed -n '/^\[profile\.dev/,/^$/p' Cargo.toml
} >"$unpacked/Cargo.toml"
cp Cargo.lock "$unpacked"
for chosen in --workspace --package=probe-runtime; do
    cargo build "$(wrapper strict)" --manifest-path "$unpacked/Cargo.toml" --target-dir target "$chosen"
done
