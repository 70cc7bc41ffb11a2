"""What can go wrong, for callers who want to tell it apart.

ClientError
  ApiError          the server answered with an error: code, message, remedy
  ConnectionLost    no answer, also after every attempt
  RunNotCompleted   a run ended as failed or cancelled, or waits for a person
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from holdfast.client.types import Run


class ClientError(Exception):
    """Whatever this package raises."""


class ConnectionLost(ClientError):
    """The server did not answer, or stopped in the middle of an answer."""


class ApiError(ClientError):
    """An answer of 400 and above. `code` is stable and has its entry in the server's list of error codes."""

    def __init__(
        self, status: int, code: str, message: str, remedy: str = "", issues: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        super().__init__(f"{code}: {message}" + (f" {remedy}" if remedy else ""))
        self.status, self.code, self.message, self.remedy, self.issues = status, code, message, remedy, list(issues)


class RunNotCompleted(ClientError):
    """`run` says how it ended, or which interrupts it waits on."""

    def __init__(self, run: Run) -> None:
        error = run["error"]
        reason = f"{error['code']}: {error['message']}" if error else f"it is {run['status']}"
        super().__init__(f"run {run['id']} was not completed: {reason}")
        self.run = run


def error_of(status: int, body: bytes) -> ApiError:
    """The error that an answer describes; one that no Holdfast server wrote says so."""
    try:
        found = orjson.loads(body)["error"]
        return ApiError(status, found["code"], found["message"], found.get("remedy", ""), found.get("issues") or ())
    except (ValueError, KeyError, TypeError):
        return ApiError(
            status, "NOT_HOLDFAST", f"The answer ({status}) is not from a Holdfast server.", "Check the URL."
        )
