"""What the fault tests counted, printed at the end of a session: `make faults` is read by people."""

import contextlib
from pathlib import Path
from typing import Protocol

import pytest

from tests.faults.audit import Figures
from tests.faults.witness import Witness

_COUNTED = pytest.StashKey[list[str]]()


class Count(Protocol):
    def __call__(self, figures: Figures, note: str = "") -> None: ...


class Report(Protocol):
    def __call__(self, line: str) -> None: ...


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    return Witness(tmp_path)


@pytest.fixture(scope="session")
def say(pytestconfig: pytest.Config) -> Report:
    """Prints a line at once, also while pytest keeps what tests print: of tests that take long."""

    def say(line: str) -> None:
        capture = pytestconfig.pluginmanager.getplugin("capturemanager")
        with contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled():
            print(f"\n{line}", end="", flush=True)

    return say


@pytest.fixture(scope="session")
def conclude(pytestconfig: pytest.Config) -> Report:
    """Keeps a line about several tests for the closing report."""
    return lambda line: pytestconfig.stash.setdefault(_COUNTED, []).append(line)


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Report:
    """Keeps a line for the closing report."""
    return lambda line: request.config.stash.setdefault(_COUNTED, []).append(f"{request.node.name}: {line}")


@pytest.fixture
def count(request: pytest.FixtureRequest) -> Count:
    """Keeps a test's figures for the closing report, then insists that they are sound."""

    def keep(figures: Figures, note: str = "") -> None:
        line = f"{request.node.name}: {figures}{note and f'; {note}'}"
        request.config.stash.setdefault(_COUNTED, []).append(line)
        figures.assert_sound()

    return keep


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    counted = config.stash.get(_COUNTED, [])
    if counted:
        terminalreporter.section("what the faults left behind")
        for line in counted:
            terminalreporter.write_line(line)
