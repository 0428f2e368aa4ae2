#!/usr/bin/env bash
# Format, prose, lints and documentation, and sets of features.
source "$(dirname "$0")/../common.sh"

step 'format'
cargo fmt --all --check

step 'prose'
.ci/prose

step 'the workflow has the lanes of .ci/run'
diff <(sed -n 's/^lanes=(\(.*\))$/\1/p' .ci/run | tr ' ' '\n') \
    <(sed -n 's/^ *lane: \[\(.*\)\]$/\1/p' .github/workflows/ci.yml | sed 's/, /\n/g')

# The tests of the lanes `unit`, `integration`, `built` and `tool` are compiled here.
step 'lints'
cargo build "$(wrapper linted)" --workspace --all-targets

# The least sets. The lints above have all features but `off`, and the lanes `release`, `loom` and
# `msrv` some. The lane `whole` checks each alone, and each pair.
step 'sets of features'
for set in '' std; do with_features "$set" -p probe-workspace-hack; done

# Pages of items that are gone would have no example.
step 'docs'
rm -rf target/doc
RUSTDOC=$PWD/.ci/rustc/docs cargo test "$(wrapper linted)" --workspace --doc

# Each public item has an example, which the tests run: of `probe-runtime`, in all modules. A page
# that leads to another one is a re-export. Examples of what an item derefs to don't count.
shopt -s globstar
root=target/doc/probe_runtime
[ -e "$root/index.html" ] || { echo "no docs: $root"; exit 1; }
for page in "$root"/**/{struct,enum,fn,trait,macro,attr,constant}.*.html \
    target/doc/probe_trace/{.,calls,export}/{struct,enum,fn,trait,constant}.*.html \
    target/doc/probe_protocol/{struct,enum,fn,trait,constant}.*.html \
    target/doc/probe_sync/**/{struct,enum,fn,trait,type}.*.html \
    target/doc/probe_inject/{struct,enum,fn,trait,constant}.*.html \
    target/doc/probe_patch/{.,call,word}/{struct,enum,fn,trait,constant}.*.html; do
    [ -e "$page" ] || continue
    own=$(sed -z 's/id="deref-methods.*//' "$page")
    grep -q 'rust-example-rendered\|http-equiv="refresh"' <<<"$own" || { echo "no example: $page"; exit 1; }
done
