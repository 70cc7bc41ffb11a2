"""An extension's code, wherever it runs: in the sandbox, or in the server for code that the operator trusts.

Both say which events they want and handle one event with one handler, within its time. Leaves to others: who is
trusted (`loader`), and what an answer means (`dispatch`).
"""

import asyncio
import inspect
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, Protocol

from app.core import json
from app.core.value import value
from app.extensions import guest
from app.extensions.manifest import ExtensionFolder, ExtensionInvalid
from app.outside import process
from app.outside.hidden import hidden_from_programs
from app.outside.process import ProcessError, ProcessLimits, Program

MAX_SECONDS: Final = 10.0
"""Of one handler, whatever it asks for."""
LOAD_SECONDS: Final = 10.0
MAX_HANDLERS: Final = 100
MAX_OUTPUT: Final = 256 * 1024
_LIMITS: Final = ProcessLimits(
    cpu_seconds=10, memory_bytes=256 * 1024 * 1024, processes=16, output_bytes=MAX_OUTPUT, disk_bytes=8 * 1024 * 1024
)
_GUEST: Final = Path(guest.__file__)


@value(frozen=True, slots=True)
class HandlerSpec:
    event_type: str
    priority: int
    seconds: float
    index: int


class HandlerFailed(Exception):
    """Its text is for the log."""


class HandlerTimeout(HandlerFailed):
    pass


class ExtensionCode(Protocol):
    async def handlers(self) -> list[HandlerSpec]:
        """Raises ExtensionInvalid."""
        ...

    async def handle(self, spec: HandlerSpec, event: dict[str, Any]) -> Any:
        """What the handler returned, as JSON. Raises HandlerFailed."""
        ...


def _specs(extension: str, given: list[tuple[str, int, float]]) -> list[HandlerSpec]:
    if len(given) > MAX_HANDLERS:
        raise ExtensionInvalid(extension, "registration_failed", f"there are more than {MAX_HANDLERS} handlers")
    return [
        HandlerSpec(kind, priority, min(max(0.1, seconds), MAX_SECONDS), index)
        for index, (kind, priority, seconds) in enumerate(given)
    ]


class SandboxedCode:
    """Each event starts a program of its own, which sees the extension's folder and nothing else of ours."""

    def __init__(self, found: ExtensionFolder, data: Path | None, workspace: Path) -> None:
        self._found, self._data, self._workspace = found, data, workspace

    async def handlers(self) -> list[HandlerSpec]:
        name = self._found.folder.name
        try:
            answer = await self._ask({}, LOAD_SECONDS)
        except HandlerFailed as failed:
            raise ExtensionInvalid(name, "import_failed", str(failed)) from failed
        if "failed" in answer:
            raise ExtensionInvalid(name, str(answer["failed"]), str(answer["message"])[:500])
        try:
            wants = [(str(kind), int(priority), float(seconds)) for kind, priority, seconds in answer["handlers"]]
        except (KeyError, TypeError, ValueError) as error:
            raise ExtensionInvalid(name, "registration_failed", "its registrations are not readable") from error
        return _specs(name, wants)

    async def handle(self, spec: HandlerSpec, event: dict[str, Any]) -> Any:
        answer = await self._ask({"event": event, "handler": spec.index}, spec.seconds)
        if "failed" in answer:
            raise HandlerFailed(str(answer["message"])[:500])
        return answer.get("result")

    async def _ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        found = self._found
        folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="holdfast-extension-")
        hidden = await asyncio.to_thread(hidden_from_programs, self._data, self._workspace)
        program = Program(
            argv=(sys.executable, "-IS", str(_GUEST)),
            cwd=Path(folder),
            stdin=json.dumps({"entry": str(found.entry), **request}),
            read=(found.folder.resolve(), _GUEST),
            limits=ProcessLimits(**{name: getattr(_LIMITS, name) for name in _NAMES}, wall_seconds=seconds),
            hidden=hidden,
            scratch=True,
        )
        try:
            finished = await process.run(program, grace=1.0)
        except ProcessError as error:
            raise HandlerFailed("the program could not be started") from error
        finally:
            await asyncio.shield(asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True))
        if finished.timed_out:
            raise HandlerTimeout(f"it did not end within {seconds:g} seconds")
        if finished.too_large:
            raise HandlerFailed(f"it wrote more than {MAX_OUTPUT} bytes")
        try:
            answer = json.loads_strict(finished.stdout)
        except json.JsonError as error:
            raise HandlerFailed(f"it ended with status {finished.status} and without an answer") from error
        if not isinstance(answer, dict):
            raise HandlerFailed("its answer is not an object")
        return answer


_NAMES: Final = ("cpu_seconds", "memory_bytes", "processes", "output_bytes", "disk_bytes")


class TrustedCode:
    """Imported into the server under a name of its own, which no other module can import; nothing keeps an old one."""

    def __init__(self, found: ExtensionFolder) -> None:
        self._found = found
        self._loaded: guest.Registrations | None = None

    async def handlers(self) -> list[HandlerSpec]:
        name = self._found.folder.name
        try:
            async with asyncio.timeout(LOAD_SECONDS):
                loaded = await asyncio.to_thread(guest.load, str(self._found.entry), f"extension_{self._found.digest}")
        except AttributeError as error:
            raise ExtensionInvalid(name, "missing_register", "events.py has no function `register`") from error
        except RuntimeError as error:
            raise ExtensionInvalid(name, "registration_failed", str(error)) from error
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError):
                raise
            message = f"events.py cannot be imported: {type(error).__name__}"
            raise ExtensionInvalid(name, "import_failed", message) from error
        self._loaded = loaded
        return _specs(name, [(kind, priority, seconds) for kind, priority, seconds, _ in loaded.handlers])

    async def handle(self, spec: HandlerSpec, event: dict[str, Any]) -> Any:
        assert self._loaded is not None
        handler = self._loaded.handlers[spec.index][3]
        try:
            async with asyncio.timeout(spec.seconds):
                if inspect.iscoroutinefunction(handler):
                    result = await handler(event)
                else:
                    result = await asyncio.to_thread(handler, event)
            encoded = json.dumps(result)
        except TimeoutError as error:
            raise HandlerTimeout(f"it did not end within {spec.seconds:g} seconds") from error
        except Exception as error:
            raise HandlerFailed(f"{type(error).__name__}: {error}"[:500]) from error
        if len(encoded) > MAX_OUTPUT:
            raise HandlerFailed(f"it answered with more than {MAX_OUTPUT} bytes")
        return json.loads(encoded)
