"""Why an MCP server cannot be used, in words for whoever runs it: what was found, and what to change.

A text of the server itself is not repeated. Leaves to others: noticing it (`mcp_connect`, `mcp_sessions`).
"""

import errno
from collections.abc import Callable

from app.core.errors import Failure, HoldfastError
from app.core.value import mutable


@mutable(slots=True)
class ConnectionNotes:
    """What was noticed on the wire of one session."""

    end: Callable[[], None]
    """Ends the session, if it has begun: whoever waits for an answer need not wait for it to time out."""
    too_large: bool = False
    refusal: Failure | None = None
    """Why there is no token."""
    status: int | None = None
    """Of the last answer that was an error."""
    media: str | None = None
    """Of the last answer, if it was neither JSON nor a stream of events."""

    def note_too_large(self) -> None:
        self.too_large = True
        self.end()

    def note_refusal(self, refusal: Failure) -> None:
        self.refusal = refusal
        self.end()

    def note_answer(self, status: int, content_type: str) -> None:
        if status >= 400:
            self.status = status
        elif status == 200 and (media := content_type.partition(";")[0].strip().lower()) not in (
            "application/json",
            "text/event-stream",
        ):
            self.media = media or "no content type"


def connect_fault(error: BaseException, notes: ConnectionNotes, seconds: float, *, program: str | None) -> str:
    """The rest of a sentence that begins with the server's name. `program` is that of a server with a command."""
    if notes.status in (401, 403):
        return (
            f"refuses the credentials (HTTP {notes.status}); correct `headers`, or declare `oauth` and run "
            "`holdfast mcp login`"
        )
    if notes.status is not None and notes.status < 500:
        return f"does not speak MCP at its address (HTTP {notes.status}); correct `url`"
    if notes.status is not None:
        return f"answers with HTTP {notes.status}; see its own log"
    if notes.media is not None:
        return f"does not speak MCP at its address (it answered with {notes.media[:60]}); correct `url`"
    first = _first(error)
    if isinstance(first, TimeoutError):
        return f"did not answer within {seconds:g} s"
    if program is not None:
        return _program_fault(first, program)
    if isinstance(first.__cause__, HoldfastError):
        return f"cannot be reached: {first.__cause__.failure.message}"
    if type(first).__name__ in ("MCPError", "ValidationError"):
        return "does not speak MCP: its answer to the first message is an error or cannot be read; correct `url`"
    return f"cannot be reached ({type(first).__name__})"


def _program_fault(error: BaseException, program: str) -> str:
    cause = error.__cause__
    number = cause.errno if isinstance(cause, OSError) else None
    if number == errno.ENOENT:
        return f"cannot be reached: its program {program} was not found; correct `command`"
    if number == errno.EACCES:
        return f"cannot be reached: its program {program} may not be executed; correct its permissions"
    if isinstance(error, HoldfastError):
        return f"cannot be reached: {error.failure.message}"
    return f"cannot be reached: its program {program} ended, or did not speak MCP; the server's log has what it wrote"


def _first(error: BaseException) -> BaseException:
    """What went wrong first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
