"""What a stream adds up to, and the deltas to publish on the way: whatever arrived together is one delta."""

from typing import Final

from app.core import json
from app.events.catalog.adapter import OUTPUT_DELTA, REASONING_DELTA, TOOL_DELTA
from app.events.catalog.builders import BuiltDelta, ScreenedDelta
from app.models.completion import Thought, TokenUsage, ToolCall
from app.models.contract import (
    Batch,
    Completed,
    DeltaScreen,
    MessageContent,
    ReasoningDelta,
    Started,
    StreamError,
    TextDelta,
    ToolCallDelta,
    UsageReport,
)
from app.models.prepare import priced
from app.models.toolcalls import UpstreamIds
from app.workspace.specs.model import Prices

# Deltas stay in their row of the log, never a blob, so a burst is published in pieces.
MAX_DELTA = 8_192
# More than any model reads or writes, and exact in every reader of JSON.
MAX_TOKENS = 2**53 - 1
_NOTHING_REPORTED: Final = UsageReport()


class Collector:
    def __init__(
        self, adapter: str, message_id: str, *, publish_reasoning: bool = True, screen: DeltaScreen | None = None
    ) -> None:
        self._adapter, self._message_id = adapter, message_id
        self._publish_reasoning = publish_reasoning
        self._screen = screen
        self._holds = screen is not None and screen.holds
        self._parts: dict[int, ToolCallDelta] = {}
        """The newest piece of each tool call, for what is published of it later."""
        self._size = 0
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._phase = ""
        self._pieces: list[str] = []
        self._call: ToolCallDelta | None = None
        self.seen = 0
        """How many deltas came, published or not."""
        self.calls: list[ToolCall] = []
        """With ids of ours."""
        self._ids = UpstreamIds()
        self.usage: UsageReport | None = None
        self.completed: Completed | None = None
        self.error: StreamError | None = None
        self.provider_request_id: str | None = None

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def thoughts(self) -> tuple[Thought, ...]:
        if self.completed is None or not self.completed.thoughts:
            return ()
        return self._ids.of_thoughts(self.completed.thoughts)

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    def take(self, batch: Batch) -> list[BuiltDelta]:
        """Adds the batch and gives the deltas it is published as."""
        if len(batch) == 1 and isinstance(batch[0], TextDelta) and len(batch[0].text) <= MAX_DELTA:
            # The usual case by far, and the one that has to be fast.
            text = batch[0].text
            self.seen += 1
            self._phase, self._call = OUTPUT_DELTA, None
            if self._screen is None:
                self._text.append(text)
                return [BuiltDelta(self._adapter, OUTPUT_DELTA, self._message_id, 0, text)]
            screened = text if self._holds else self._screen.text(text)
            self._size += len(text)
            self._text.append(screened)
            if self._holds or (not screened and text):
                return []
            return [ScreenedDelta(self._adapter, OUTPUT_DELTA, self._message_id, 0, screened)]
        made: list[BuiltDelta] = []
        for event in batch:
            if isinstance(event, TextDelta):
                self._add(OUTPUT_DELTA, None, event.text, made)
            elif isinstance(event, ToolCallDelta):
                self._add(TOOL_DELTA, event, event.text, made)
            elif isinstance(event, ReasoningDelta):
                self._add(REASONING_DELTA, None, event.text, made)
            else:
                self._note(event)
                continue
            self.seen += 1
        if self.completed is not None and self._screen is not None and not self._holds:
            for phase, part, text in self._screen.end():
                self._keep(phase, self._parts.get(part) if phase == TOOL_DELTA else None, text, made)
        self._flush(made)
        return made

    @property
    def refused(self) -> bool:
        return self._screen is not None and self._screen.refused is not None

    def replace(self, judged: MessageContent) -> None:
        """The message as rules left it."""
        self._text, self._reasoning, self.calls = [judged.text], [judged.reasoning], list(judged.calls)

    def held_back(self) -> list[BuiltDelta]:
        """The deltas of a message of which nothing has left yet."""
        made: list[BuiltDelta] = []
        if not self._holds:
            return made
        if self.reasoning and self._publish_reasoning:
            self._queue(REASONING_DELTA, None, self.reasoning, made)
        if self.text:
            self._queue(OUTPUT_DELTA, None, self.text, made)
        calls = {call.id: call for call in self.calls}
        for piece in self._parts.values():
            call = calls.get(self._ids.of_delta(piece))
            if call is not None:
                arguments = call.raw_args if call.raw_args is not None else json.dumps(call.args).decode()
                self._queue(TOOL_DELTA, piece, arguments, made)
        self._flush(made)
        return made

    def spent(self, estimated_input: int, prices: Prices) -> TokenUsage:
        """What the provider reported; where it did not, an estimate, once there was any answer."""
        size = self._size if self._screen is not None else sum(map(len, self._text)) + self._size
        report = self.usage or _NOTHING_REPORTED
        answered = size > 0 or self.completed is not None
        tokens_in = report.input_tokens or (estimated_input if answered else 0)
        tokens_out = report.output_tokens or (size + 3) // 4
        return priced(tokens_in, tokens_out, prices, report.reasoning_tokens, report.cached_tokens)

    def _note(self, event: object) -> None:
        if isinstance(event, Started):
            self.provider_request_id = event.provider_request_id
        elif isinstance(event, Completed):
            self.completed = event
        elif isinstance(event, UsageReport):
            self.usage = UsageReport(
                _count(event.input_tokens) or 0,
                _count(event.output_tokens) or 0,
                _count(event.reasoning_tokens),
                _count(event.cached_tokens),
            )
        elif isinstance(event, ToolCall):
            self.calls.append(self._ids.of_call(event))
        elif isinstance(event, StreamError):
            self.error = event

    def _add(self, phase: str, call: ToolCallDelta | None, text: str, made: list[BuiltDelta]) -> None:
        """A piece as the provider sent it: screened, kept and published."""
        if self._screen is not None or phase != OUTPUT_DELTA:
            self._size += len(text)
        if call is not None:
            self._parts[call.part] = call
        # Reasoning that is not published stays as it came: only its provider gets it again.
        if self._screen is not None and not self._holds and (phase != REASONING_DELTA or self._publish_reasoning):
            if phase == OUTPUT_DELTA:
                screened = self._screen.text(text)
            else:
                screened = self._screen.take(phase, 0 if call is None else call.part, text)
            if not screened and text:
                return
            text = screened
        self._keep(phase, call, text, made)

    def _keep(self, phase: str, call: ToolCallDelta | None, text: str, made: list[BuiltDelta]) -> None:
        if phase == OUTPUT_DELTA:
            self._text.append(text)
        elif phase == REASONING_DELTA:
            self._reasoning.append(text)
            if not self._publish_reasoning:
                return
        if not self._holds:
            self._queue(phase, call, text, made)

    def _queue(self, phase: str, call: ToolCallDelta | None, text: str, made: list[BuiltDelta]) -> None:
        same = self._call is None if call is None else self._call is not None and call.part == self._call.part
        if self._pieces and not (phase == self._phase and same):
            self._flush(made)
        self._phase, self._call = phase, call
        self._pieces.append(text)

    def _flush(self, made: list[BuiltDelta]) -> None:
        if not self._pieces:
            return
        text = self._pieces[0] if len(self._pieces) == 1 else "".join(self._pieces)
        self._pieces.clear()
        if len(text) <= MAX_DELTA:
            made.append(self._delta(text))
        else:
            made += [self._delta(text[cut : cut + MAX_DELTA]) for cut in range(0, len(text), MAX_DELTA)]

    def _delta(self, text: str) -> BuiltDelta:
        # Names of ours and a text: the decoders let nothing else through.
        call = self._call
        if call is None:
            screened = self._phase == OUTPUT_DELTA and self._screen is not None and not self._holds
            made = ScreenedDelta if screened else BuiltDelta
            return made(self._adapter, self._phase, self._message_id, 0, text)
        call_id = self._ids.of_delta(call)
        return BuiltDelta(
            self._adapter, self._phase, self._message_id, call.part, text, tool_id=call.name, call_id=call_id
        )


def _count(reported: object) -> int | None:
    """A number of tokens as a provider reported it. What cannot be one counts as not reported, so that it is
    estimated: a budget is not spent by a text, a fraction, or a number below zero."""
    if type(reported) is float and reported.is_integer():
        reported = int(reported)
    return reported if type(reported) is int and 0 <= reported <= MAX_TOKENS else None
