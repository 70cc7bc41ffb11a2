"""The process's own log: one JSON line per entry on standard error, for operators.

Not the event log. Tracebacks come without local variables and every text is cleaned of secrets first, because what
an upstream raises may quote a key. Leaves to others: what counts as a secret (policy) and when to start (wiring).
"""

import logging
import sys
from collections.abc import Callable, MutableMapping
from typing import Any, Final, TextIO

import structlog

from app.core import json

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def _line(entry: Any, **_: Any) -> str:
    try:
        return json.dumps(entry).decode()
    except json.JsonError:
        # A value that is no JSON must not cost the entry.
        return json.dumps(
            {key: value if isinstance(value, str) else repr(value) for key, value in entry.items()}
        ).decode()


def configure_logs(level: str, clean: Callable[[str], str], stream: TextIO | None = None) -> None:
    def cleaned(_logger: Any, _name: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        # Before rendering: inside JSON a line break ends in a letter, which would hide a secret behind it.
        return {key: clean(value) if isinstance(value, str) else value for key, value in entry.items()}

    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            structlog.processors.format_exc_info,
            cleaned,
            structlog.processors.JSONRenderer(serializer=_line),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(stream or sys.stderr),
    )
