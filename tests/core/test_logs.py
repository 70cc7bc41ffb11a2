"""The process's log: one JSON line per entry, no local variables, no secrets."""

import io
from collections.abc import Iterator

import pytest
import structlog

from app.core import json
from app.core.logs import configure_logs
from app.policy.redaction import Redaction

SECRET = "sk-live-" + "a1B2" * 8


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    configure_logs("info", Redaction().text, stream)
    yield stream
    structlog.reset_defaults()


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
