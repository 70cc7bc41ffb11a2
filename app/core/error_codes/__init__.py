"""All error codes with their meaning and remedy, one module for each family.

`docs/errors.md` is generated from these tables. Add a code before using it; never change the meaning of one.
"""

from typing import Final

from app.core.error_codes import log, requests, sessions, work, workspace
from app.core.error_codes.code import Code

__all__ = ["CODES", "Code"]

CODES: Final[dict[str, Code]] = requests.CODES | log.CODES | workspace.CODES | work.CODES | sessions.CODES
