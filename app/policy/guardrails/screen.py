"""What of a streamed message may leave: the texts of one message, each in a window of its own.

Secrets are always looked for, and the rules of an agent that can follow a stream. Text that nobody suspects leaves as
it came, at the cost of one look. Leaves to others: rules that need the whole message, and recording what was found.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import re2

from app.events.catalog.adapter import OUTPUT_DELTA, REASONING_DELTA, TOOL_DELTA
from app.policy.guardrails.contract import GuardrailRule, Position, Scanner
from app.policy.guardrails.texts import replacement
from app.policy.guardrails.window import CONTEXT, GOES_ON, Released, ScannerSet, StreamWindow

_PATHS: Final = {OUTPUT_DELTA: "/text", REASONING_DELTA: "/reasoning"}
_ESCAPE: Final = re2.compile(r"\\(?:u[0-9a-fA-F]{4}|[^u])")
_CUT_ESCAPE: Final = re2.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\z")


class StreamScanners:
    """The secrets and rules that a stream is looked through for. Made once for an agent."""

    def __init__(self, secrets: Sequence[Scanner], rules: Sequence[GuardrailRule] = ()) -> None:
        self.rules = tuple(rules)
        self._owners = [None for _ in secrets] + [rule for rule in rules for _ in rule.scanners]
        self.set = ScannerSet([*secrets, *(scanner for rule in rules for scanner in rule.scanners)])
        quick = self.set.quick
        self.suspects: Callable[[bytes], Any] = quick[0][0].Match if len(quick) == 1 else self.set.suspects_encoded
        """Nothing for a text in which no secret is found, whatever was before it and comes after it."""

    def rule(self, number: int) -> GuardrailRule | None:
        """Whose scanner has this number; None for a secret."""
        return self._owners[number]


class StreamScreen:
    """One message on its way out."""

    __slots__ = (
        "_before",
        "_escapes",
        "_has_rules",
        "_scanners",
        "_suspects",
        "_windows",
        "blocked",
        "failed",
        "found",
    )

    def __init__(self, scanners: StreamScanners) -> None:
        self._scanners, self._suspects, self._has_rules = scanners, scanners.suspects, bool(scanners.rules)
        self._windows: dict[tuple[str, int], StreamWindow] = {}
        """Of the texts of which something is held."""
        self._before: dict[tuple[str, int], str] = {}
        self._escapes: dict[int, str] = {}
        """Of a call's arguments: the beginning of an escape that is not complete."""
        self.blocked: GuardrailRule | None = None
        """The rule that found what must not leave; nothing leaves any more."""
        self.failed: str | None = None
        """Why the rule that blocks could not be asked."""
        self.found: list[tuple[GuardrailRule, Position]] = []
        """What rules found, in order, with its place in the message as it came."""

    def text(self, text: str) -> str:
        """The same as `take` for the text of the answer: by far the most frequent, and the one that has to be fast."""
        if self._has_rules or self._windows or self._suspects(text.encode("utf-8", "surrogatepass")):
            return self.take(OUTPUT_DELTA, 0, text)
        before = self._before
        before[_TEXT] = text if len(text) >= CONTEXT else (before.get(_TEXT, "") + text)[-CONTEXT:]
        return text

    def take(self, phase: str, part: int, text: str) -> str:
        """What may be published now of this text, this piece included."""
        if self.blocked is not None:
            return ""
        if phase == TOOL_DELTA:
            text = self._unescaped(part, text)
        key = (phase, part)
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = StreamWindow(self._scanners.set, self._before.get(key, ""))
        made = self._taken(key, window, text)
        if not self._has_rules and window.idle:
            # Without rules nobody asks for places in the text, so a window need not go on counting.
            del self._windows[key]
            self._before[key] = window.before
        return made

    def end(self) -> list[tuple[str, int, str]]:
        """What is left of each text, now that nothing follows."""
        rest: list[tuple[str, int, str]] = []
        if not self._windows and not self._escapes:
            return rest
        for (phase, part), window in list(self._windows.items()):
            cut = self._escapes.pop(part, "") if phase == TOOL_DELTA else ""
            text = self._taken((phase, part), window, cut) if cut else ""
            text += self._taken((phase, part), window, None)
            if text and self.blocked is None:
                rest.append((phase, part, text))
        rest += [(TOOL_DELTA, part, cut) for part, cut in self._escapes.items() if self.blocked is None]
        self._windows.clear()
        return [] if self.blocked is not None else rest

    def _taken(self, key: tuple[str, int], window: StreamWindow, text: str | None) -> str:
        """What may leave after this text, or after the end; nothing any more once a rule has failed."""
        try:
            return self._made(key, window.end() if text is None else window.take(text))
        except Exception as error:
            if not self._has_rules:
                raise
            # A kind may come from another package. They look together, so the first of them speaks for all.
            self.blocked, self.failed = self._scanners.rules[0], f"it failed with {type(error).__name__}"
            return ""

    def _made(self, key: tuple[str, int], released: Released) -> str:
        if not released.finds:
            return released.text
        made: list[str] = []
        done = start = released.start
        path = _PATHS.get(key[0], f"/toolCalls/{key[1]}")
        for number, match in released.finds:
            rule = None if number == GOES_ON else self._scanners.rule(number)
            if rule is not None:
                self.found.append((rule, Position(path, match.start, match.end, match.label)))
                if rule.action == "block":
                    self.blocked = rule
                    return ""
                if rule.action == "flag":
                    continue
            if match.start >= done:
                made.append(released.text[done - start : match.start - start])
                if number != GOES_ON:
                    made.append(replacement(match.label))
            done = max(done, match.end)
        made.append(released.text[done - start :])
        return "".join(made)

    def _unescaped(self, part: int, text: str) -> str:
        """Arguments arrive as JSON, in which any letter can be written as an escape; here it is the letter again, so
        that nothing hides behind its spelling. What comes out is the same JSON value."""
        text = self._escapes.pop(part, "") + text
        if "\\" not in text:
            return text
        cut = _CUT_ESCAPE.search(text)
        if cut is not None and _is_escape(text, cut.start()):
            self._escapes[part] = text[cut.start() :]
            text = text[: cut.start()]
        return str(_ESCAPE.sub(lambda found: _letter(found.group()), text))


_TEXT: Final = (OUTPUT_DELTA, 0)


def _is_escape(text: str, at: int) -> bool:
    """Whether this backslash begins an escape, and is not itself the second half of one."""
    before = at
    while before > 0 and text[before - 1] == "\\":
        before -= 1
    return (at - before) % 2 == 0


def _letter(escape: str) -> str:
    if escape[1] != "u":
        return escape
    code = int(escape[2:], 16)
    plain = code >= 0x20 and code not in (0x22, 0x5C, 0x7F) and not 0xD800 <= code <= 0xDFFF
    return chr(code) if plain else escape
