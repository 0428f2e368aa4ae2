# What every lane begins with: it stands in the repository's root, fails at the first error, and names its steps.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

step() { printf '\n== %s (at %d s)\n' "$*" "$SECONDS"; }

# Nothing is built twice here: what incremental builds keep would only be disk.
export CARGO_INCREMENTAL=0

# Installs those of the tools that are missing, where that is possible: command=package, or the name of both.
# Without them, the tests that need them say so and go on.
need() {
    local tool missing=()
    for tool in "$@"; do command -v "${tool%=*}" >/dev/null || missing+=("${tool#*=}"); done
    if [ ${#missing[@]} -ne 0 ] && command -v apt-get >/dev/null; then
        step "install ${missing[*]}"
        apt-get update -qq && apt-get install -y -qq "${missing[@]}"
    fi
}
