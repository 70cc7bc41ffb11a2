#!/usr/bin/env bash
# All tests: those of the backends that need an extra run beside the others, because both wait for a part of their time.
# What they print is shown when all have ended, each line marked, so that the last closing line of pytest is that of the
# others. The exit status is theirs if they failed, else that of the backends.
#
#   scripts/test.sh .venv/bin [options of pytest for the others]
set -uo pipefail
bin=$1
shift

printed=$(mktemp "${TMPDIR:-/tmp}/holdfast-extras.XXXXXX")
"${MAKE:-make}" --no-print-directory test-extras >"$printed" 2>&1 &
beside=$!
# A process in the background does not hear Ctrl-C.
trap 'kill "$beside" 2>/dev/null; rm -f "$printed"' EXIT

"$bin/python" -m pytest "$@"
status=$?
wait "$beside"
status_of_extras=$?
sed 's/^/extras: /' "$printed"
[ "$status" -ne 0 ] || status=$status_of_extras
exit "$status"
