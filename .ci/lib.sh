# Shared by .ci/run and .ci/full: named steps, a table at the end, and what a new machine lacks.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}
export CARGO_INCREMENTAL=0
export RUST_BACKTRACE=0

# The crates of Cratefield declare a newer Rust than they need.
flags=(--locked --ignore-rust-version)

# The official schemas are not part of the project. Where they are, every check against them must run.
if [ -z "${MCP_SCHEMA_DIR:-}" ] && [ -d ../shared/mcp-schema ]; then
  MCP_SCHEMA_DIR=$(cd ../shared/mcp-schema && pwd)
  export MCP_SCHEMA_DIR
fi
[ -z "${MCP_SCHEMA_DIR:-}" ] || export MCP_SCHEMA_REQUIRED=1

rows=()
failed=0

# step NAME COMMAND...: runs it, and goes on whatever happens. 75 means that it cannot be had here.
step() {
  local name=$1 from=$SECONDS status
  shift
  echo
  echo "=== $name"
  "$@"
  status=$?
  case $status in
    0) verdict=ok ;;
    75) verdict=skipped ;;
    *) verdict="FAILED ($status)" failed=1 ;;
  esac
  rows+=("$(printf '%-34s %-12s %5d s' "$name" "$verdict" $((SECONDS - from)))")
}

finish() {
  echo
  printf '%s\n' "${rows[@]}"
  exit "$failed"
}

# need PROGRAM PACKAGE: installs Debian's package where the program is missing.
need() {
  command -v "$1" >/dev/null && return
  command -v apt-get >/dev/null || { echo "skipped: $1 is not here, and there is no apt-get"; return 75; }
  [ -n "${apt_updated:-}" ] || apt-get update -qq
  apt_updated=1
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$2" >/dev/null || {
    echo "skipped: Debian's $2 cannot be installed"
    return 75
  }
}
