"""What a guardrail is: a rule about content, where it is asked, and what it answers. Values and Protocols only.

A rule finds something or not; what follows is its `action`. There are two forms. A scanner looks for pieces of text no
longer than its window, so it can follow a stream. A judge sees a whole content at once, and may take its time. Above
are `inspection` (whole contents) and `screen` (streams), which are the only callers; below are the kinds.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from app.core.json import JsonObject
from app.core.value import contract_value
from app.policy.contract import About

Stage = Literal["input", "output", "toolArguments", "toolResults"]
Action = Literal["block", "redact", "ask", "flag"]

DEFAULT_WINDOW: Final = 256  # characters that a scanner may hold back of a stream
MAX_WINDOW: Final = 4096
DEFAULT_TIMEOUT: Final = 5.0  # seconds
DEFAULT_MESSAGE: Final = "The content was refused by a rule of this service."


class Match(NamedTuple):
    """A piece of text, with what it is."""

    start: int
    end: int
    label: str


class Position(NamedTuple):
    """Where in a content something was found: the JSON pointer of the text, and the characters in it."""

    path: str
    start: int
    end: int
    label: str


class Scanner(Protocol):
    """Finds pieces of text. Which ones must not depend on how the text is cut: `opening` says what to wait for."""

    @property
    def sources(self) -> tuple[str, ...]:
        """RE2 patterns one of which is found in every text that `search` or `opening` finds something in."""
        ...

    def search(self, text: str, start: int) -> Match | None:
        """The first piece that begins at `start` or later. What is before it is context."""
        ...

    def opening(self, text: str, start: int) -> int:
        """Where a piece may have begun, at `start` or later, that goes on after the text; its length if none has."""
        ...


AskModel = Callable[[str, str, str, JsonObject], Awaitable[JsonObject]]
"""Asked with the model's name, instructions, the content, and the JSON Schema of the answer, which it gives."""


@contract_value(frozen=True, slots=True)
class Subject:
    """What a judge is asked about."""

    stage: Stage
    content: Any
    """Text, or any JSON value: message parts, arguments, a tool's output."""
    about: About
    tool: str | None = None
    call_id: str | None = None
    ask_model: AskModel | None = None
    """For a judge that is a model: a call that is recorded in the run."""


@contract_value(frozen=True, slots=True)
class Passed:
    """Nothing was found."""


@contract_value(frozen=True, slots=True)
class Found:
    """The rule applies; without positions, to the content as a whole."""

    positions: tuple[Position, ...] = ()
    reason: str | None = None
    """For the operator: it is recorded, so it never quotes the content."""


Judgement: TypeAlias = Passed | Found


class Judge(Protocol):
    """Judges a whole content. Whatever it raises blocks, and so does an answer that comes too late."""

    async def judge(self, subject: Subject) -> Judgement: ...


@contract_value(frozen=True, slots=True)
class GuardrailRule:
    """One Guardrail document, ready to be asked: it has scanners or a judge."""

    name: str
    kind: str
    action: Action = "block"
    message: str = DEFAULT_MESSAGE
    reply: str | None = None
    timeout_seconds: float = DEFAULT_TIMEOUT
    scanners: tuple[Scanner, ...] = ()
    judge: Judge | None = None
    repeatable: bool = True
    """Whether it answers the same when it is asked again; if not, a resumed run takes the recorded answer."""

    @property
    def streams(self) -> bool:
        """Whether it can follow a stream. To ask a person, the whole message is needed."""
        return bool(self.scanners) and self.action != "ask"


@contract_value(frozen=True, slots=True)
class GuardrailVerdict:
    """That a rule applied, as it is recorded: never with the content."""

    rule: str
    action: Action
    positions: tuple[Position, ...] = ()
    reason: str | None = None
    failed: str | None = None
    """Why the rule could not be asked; it blocks then, whatever its action."""
