# Each lane begins with this file: it goes to the repository's root, stops at the first error, and
# names the lane's steps.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

step() { printf '\n== %s (at %d s)\n' "$*" "$SECONDS"; }

# Nothing is built twice here: what incremental builds keep would only be disk.
export CARGO_INCREMENTAL=0
# Nothing reads the lines of this workspace's own code, which debug builds leave out by themselves.
export CARGO_PROFILE_RELEASE_DEBUG=0

# The tests play fewer files at a time, since another lane plays beside this one.
PROBE_TEST_JOBS=$(($(nproc) + 1))
export PROBE_TEST_JOBS

# Tests panic on purpose, under Miri, too, where a backtrace takes a minute.
export RUST_BACKTRACE=0

# The arguments of optimised builds of the integration tests. They change the profile of debug
# builds, but not for dependencies and procedural macros, so these are the ones that debug builds
# have compiled. Packages without sites stay unoptimised, too, which takes far less time to compile.
optimised=({opt-level=3,debug-assertions=false,overflow-checks=false} 'package."*".opt-level=0' \
    {'package."*"',build-override}.{debug-assertions,overflow-checks}=true \
    package.probe-{build,protocol,trace}.{opt-level=0,debug-assertions=true,overflow-checks=true})
optimised=("${optimised[@]/#/--config=profile.dev.}" -p probe-tests -p probe-workspace-hack)

# Installs missing tools if it can. An argument is `command=package`, or one name for both. The
# tests that need a missing tool say so and go on.
need() {
    local tool missing=()
    for tool in "$@"; do command -v "${tool%=*}" >/dev/null || missing+=("${tool#*=}"); done
    if [ ${#missing[@]} -ne 0 ] && command -v apt-get >/dev/null; then
        step "install ${missing[*]}"
        # Another lane may be about it.
        mkdir -p target
        flock target/install sh -c 'apt-get update -qq && apt-get install -y -qq "$@"' install "${missing[@]}"
    fi
}

# The tools of the tests: linkers, and tools that change files; a second compiler of C and C++, and
# another C library; debuggers, tracers and other tools that run a program step by step; what builds
# put before compilers. The last target checks that libraries build without an operating system.
tools() {
    need ld.bfd=binutils ld.lld=lld mold patchelf eu-strip=elfutils g++ clang++=clang musl-gcc=musl-tools gdb \
        valgrind strace bpftrace meson ccache distcc
    command -v rustup >/dev/null && rustup target add x86_64-unknown-none || echo 'left out: x86_64-unknown-none'
}

# A wrapper in `.ci/rustc` for the compiler of the workspace's own crates, as an argument of cargo.
# A variable of the environment would reach the builds of tests.
wrapper() { echo "--config=build.rustc-workspace-wrapper='$PWD/.ci/rustc/$1'"; }

# Checks `probe-runtime` with these features alone. Further arguments are packages that give
# features to its dependencies.
with_features() {
    cargo build "$(wrapper strict)" -p probe-runtime "${@:2}" --no-default-features \
        --features "$(sed 's:[^,]\+:probe-runtime/&:g' <<<"$1")"
}

# The features of `probe-runtime`.
features() { sed -n '/^\[features\]/,/^$/s/^\([a-z][a-z-]*\) = .*/\1/p' probe-runtime/Cargo.toml | grep -vx default; }
