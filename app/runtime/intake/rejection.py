"""Why a request of a client was not carried out."""

from typing import Final

from app.core.errors import Failure
from app.core.value import value

SYSTEM_THREADS: Final = "sys_"
"""How the ids of the system's own threads begin; nobody else may use them."""


@value(frozen=True, slots=True)
class Rejected:
    """The reason, and the id of what is in the way if it is known."""

    failure: Failure
    winner: str | None = None
