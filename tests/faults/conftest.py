"""What the fault tests counted, printed at the end of a session: `make faults` is read by people."""

from collections.abc import Callable

import pytest

from tests.faults.audit import Figures

_COUNTED = pytest.StashKey[list[tuple[str, Figures]]]()


@pytest.fixture
def count(request: pytest.FixtureRequest) -> Callable[[Figures], None]:
    """Keeps a test's figures for the closing report, then insists that they are sound."""

    def keep(figures: Figures) -> None:
        request.config.stash.setdefault(_COUNTED, []).append((request.node.name, figures))
        figures.assert_sound()

    return keep


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    counted = config.stash.get(_COUNTED, [])
    if counted:
        terminalreporter.section("what the faults left behind")
        for name, figures in counted:
            terminalreporter.write_line(f"{name}: {figures}")
