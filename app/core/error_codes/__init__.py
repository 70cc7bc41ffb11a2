"""All error codes with their meaning and remedy, one module for each family.

`docs/errors.md` is generated from these tables. Add a code before using it; never change the meaning of one.
"""

from typing import Final

from app.core.error_codes import log, requests, sessions, work, workspace
from app.core.error_codes.code import Code

__all__ = ["CODES", "Code", "remedy_of"]

CODES: Final[dict[str, Code]] = requests.CODES | log.CODES | workspace.CODES | work.CODES | sessions.CODES
_LISTED: Final = "`issues`"


def remedy_of(code: str, *, listed: bool) -> str:
    """What to do about the code. Where the places are not `listed`, the message alone says what is wrong."""
    remedy = CODES[code].remedy
    return remedy if listed or _LISTED not in remedy else "Correct the request as the message says."
