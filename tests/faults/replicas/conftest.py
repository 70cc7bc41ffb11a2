"""The figures of the tests with several servers: of each, and together."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.faults.conftest import Report
from tests.faults.replicas.tally import Tally


@pytest.fixture(scope="session")
def total(conclude: Report) -> Iterator[Counter[str]]:
    counted = Counter[str]()
    yield counted
    if counted:
        conclude("several servers in all: " + ", ".join(f"{count} {name}" for name, count in counted.items()))


@pytest.fixture
def tally(request: pytest.FixtureRequest, report: Report, say: Report, total: Counter[str]) -> Tally:
    return Tally(request.node.name, say, report, total)
