"""What a model is shown of a tool that failed: the tool's words, in one bounded line, and no half of a secret."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.tools import ToolError
from app.tools.complaints import MAX_ERROR_TEXT, error_text
from app.tools.contract import ToolRequest
from app.tools.decorator import tool
from app.tools.gateway import Gateway
from app.tools.kinds.python import PythonTool
from app.tools.registry import Registry
from tests.tools.recording import Recording, scope


@tool(effect="readonly")
def lookup(name: str) -> str:
    """Look somebody up."""
    if name == "nobody":
        raise ToolError("There is nobody of that name.\nTry the surname.", retryable=True)
    raise KeyError(f"row {name} is missing")


async def test_the_words_of_a_tool_error_and_of_any_exception_reach_the_model(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gateway = Gateway(Registry([PythonTool.of(lookup)]))
    errors = []
    with caplog.at_level(logging.CRITICAL):
        for name in ("nobody", "7"):
            call = ToolRequest(f"call_{name}", "lookup", {"name": name})
            errors.append((await gateway.call(call, scope("lookup"), Recording().ports())).error)
    first, second = errors
    assert first is not None and second is not None
    assert (first.code, first.retryable) == ("TOOL_FAILED", True)
    assert first.message == "There is nobody of that name. Try the surname."
    assert second.message == "lookup failed with KeyError: 'row 7 is missing'"


@given(st.text(max_size=5000))
def test_a_complaint_is_one_bounded_line(text: str) -> None:
    line = error_text(text)
    assert len(line) <= MAX_ERROR_TEXT + 2 and line.isprintable()


@given(st.integers(0, 3000), st.integers(0, 3000))
def test_a_complaint_never_ends_in_the_middle_of_a_secret(before: int, after: int) -> None:
    secret = "s3cret-" + "abcd" * 10
    line = error_text("x " * before + secret + " y" * after)
    assert secret in line or "s3cret" not in line
