"""The process's log: one JSON line per entry, no local variables, no secrets."""

import asyncio
import io
import logging
import sys
import threading
import warnings

import pytest
import structlog

from app.core import json
from app.core.logs import configure_logs
from app.policy.redaction import LogRedaction

SECRET = "sk-live-" + "a1B2" * 8


@pytest.fixture
def written() -> io.StringIO:
    stream = io.StringIO()
    configure_logs("info", LogRedaction().text, stream)
    return stream


def _fail(key: str) -> None:
    private = key[::-1]
    raise ValueError(f"refused\n{key}", len(private))


@pytest.mark.requirement("G21")
def test_an_error_is_one_line_with_its_traceback_and_without_secrets(written: io.StringIO) -> None:
    try:
        _fail(SECRET)
    except ValueError:
        structlog.get_logger().exception("run.backend_failed", run="run_1")
    (line,) = written.getvalue().splitlines()
    entry = json.loads(line)
    assert (entry["event"], entry["level"], entry["run"]) == ("run.backend_failed", "error", "run_1")
    assert "in _fail" in entry["exception"]
    assert "[REDACTED:api_key]" in entry["exception"]
    assert SECRET not in line and SECRET[::-1] not in line


@pytest.mark.requirement("G21")
def test_a_secret_in_a_field_is_replaced(written: io.StringIO) -> None:
    structlog.get_logger().warning("odd", header=f"Bearer {SECRET}")
    assert SECRET not in written.getvalue()


def test_entries_below_the_level_are_left_out(written: io.StringIO) -> None:
    structlog.get_logger().debug("detail")
    assert written.getvalue() == ""


def test_a_value_that_is_no_json_does_not_cost_the_entry(written: io.StringIO) -> None:
    structlog.get_logger().info("odd", value=object())
    assert json.loads(written.getvalue())["event"] == "odd"


@pytest.mark.requirement("G21")
def test_what_libraries_log_is_cleaned_and_cannot_forge_a_line(written: io.StringIO) -> None:
    forged = f'odd {SECRET}\n{{"event":"forged"}}'
    logging.getLogger("uvicorn.error").error("failed: %s", forged, extra={"detail": {"keys": [SECRET]}})
    try:
        _fail(SECRET)
    except ValueError:
        logging.getLogger("app.tools.invocation").exception("a tool raised")
    logging.getLogger("some.library").info("chatter")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(f"deprecated {SECRET}", stacklevel=1)
    first, second, third = written.getvalue().splitlines()
    assert json.loads(first)["logger"] == "uvicorn.error" and "forged" in json.loads(first)["event"]
    assert "in _fail" in json.loads(second)["exception"]
    assert json.loads(third)["logger"] == "py.warnings"
    assert SECRET not in written.getvalue()


@pytest.mark.requirement("G21")
def test_what_nobody_caught_is_an_entry_too(written: io.StringIO) -> None:
    thread = threading.Thread(target=_fail, args=(SECRET,), name="doomed")
    thread.start()
    thread.join()
    error = ValueError(f"{SECRET}\nforged")
    sys.excepthook(ValueError, error, None)
    first, second = written.getvalue().splitlines()
    assert json.loads(first)["thread"] == "doomed"
    assert json.loads(second)["event"] == "process.uncaught"
    assert SECRET not in written.getvalue()


async def test_what_a_task_raised_unseen_is_an_entry_too(written: io.StringIO) -> None:
    loop = asyncio.get_running_loop()
    loop.call_exception_handler({"message": "lost", "exception": ValueError(f"{SECRET}\nforged")})
    (line,) = written.getvalue().splitlines()
    assert json.loads(line)["logger"] == "asyncio" and SECRET not in line


def test_texts_and_nested_values_are_cleaned_and_bounded(written: io.StringIO) -> None:
    structlog.get_logger().info("odd", value={SECRET: [{"deep": SECRET}, (SECRET,)], "more": ValueError(SECRET)})
    structlog.get_logger().info("long", text="x" * 1_000_000)
    logging.getLogger("bad").error("%d", "no number")
    first, second, third = written.getvalue().splitlines()
    assert SECRET not in first and len(second) < 40_000
    assert json.loads(third)["event"] == "log.unreadable"


def test_a_log_that_cannot_be_written_stops_nothing(written: io.StringIO) -> None:
    """A reader that is gone closes the stream; whoever logs then, a tool that failed for instance, goes on."""
    written.close()
    structlog.get_logger("holdfast.test").info("ours")
    logging.getLogger("app.test").error("a library's")
