#!/usr/bin/env bash
# Pins every dependency with its hashes. The files name no package index, so any mirror serves.
# What the server itself needs is pinned to versions that every extra accepts too, so that one can be added to an
# installed server without changing a version. requirements/extras/ has one lock for each extra, and `all.txt` for
# all of them together with the tools of the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
uv=${UV:-.venv/bin/uv}
joint=$(mktemp)
trap 'rm -f "$joint"' EXIT
resolve() { "$uv" pip compile -q --universal --python-version 3.11 --no-emit-index-url --no-header "$@"; }
compile() { resolve --generate-hashes "$@"; }
echo "hatchling>=1.27" | compile - -o requirements/build.txt
resolve pyproject.toml --all-extras --group dev --no-annotate -c requirements/build.txt -o "$joint" > /dev/null
compile pyproject.toml -c "$joint" -c requirements/build.txt -o requirements/base.txt
# The image with NATS (Dockerfile, REQUIREMENTS).
compile pyproject.toml --extra nats -c "$joint" -c requirements/base.txt -c requirements/build.txt -o requirements/nats.txt
compile pyproject.toml --group dev -c "$joint" -c requirements/base.txt -c requirements/build.txt -o requirements/dev.txt
for extra in langgraph deepagents openai-agents google-adk agent-framework pydantic-ai presidio; do
    compile pyproject.toml --extra "$extra" -c "$joint" -c requirements/base.txt -o "requirements/extras/$extra.txt"
done
compile pyproject.toml --all-extras --group dev -c "$joint" -c requirements/dev.txt -o requirements/extras/all.txt
# The joint resolution is a file of this machine: the locks do not mention it.
sed -i "\|^    #   -c $joint\$|d" requirements/*.txt requirements/extras/*.txt
