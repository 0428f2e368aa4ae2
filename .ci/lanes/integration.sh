#!/usr/bin/env bash
# Tests of whole programs, many of which are built with the compilers and linkers that users have.
# `PROBE_TEST_WHOLE=1` asks for whole tests in place of slices: see tests/README.md.
source "$(dirname "$0")/../common.sh"

# GNU ld, for the linker matrix; a second compiler of C and C++, with its linker; debuggers and other
# tools that run a program step by step.
need ld.bfd=binutils g++ clang++=clang ld.lld=lld gdb valgrind strace
# For the libraries that are checked without an operating system.
command -v rustup >/dev/null && rustup target add x86_64-unknown-none || echo 'left out: x86_64-unknown-none'

# `cargo test` alone builds the examples, too; with targets it doesn't.
step 'examples'
cargo build --workspace --examples

step 'integration tests'
cargo test --workspace --test '*'
