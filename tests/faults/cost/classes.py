"""The classes of cases by name: pure ones run in a worker, live ones against a server."""

import os
import time
from collections.abc import Mapping
from typing import Final

from tests.faults.cost import answer_cases, schema_cases, text_cases
from tests.faults.cost.case import Case, Draw, Generator

PURE: Final[Mapping[str, Generator]] = {
    "schema": schema_cases.schema,
    "guard": schema_cases.guard,
    "yaml": text_cases.yaml,
    "markdown": text_cases.markdown,
    "template": text_cases.template,
    "expression": text_cases.expression,
    "json": text_cases.json_text,
    "arguments": text_cases.arguments,
    "provider": answer_cases.provider,
    "whole-answer": answer_cases.whole_answer,
    "compressed": answer_cases.compressed,
    "mcp": answer_cases.mcp_tools,
}


def _slow() -> str:
    while True:
        time.process_time()


def _large() -> str:
    return str(len(bytearray(400 * 1024 * 1024)))


def _dead() -> str:
    os.abort()


def _good(draw: Draw) -> Case:
    return Case("nothing", lambda: "good")


SELF_TEST: Final[Mapping[str, Generator]] = {
    "test-slow": lambda draw: Case("never ends", _slow),
    "test-large": lambda draw: Case("takes 400 MB", _large),
    "test-dead": lambda draw: Case("ends the process", _dead),
    "test-good": _good,
}
"""What the watch must find, and what it must not."""
