"""Runs inside the sandbox: loads one extension's `events.py`, says what it wants to hear, or lets it handle an event.

Standard library only, because it is started as a script. What it prints last is one line of JSON for the server;
whatever the extension prints itself goes to stderr. Leaves to the server: what becomes of the answers.
"""

import asyncio
import importlib.util
import inspect
import json
import os
import sys
from typing import Any

DEFAULT_PRIORITY = 100
DEFAULT_SECONDS = 5.0


class Registrations:
    """What `register(events)` is given: `events.on(type, handler)`."""

    def __init__(self) -> None:
        self.handlers: list[tuple[str, int, float, Any]] = []

    def on(self, event_type: str, handler: Any, *, priority: int = DEFAULT_PRIORITY, timeout: float = 0) -> None:
        if not callable(handler):
            raise TypeError("on(event_type, handler): the handler is a function")
        self.handlers.append((str(event_type), int(priority), float(timeout or DEFAULT_SECONDS), handler))


def load(path: str, name: str) -> Registrations:
    """Import the file under a name that nobody else finds, and let it register."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("the entry cannot be imported")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    register = getattr(module, "register", None)
    if not callable(register):
        raise AttributeError("register")
    found = Registrations()
    try:
        register(found)
    except Exception as error:
        raise RuntimeError(f"register failed with {type(error).__name__}") from error
    return found


async def call(handler: Any, event: dict[str, Any]) -> Any:
    answer = handler(event)
    return await answer if inspect.isawaitable(answer) else answer


def _answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        found = load(request["entry"], "holdfast_extension")
    except AttributeError:
        return {"failed": "missing_register", "message": "events.py has no function `register`"}
    except RuntimeError as error:
        return {"failed": "registration_failed", "message": str(error)}
    except BaseException as error:
        return {"failed": "import_failed", "message": f"events.py cannot be imported: {type(error).__name__}"}
    if "event" not in request:
        wants = [[kind, priority, seconds] for kind, priority, seconds, _ in found.handlers]
        return {"handlers": wants}
    try:
        result = asyncio.run(call(found.handlers[request["handler"]][3], request["event"]))
        return {"result": json.loads(json.dumps(result))}
    except BaseException as error:
        return {"failed": "handler_error", "message": f"{type(error).__name__}: {error}"[:500]}


def main() -> None:
    out = os.dup(1)
    os.dup2(2, 1)  # what the extension prints is not an answer
    request = json.loads(sys.stdin.buffer.read())
    os.write(out, json.dumps(_answer(request)).encode() + b"\n")


if __name__ == "__main__":
    main()
