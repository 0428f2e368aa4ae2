#!/usr/bin/env bash
# The published packages hold their files, and in the lane `whole` build from these alone.
source "$(dirname "$0")/../common.sh"

# The packages are made as cargo makes them, also from a working tree with uncommitted changes.
step 'packages'
packages=(probe-target probe-core probe-lang probe-report probe-expand probe-macros probe-patch probe-trace probe-protocol probe-inject probe-hooks probe-runtime probe-memory probe-sync probe-agent probe-build probe-cc probe-coldpatch probe-cli cargo-probe)
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

# A folder of these packages, and of those that they need, takes the registry's place. The program's
# own sources come from another folder, which has no runtime.
step 'cargo-probe from a registry, and a program that it measures'
registry=$PWD/target/registry
folder=$(mktemp -d)
trap 'rm -rf "$registry" "$folder"' EXIT
rm -rf "$registry"
cargo vendor --quiet --locked --versioned-dirs "$registry" >/dev/null
for package in "${packages[@]}"; do
    tar -xzf "target/package/$package-$version.crate" -C "$registry"
    echo '{"files":{}}' >"$registry/$package-$version/.cargo-checksum.json"
done
mkdir -p "$folder"/{home,program/{src,.cargo,vendored}}
printf '[source]\ncrates-io.replace-with = "packages"\npackages.directory = "%s"\n' \
    "$registry" >"$folder/home/config.toml"
cd "$folder/program"
printf '[source]\ncrates-io.replace-with = "vendored"\nvendored.directory = "vendored"\n' >.cargo/config.toml
printf '[package]\nname = "program"\nedition = "2024"\n' >Cargo.toml
cat >src/main.rs <<'END'
fn double(n: u32) -> u32 {
    if n > 1_000 { n } else { double(2 * n) }
}

fn main() {
    println!("{}", double(1));
    std::process::exit(3);
}
END
export CARGO_HOME=$folder/home XDG_CACHE_HOME=$folder/cache PATH=$folder/home/bin:$PATH
cargo install --quiet --debug cargo-probe
cargo probe count --quiet >output 2>table && status=0 || status=$?
counted=$(awk '$2 == "entry" { print $1, $4 }' table | sort | xargs)
[ "$status $(<output) $counted" = '3 1024 program::double 11 program::main 1' ] || { cat output table; exit 1; }
