"""What a stream adds up to, and the deltas to publish on the way: whatever arrived together is one delta."""

from app.events.catalog.adapter import OUTPUT_DELTA, REASONING_DELTA, TOOL_DELTA
from app.events.catalog.builders import BuiltDelta
from app.models.completion import Thought, TokenUsage, ToolCall
from app.models.contract import (
    Batch,
    Completed,
    ReasoningDelta,
    Started,
    StreamError,
    TextDelta,
    ToolCallDelta,
    UsageReport,
)
from app.models.toolcalls import UpstreamIds

# Deltas stay in their row of the log, never a blob, so a burst is published in pieces.
_MAX_DELTA = 8_192


class Collector:
    def __init__(self, adapter: str, message_id: str, *, publish_reasoning: bool = True) -> None:
        self._adapter, self._message_id = adapter, message_id
        self._publish_reasoning = publish_reasoning
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._tool_bytes = 0
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
        return () if self.completed is None else self._ids.of_thoughts(self.completed.thoughts)

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    def take(self, batch: Batch) -> list[BuiltDelta]:
        """Adds the batch and gives the deltas it is published as."""
        if len(batch) == 1 and isinstance(batch[0], TextDelta) and len(batch[0].text) <= _MAX_DELTA:
            # The usual case by far, and the one that has to be fast.
            text = batch[0].text
            self.seen += 1
            self._text.append(text)
            self._phase, self._call = OUTPUT_DELTA, None
            return [self._delta(text)]
        made: list[BuiltDelta] = []
        for event in batch:
            if isinstance(event, TextDelta):
                self._text.append(event.text)
                self._add(OUTPUT_DELTA, None, event.text, made)
            elif isinstance(event, ToolCallDelta):
                self._tool_bytes += len(event.text)
                self._add(TOOL_DELTA, event, event.text, made)
            elif isinstance(event, ReasoningDelta):
                self._reasoning.append(event.text)
                if self._publish_reasoning:
                    self._add(REASONING_DELTA, None, event.text, made)
            else:
                self._note(event)
                continue
            self.seen += 1
        self._flush(made)
        return made

    def spent(self, estimated_input: int) -> TokenUsage:
        """What the provider reported; where it did not, an estimate, once there was any answer."""
        size = sum(map(len, self._text)) + sum(map(len, self._reasoning)) + self._tool_bytes
        report = self.usage or UsageReport()
        answered = size > 0 or self.completed is not None
        tokens_in = report.input_tokens or (estimated_input if answered else 0)
        tokens_out = report.output_tokens or (size + 3) // 4
        return TokenUsage(tokens_in, tokens_out, report.reasoning_tokens, report.cached_tokens)

    def _note(self, event: object) -> None:
        if isinstance(event, Started):
            self.provider_request_id = event.provider_request_id
        elif isinstance(event, Completed):
            self.completed = event
        elif isinstance(event, UsageReport):
            self.usage = event
        elif isinstance(event, ToolCall):
            self.calls.append(self._ids.of_call(event))
        elif isinstance(event, StreamError):
            self.error = event

    def _add(self, phase: str, call: ToolCallDelta | None, text: str, made: list[BuiltDelta]) -> None:
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
        cuts = range(0, len(text) or 1, _MAX_DELTA)
        made += [self._delta(text[cut : cut + _MAX_DELTA]) for cut in cuts]

    def _delta(self, text: str) -> BuiltDelta:
        # Names of ours and a text: the decoders let nothing else through.
        call = self._call
        if call is None:
            return BuiltDelta(self._adapter, self._phase, self._message_id, 0, text)
        call_id = self._ids.of_delta(call)
        return BuiltDelta(
            self._adapter, self._phase, self._message_id, call.part, text, tool_id=call.name, call_id=call_id
        )
