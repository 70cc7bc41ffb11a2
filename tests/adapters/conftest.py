"""The agent frameworks must be there: these tests run in an environment of their own and are never skipped in it."""

import pytest

from app.wiring.kinds import installed_backends
from tests.adapters.space import ADAPTERS


@pytest.fixture(scope="session", autouse=True)
def _frameworks_are_installed() -> None:
    missing = [kind for kind in ADAPTERS if installed_backends().usable(kind) is None]
    assert not missing, f"not installed: {', '.join(missing)}; run `make test-extras`"
