# Everything starts here: `make serve` and `make test` set themselves up on a machine that has
# only Python 3.11 (or newer) and make. Installs are locked by hash and repeated only when a lock changes.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -qq
# The first install takes a while: whoever waits for it sees what is going on.
PIP_VERBOSE := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: serve test install install-dev check format lint types imports generated generate bench bench-log \
        bench-workspace bench-models bench-guard bench-runs bench-edge bench-start container recordings faults smoke \
        requirements lock clean

serve: install
	@$(BIN)/holdfast serve

install: $(VENV)/.base
install-dev: $(VENV)/.dev

$(VENV)/.base: requirements/base.txt pyproject.toml
	@echo "Installing Holdfast into $(VENV): once, about a minute."
	@test -x $(BIN)/python || { echo "[1/3] making the environment"; $(PYTHON) -m venv $(VENV); }
	@echo "[2/3] downloading and installing the locked packages"
	@$(PIP_VERBOSE) install --require-hashes -r requirements/build.txt -r requirements/base.txt
	@echo "[3/3] installing Holdfast itself"
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(VENV)/.base requirements/dev.txt
	@$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

test: install-dev
	@$(BIN)/python -m pytest -n 2

check: format lint types imports generated test

format: install-dev
	@$(BIN)/ruff format --check .

lint: install-dev
	@$(BIN)/ruff check .

types: install-dev
	@$(BIN)/mypy

imports: install-dev
	@$(BIN)/lint-imports --no-cache

# Schemas, error pages and the like are generated from code; the check fails when they are stale.
generated: install-dev
	@$(BIN)/python -m scripts.generate --check

generate: install-dev
	@$(BIN)/python -m scripts.generate

# Pictures of the real program at a terminal.
recordings: install-dev
	@$(BIN)/python -m scripts.terminal

requirements: install-dev
	@$(BIN)/python -m scripts.requirements

faults: install-dev
	@$(BIN)/python -m pytest -m faults --timeout 3600 -n 0 tests/faults tests/models/test_flaky.py

# Each step of the Dockerfile in a clean folder: installs everything anew.
container: install-dev
	@$(BIN)/python -m pytest -m slow -n 0 tests/packaging

# All of them, and one table: bench/results.md.
bench: install-dev
	@$(BIN)/python -m bench

bench-start: install-dev
	@$(BIN)/python -m bench.start

bench-log: install-dev
	@$(BIN)/python -m bench.log

bench-models: install-dev
	@$(BIN)/python -m bench.models

bench-guard: install-dev
	@$(BIN)/python -m bench.guard

bench-edge: install-dev
	@$(BIN)/python -m bench.edge

bench-runs: install-dev
	@$(BIN)/python -m bench.runs

bench-workspace: install-dev
	@$(BIN)/python -m bench.workspace

smoke:
	@bash scripts/smoke.sh

lock: install-dev
	@bash scripts/lock.sh

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis build dist
