#!/usr/bin/env bash
# Pins every dependency with its hashes. The files name no package index, so any mirror serves.
set -euo pipefail
cd "$(dirname "$0")/../.."
uv=${UV:-.venv/bin/uv}
compile() { "$uv" pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header "$@"; }
echo "hatchling>=1.27" | compile - -o requirements/build.txt
compile pyproject.toml -c requirements/build.txt -o requirements/base.txt
compile pyproject.toml --group dev -c requirements/base.txt -c requirements/build.txt -o requirements/dev.txt
