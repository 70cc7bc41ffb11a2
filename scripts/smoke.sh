#!/usr/bin/env bash
# A newcomer's first ten minutes: clones HEAD into an empty folder, starts it with `make serve`, does one
# run, stops it, then runs the tests marked smoke there. Needs git, make and Python 3.11, as the README says.
# Every wait is bounded; whatever was started or written is gone afterwards.
set -euo pipefail

# Seconds. A cold install depends on the network; the server itself has to be there soon after it.
INSTALL_LIMIT=${SMOKE_INSTALL_LIMIT:-900}
READY_LIMIT=90
STOP_LIMIT=40
TEST_LIMIT=600

root=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-smoke.XXXXXX")
clone=$place/clone
output=$place/serve.log
make_pid=

say() { printf 'smoke: %s\n' "$*"; }
fail() {
    say "FAILED: $*" >&2
    [ ! -s "$output" ] || { say "the end of what the server said:" >&2; tail -n 40 "$output" >&2; }
    exit 1
}
alive() { kill -0 "$1" 2>/dev/null; }
children() { ps -A -o pid= -o ppid= | awk -v parent="$1" '$2 == parent { print $1 }'; }
family() {
    local child
    for child in $(children "$1"); do family "$child"; done
    echo "$1"
}
clean_up() {
    status=$?
    if [ -n "$make_pid" ] && alive "$make_pid"; then
        # shellcheck disable=SC2046 # a list of process ids
        kill -KILL $(family "$make_pid") 2>/dev/null || true
    fi
    rm -rf "$place"
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# Nothing of ours comes along: no variables, no caches. The machine's package mirror does (PIP_*, SSL_* and
# the configuration in HOME), because without it some machines reach no packages at all.
clean=(env -i "PATH=$PATH" "HOME=$HOME" "LANG=${LANG:-C.UTF-8}")
while IFS= read -r name; do
    case $name in PIP_* | SSL_*) clean+=("$name=${!name}") ;; esac
done < <(compgen -e)
clean+=("XDG_CACHE_HOME=$place/cache" PIP_NO_CACHE_DIR=1)

say "cloning $(git -C "$root" rev-parse --short HEAD)"
git clone -q --no-hardlinks "$root" "$clone"
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=http://127.0.0.1:$port

SECONDS=0
"${clean[@]}" "HOLDFAST_PORT=$port" "HOLDFAST_DATA_DIR=$place/data" make -C "$clone" serve >"$output" 2>&1 &
make_pid=$!
until [ -e "$clone/.venv/.base" ]; do
    alive "$make_pid" || fail "make serve ended during the install"
    [ "$SECONDS" -lt "$INSTALL_LIMIT" ] || fail "the install took more than $INSTALL_LIMIT s"
    sleep 0.2
done
say "installed after $SECONDS s"

# A machine need not have curl; it has Python.
call() {
    python3 - "$@" <<'PYTHON'
import json, sys, urllib.error, urllib.request

url, body = sys.argv[1], sys.argv[2].encode() if len(sys.argv) > 2 else None
request = urllib.request.Request(url, body, {"content-type": "application/json"})
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    with opener.open(request, timeout=20) as answer:
        content = answer.read()
        if body is None:
            sys.exit(0)
        run = json.loads(content)
        if answer.status != 200 or run.get("status") != "completed":
            sys.exit(f"the run did not complete: {answer.status} {content[:500]!r}")
        print(f"run {run['id']} answered {json.dumps(run['output'])[:200]}")
except urllib.error.HTTPError as error:
    sys.exit(f"{url} answered {error.code}: {error.read()[:500]!r}")
except OSError as error:
    sys.exit(f"{url} does not answer: {error}")
PYTHON
}

ready_by=$((SECONDS + READY_LIMIT))
until call "$url/readyz" 2>/dev/null; do
    alive "$make_pid" || fail "make serve ended before it was ready"
    [ "$SECONDS" -lt "$ready_by" ] || fail "not ready $READY_LIMIT s after the install: $(call "$url/readyz" 2>&1)"
    sleep 0.2
done
answer=$(call "$url/api/runs?wait=10" '{"agent": "echo", "input": "hello"}' 2>&1) || fail "$answer"
say "$answer"
say "first answered run $SECONDS s after make serve, install included"

server=$(children "$make_pid" | head -n 1)
[ -n "$server" ] || fail "the server's process was not found"
kill -TERM "$server"
stop_by=$((SECONDS + STOP_LIMIT))
while alive "$make_pid"; do
    [ "$SECONDS" -lt "$stop_by" ] || fail "still running $STOP_LIMIT s after SIGTERM"
    sleep 0.1
done
wait "$make_pid" || fail "the server ended with an error after SIGTERM"
make_pid=
say "stopped by SIGTERM"

"${clean[@]}" timeout "$INSTALL_LIMIT" make -C "$clone" install-dev || fail "make install-dev"
cd "$clone"
"${clean[@]}" timeout "$TEST_LIMIT" .venv/bin/python -m pytest -m smoke || fail "the tests marked smoke"
say "passed"
