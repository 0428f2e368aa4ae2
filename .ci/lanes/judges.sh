#!/usr/bin/env bash
# Traces in the tools of other people: Perfetto's own message classes, speedscope and the Firefox
# Profiler's loader read each format, and each value of the example `traced` is compared with what
# the example does. Runs by name and in the lane `whole`: it needs a browser.
source "$(dirname "$0")/../common.sh"

need python3 node=nodejs npm chromium
python3 -c 'import ensurepip' 2>/dev/null || need ensurepip=python3-venv

home=$PWD/target/judges
scripts=$PWD/probe-trace/tests/judge
python=$home/python/bin/python

step 'judges'
mkdir -p "$home"
[ -x "$python" ] || python3 -m venv "$home/python"
# `perfetto` has Perfetto's definitions, and no trace processor: it downloads one. `profiler-cli` is
# the Firefox Profiler's own loader, without its page.
"$python" -m pip install --quiet --disable-pip-version-check perfetto==0.59.1 protobuf==7.36.2
npm install --prefix "$home" --no-save --no-fund --no-audit --silent \
    speedscope@1.25.0 playwright-core@1.65.1 @firefox-devtools/profiler-cli@0.10.0

step 'each value of a trace for Perfetto'
PROBE_PERFETTO_PYTHON=$python cargo test -p probe-trace --lib -- --nocapture perfetto_reads_what_is_written \
    2>&1 | tee "$home/read.txt"
if grep '^skipped' "$home/read.txt"; then exit 1; fi

step 'traces of an example'
for ending in pftrace json firefox.json folded; do cargo run -p traced "$home/traced.$ending"; done
export PYTHONDONTWRITEBYTECODE=1
"$python" "$scripts/traced_pftrace.py" "$home/traced.pftrace"
cd "$home"
for ending in json folded; do
    node "$scripts/speedscope.mjs" "traced.$ending" "$ending.png" "$ending.speedscope.json"
done
"$python" "$scripts/traced_speedscope.py" json.speedscope.json folded.speedscope.json traced.folded
export PROFILER_CLI_SESSION_DIR=$home/session
"$python" "$scripts/traced_firefox.py" node_modules/.bin/profiler-cli traced.firefox.json
