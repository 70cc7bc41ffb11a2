"""How long servers under test wait for their database and for each other. A machine that runs many tests at once stalls
for seconds, and that must not decide a test: a server would say that its database is down.

Leaves to others: what these limits do, which is shown by servers that keep them (`tests/faults/test_frozen_database.py`
and others).
"""

from typing import Final

from app.bus.kinds import postgres as postgres_bus
from app.store import postgres, postgres_session, sqlite
from app.wiring import store

SECONDS: Final = 10.0
SERVED: Final = store._POSTGRES_PATIENCE
"""What a caller of a server that is no test waits for its commit on Postgres."""
PATIENT: Final = "TESTS_PATIENT"
"""The variable that asks a forked server to be patient."""


def be_patient() -> None:
    """From now on, in this process. They are constants for everybody else."""
    for database in (postgres, postgres_session, sqlite):
        database.ANSWER_SECONDS = SECONDS  # type: ignore[attr-defined]
    postgres_bus._ANSWER_SECONDS = SECONDS  # type: ignore[misc]
    store._POSTGRES_PATIENCE = store._SQLITE_PATIENCE = SECONDS
