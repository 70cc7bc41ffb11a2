"""What a backend says itself, in pieces: screened as a model's answer is, message by message.

A message is over when the backend says something else, calls something, or returns; what was held back is decided then.
"""

from typing import Final

from app.events.catalog import adapter
from app.policy.guardrails.screen import StreamScanners, StreamScreen
from app.runtime.run.run_guardrails import RunGuardrails, SecretScanners
from app.runtime.run.run_log import RunLog, expect

_MAX_SAID: Final = 64 * 1024
"""Characters of one delta, whatever a backend says at once: it has to fit into its row of the log."""


class Voice:
    def __init__(self, log: RunLog, secrets: SecretScanners, guardrails: RunGuardrails | None) -> None:
        self._log, self._secrets, self._guardrails = log, secrets, guardrails
        self._message: str | None = None
        self.screen: StreamScreen | None = None
        """Of the message that is being said; None while nothing is."""
        self._held: dict[int, list[str]] = {}
        """Of a message that rules want to see whole, by part."""

    async def say(self, message_id: str, text: str, part: int) -> None:
        if self._guardrails is not None:
            self._guardrails.go_on()
        if message_id != self._message or self.screen is None:
            await self.finish()
            self._message, self.screen = message_id, StreamScreen(self._scanners)
        if self._guardrails is not None and self._guardrails.holds_messages:
            self._held.setdefault(part, []).append(text)
            return
        screened = self.screen.take(adapter.OUTPUT_DELTA, part, text)
        await self._stop_if_blocked(self.screen)
        if screened or not text:
            await self._publish(screened, part)

    async def finish(self) -> None:
        if self.screen is None:
            return
        screen, self.screen = self.screen, None
        for _, part, text in screen.end():
            await self._publish(text, part)
        await self._report(screen)
        held, self._held = self._held, {}
        for part, pieces in held.items():
            assert self._guardrails is not None
            await self._publish(await self._guardrails.output("".join(pieces)), part)
        self._message = None

    @property
    def _scanners(self) -> StreamScanners:
        rules = None if self._guardrails is None else self._guardrails.scanners
        return self._secrets.streamed if rules is None else rules

    async def _publish(self, text: str, part: int) -> None:
        assert self._message is not None
        recorder, scope = self._log.recorder, self._log.scope
        for start in range(0, len(text) or 1, _MAX_SAID):
            piece = text[start : start + _MAX_SAID]
            expect(await recorder.record_delta(scope, adapter.OUTPUT_DELTA, self._message, part, piece))

    async def _stop_if_blocked(self, screen: StreamScreen) -> None:
        if screen.blocked is not None:
            self.screen = None
            await self._report(screen)

    async def _report(self, screen: StreamScreen) -> None:
        if self._guardrails is not None and screen.found:
            await self._guardrails.report_stream(screen, self._message or "")
            self._guardrails.go_on()
