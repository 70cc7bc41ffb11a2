"""The process's own log: one JSON line per entry on standard error, for operators.

Not the event log. Everything that the process writes goes through here: our own entries, those of libraries (`logging`,
the web server's and asyncio's included), warnings, and exceptions that nobody caught. Tracebacks come without local
variables, and every text in an entry, however deep, is cleaned of secrets and bounded, because what an upstream or a
tool raises may quote a key or be of any length. JSON keeps a line break inside its entry. Leaves to others: what counts
as a secret (policy) and when to start (wiring).
"""

import contextlib
import io
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, MutableMapping
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, TextIO

import structlog

from app.core import json
from app.core.credentials import masked

_LEVELS: Final = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_MAX_TEXT: Final = 32 * 1024
"""Characters of one text in an entry; the end is kept too, since that is where a traceback names the error."""
_MAX_DEPTH: Final = 8
_OURS: Final = "app"
_STANDARD: Final = frozenset(
    {*vars(logging.LogRecord("", 0, "", 0, "", None, None)), "message", "asctime", "color_message"}
)
"""What every record of `logging` has; the rest is what its writer added."""

REQUEST_NAME: Final = ContextVar[str](f"{structlog.contextvars.STRUCTLOG_KEY_PREFIX}request_id")
"""The name of the request that is being served: in every entry that is made meanwhile. Set by itself, which every
request does, it costs a seventh of structlog's own `bind_contextvars`."""

Clean = Callable[[str], str]


class LogStream(io.TextIOBase):
    """Where entries go. A log that cannot be written, because its reader is gone for instance, stops nothing."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str, /) -> int:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


def configure_logs(level: str, clean: Clean, stream: TextIO | None = None) -> None:
    out = LogStream(stream or sys.stderr)

    def without_secrets(text: str) -> str:
        return masked(clean(text))

    def cleaned(_logger: Any, _name: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        # Before rendering: inside JSON a line break ends in a letter, which would hide a secret behind it.
        return {str(key): _cleaned(value, without_secrets) for key, value in entry.items()}

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
        logger_factory=structlog.PrintLoggerFactory(out),  # type: ignore[arg-type]  # it only writes and flushes
    )
    _take_over_libraries(_LEVELS[level], LibraryEntries(without_secrets, out))
    _take_over_uncaught()


class LibraryEntries(logging.Handler):
    """What libraries log, as entries of the same shape."""

    def __init__(self, clean: Clean, stream: LogStream) -> None:
        super().__init__()
        self._clean, self._stream = clean, stream

    def emit(self, record: logging.LogRecord) -> None:
        try:
            print(self._written(record), file=self._stream, flush=True)
        except Exception:
            # Whatever is wrong with the entry, its text is not shown uncleaned; and a log that fails stops nothing.
            print(_line({"event": "log.unreadable", "level": "error", "logger": record.name}), file=self._stream)

    def _written(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {key: value for key, value in vars(record).items() if key not in _STANDARD}
        entry |= {
            "event": record.getMessage(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "at": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
        }
        if record.exc_info and record.exc_info[1] is not None:
            entry["exception"] = _traceback(record.exc_info[1])
        return _line({str(key): _cleaned(value, self._clean) for key, value in entry.items()})


def _take_over_libraries(level: int, entries: LibraryEntries) -> None:
    root = logging.getLogger()
    root.handlers = [entries]
    # What libraries say in detail may hold requests and rows, and is of no use to an operator.
    root.setLevel(max(level, logging.WARNING))
    logging.getLogger(_OURS).setLevel(level)
    for logger in logging.Logger.manager.loggerDict.values():
        if isinstance(logger, logging.Logger):
            logger.handlers, logger.propagate = [], True
    logging.captureWarnings(True)
    logging.raiseExceptions = False  # its way to say that an entry failed is a raw traceback on standard error


def _take_over_uncaught() -> None:
    log = structlog.get_logger("holdfast.process")

    def uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if issubclass(kind, KeyboardInterrupt):
            return
        log.error("process.uncaught", exc_info=(kind, error, trace))

    def in_thread(failure: threading.ExceptHookArgs) -> None:
        if failure.exc_value is not None and not issubclass(failure.exc_type, SystemExit):
            name = None if failure.thread is None else failure.thread.name
            log.error(
                "thread.uncaught", thread=name, exc_info=(failure.exc_type, failure.exc_value, failure.exc_traceback)
            )

    def unraisable(failure: Any) -> None:
        log.error("process.unraisable", about=failure.err_msg, exc_info=failure.exc_value)

    sys.excepthook = uncaught
    threading.excepthook = in_thread
    sys.unraisablehook = unraisable


def _cleaned(value: Any, clean: Clean, depth: int = 0) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return _bounded(clean(value))
    if depth < _MAX_DEPTH:
        if isinstance(value, Mapping):
            return {_bounded(clean(str(key))): _cleaned(item, clean, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset):
            return [_cleaned(item, clean, depth + 1) for item in value]
    return _bounded(clean(repr(value)))


def _bounded(text: str) -> str:
    if len(text) <= _MAX_TEXT:
        return text
    half = _MAX_TEXT // 2
    return f"{text[:half]} [{len(text) - 2 * half} characters left out] {text[-half:]}"


def _traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip("\n")


def _line(entry: Any, **_: Any) -> str:
    try:
        return json.dumps(entry).decode()
    except json.JsonError:
        # A value that is not JSON must not lose the entry.
        plain = {str(key): repr(value).encode("utf-8", "replace").decode() for key, value in entry.items()}
        return json.dumps(plain).decode()
