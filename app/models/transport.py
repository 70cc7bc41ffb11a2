"""A provider over HTTP: sends what a dialect encoded, feeds it what arrives, turns faults into stream errors.

A dialect is pure: it never sees a socket. Leaves to the kinds: each provider's wire format; to `router`:
what to do about a fault. Keys are resolved here, at call time, and scrubbed from whatever the provider says
in an error.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from pydantic import Field

from app.core import json
from app.core.clock import Clock
from app.core.errors import Failure
from app.core.value import value
from app.models.contract import (
    Batch,
    ProviderCall,
    ProviderDeps,
    Started,
    StreamError,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
)
from app.models.sse import LineParser, PayloadTooLarge, SseParser
from app.models.text_template import NO_TEMPLATE, joined_text, template_of
from app.outside.addresses import AddressPolicy, normal_host
from app.outside.http import Deadlines, OutgoingRequest, OutsideError, Reply, Segments
from app.workspace.specs.base import JsonMap, Spec, Text

# The longest answer of any model is far below this; what is above is a fault or an attack.
MAX_ANSWER: Final = 32 * 1024 * 1024
_MAX_ERROR: Final = 64 * 1024
# A document of `{},{},{},...` takes thirty times its size in memory once it is parsed. What is small cannot hurt.
MAX_VALUES: Final = 1_000_000
MAX_CALLS: Final = 1_000
"""Tool calls of one answer. Each costs kilobytes on its way through a run, and no model makes so many."""
_SMALL: Final = 256 * 1024
# Usage follows a finished answer at once; whoever is silent for longer has no more to say.
_MAX_TEMPLATES: Final = 4
"""Of one answer: a provider whose parts differ in more than their text is not worth comparing."""
_LINGER_SECONDS: Final = 2.0
_TRANSIENT: Final = frozenset({408, 425, 429})
_REQUEST_ID_HEADERS: Final = ("x-request-id", "request-id", "x-goog-request-id")


class WireFault(Exception):
    """The provider sent something that is not its wire format. The message never repeats it."""


class Upstream(Exception):
    """The provider reported an error inside a stream."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


# Whatever shape a provider sends instead of its own must end this call and nothing else.
_WRONG_SHAPE: Final = (json.JsonError, KeyError, TypeError, IndexError, AttributeError, ValueError)
_FAULTS: Final = (*_WRONG_SHAPE, WireFault, Upstream)


class Decoder(Protocol):
    """Turns the payloads of one answer into events. Raises `WireFault` or `Upstream`."""

    @property
    def done(self) -> bool:
        """Whether the answer is complete: a stream that ends before was cut off."""
        ...

    def text(self, document: Any) -> str | None:
        """The piece of the answer that the document is, if it is nothing else: nearly every one is. May raise what a
        wrong shape raises."""
        ...

    def payload(self, document: Any) -> list[StreamEvent]: ...

    def whole(self, document: Any) -> list[StreamEvent]:
        """A non-streaming answer."""
        ...

    def finish(self) -> list[StreamEvent]:
        """What can only be said at the end: completed calls, usage, `Completed`."""
        ...


@value(frozen=True, slots=True)
class Encoded:
    path: str
    headers: Mapping[str, str]
    body: bytes | Segments


class BodyConfig(Spec):
    """The `config` of a Model whose provider is reached over HTTP."""

    body: JsonMap = Field(default_factory=dict)
    """Merged into the provider's request."""


class VersionedConfig(BodyConfig):
    api_version: Text | None = None


class Dialect(Protocol):
    @property
    def default_url(self) -> str: ...

    @property
    def stream_type(self) -> str:
        """The content type of a stream."""
        ...

    @property
    def capabilities(self) -> frozenset[str]: ...

    def encode(self, call: ProviderCall, key: str | None) -> Encoded: ...

    def decoder(self) -> Decoder: ...

    def notes(self, call: ProviderCall) -> list[str]: ...


class HttpProvider:
    def __init__(self, dialect: Dialect, deps: ProviderDeps) -> None:
        self._dialect = dialect
        self._deps = deps

    @property
    def capabilities(self) -> frozenset[str]:
        return self._dialect.capabilities

    def notes(self, call: ProviderCall) -> list[str]:
        return self._dialect.notes(call)

    async def stream(self, call: ProviderCall) -> AsyncGenerator[Batch, None]:
        reference = call.config.api_key
        key = None if reference is None else self._deps.secrets(reference)
        if reference is not None and not key:
            yield [StreamError(Failure("PROVIDER_KEY_MISSING", f"The key of model {call.config.name!r} is not set."))]
            return
        reply: Reply | None = None
        events: list[StreamEvent] = []
        """What goes with the next batch: every batch is a step of the run."""
        try:
            reply = await self._deps.client.send(self._outgoing(call, key))
            if reply.status != 200:
                yield [await _refusal(reply, key, self._deps.clock)]
                return
            events.append(Started(_request_id(reply)))
            decoder, content_type = self._dialect.decoder(), reply.content_type
            if call.stream and content_type == self._dialect.stream_type:
                answer = _Answer(decoder, LineParser() if "json" in content_type else SseParser())
                if not reply.arrived:  # whose request it was is known even if nothing follows
                    batch, events = events, []
                    yield batch
                while data := (await _last(reply) if decoder.done else await reply.some()):
                    events += answer.feed(data)
                    if decoder.done and reply.ended:
                        break
                    if events:
                        batch, events = events, []
                        yield batch
                    if answer.fault is not None:  # what came before it in the same read is not lost
                        raise answer.fault
                events += answer.end()
            elif content_type == "application/json":
                # Also the answer of a compatible server that knows no streaming.
                events += whole_answer(decoder, await reply.read())
            else:
                raise WireFault("the answer has the wrong content type")
            yield events
        except OutsideError as error:
            yield [*events, StreamError(_outside(error))]
        except Upstream as error:
            yield [*events, StreamError(status_failure(error.status, _scrubbed(error.message, key)))]
        except PayloadTooLarge:
            yield [*events, StreamError(_malformed("a part of the answer is over the limit"))]
        except WireFault as error:
            yield [*events, StreamError(_malformed(str(error)))]
        except _WRONG_SHAPE:
            yield [*events, StreamError(_malformed("the answer is not in the provider's format"))]
        finally:
            if reply is not None:
                reply.close()

    def _outgoing(self, call: ProviderCall, key: str | None) -> OutgoingRequest:
        config, encoded = call.config, self._dialect.encode(call, key)
        base = (self._resolved(config.base_url) or self._dialect.default_url).rstrip("/")
        headers = {"Content-Type": "application/json", **encoded.headers}
        if config.headers:
            headers |= {name: self._resolved(value) or "" for name, value in config.headers.items()}
        within = _connecting(config.timeouts.connect_seconds)
        return OutgoingRequest("POST", base + encoded.path, headers, encoded.body, _only(base), within, MAX_ANSWER)

    def _resolved(self, text: str | None) -> str | None:
        return self._deps.secrets(text) if text is not None and "${" in text else text


@lru_cache(maxsize=256)
def _connecting(seconds: float) -> Deadlines:
    """How long an answer may take is for the deadline of the attempt."""
    return Deadlines(connect=seconds, idle=None, total=None)


@lru_cache(maxsize=256)
def _only(base: str) -> AddressPolicy:
    """The workspace wrote this address, so its host is allowed by name, and no other one is."""
    place = normal_host(urlsplit(base).hostname or "")
    return AddressPolicy(private=frozenset({place}), only=frozenset({place}), proxied=True)


async def _last(reply: Reply) -> bytes:
    """What follows a complete answer. Some servers leave the connection open then; they are not waited for."""
    if reply.ended:
        return b""
    try:
        async with asyncio.timeout(_LINGER_SECONDS):
            return await reply.some()
    except TimeoutError:
        return b""


class _Answer:
    """A streamed answer on its way from bytes to events."""

    def __init__(self, decoder: Decoder, parser: SseParser | LineParser) -> None:
        self._decoder = decoder
        self._parser = parser
        self.fault: Exception | None = None
        self._calls: set[int] = set()
        self._templates_left = _MAX_TEMPLATES
        self._like = NO_TEMPLATE
        """The last part that was text and nothing else: most of those that follow differ only in their text."""
        self._alone = NO_TEMPLATE
        """The same for a part with its framing that is all of what was read, as most are of a model that is slow. Only
        while the parser holds nothing of what was read before."""

    def feed(self, data: bytes) -> list[StreamEvent]:
        """What was read before a `fault`, if there is one."""
        text = self._alone.text(data)
        if text is not None:
            return [TextDelta(text)]
        parser = self._parser
        payloads = parser.feed(data)
        events = self._events(payloads)
        alone = len(payloads) == 1 and parser.is_empty
        self._alone = self._like.framed(data, payloads[0]) if alone else NO_TEMPLATE
        return events

    def end(self) -> list[StreamEvent]:
        rest = self._parser.finish()
        events = self._events(rest) if rest else []
        if self.fault is not None:
            raise self.fault
        if not self._decoder.done:
            message = "the stream ended before the answer was complete"
            raise OutsideError("OUTSIDE_CUT_OFF", message, retryable=True)
        return events + self._decoder.finish()

    def _events(self, payloads: list[bytes]) -> list[StreamEvent]:
        events: list[StreamEvent] = []  # not `list[StreamEvent]()`, which takes fifty times as long
        pieces: list[str] = []
        at, count = 0, len(payloads)
        try:
            while at < count:
                alike = self._like.alike(payloads, at)
                end = at + (len(alike) or 1)
                if alike and (text := joined_text(alike)) is not None:
                    pieces.append(text)
                else:
                    for payload in payloads[at:end]:
                        if (text := self._text(payload, events, pieces)) is not None:
                            pieces.append(text)
                at = end
        except _FAULTS as fault:
            self.fault = fault
        if pieces:
            events.append(TextDelta("".join(pieces)))
        return events

    def _text(self, payload: bytes, events: list[StreamEvent], pieces: list[str]) -> str | None:
        """The text of a part that holds nothing else; anything else joins the events, after the text before it."""
        if payload == b"[DONE]":
            return None
        document = read_document(payload)
        text = self._decoder.text(document)
        if text is not None:
            if self._templates_left:
                self._templates_left -= 1
                self._like = template_of(payload, text, self._decoder.text)
            return text
        if pieces:
            events.append(TextDelta("".join(pieces)))
            pieces.clear()
        found = self._decoder.payload(document)
        _count_calls(found, self._calls)
        events += found
        return None


def read_document(data: bytes) -> Any:
    """A provider's JSON, unless it holds far more values than an answer has. Marks inside texts count as well."""
    if len(data) > _SMALL and sum(map(data.count, (b"{", b"[", b","))) > MAX_VALUES:
        raise WireFault(f"a part of the answer holds more than {MAX_VALUES} values")
    return json.loads(data)


def whole_answer(decoder: Decoder, data: bytes) -> list[StreamEvent]:
    """The events of an answer that is not streamed."""
    events = decoder.whole(read_document(data))
    _count_calls(events, set())
    return events + decoder.finish()


def _count_calls(events: list[StreamEvent], seen: set[int]) -> None:
    """Raises for an answer with more tool calls than one is allowed; `seen` are the calls so far, by their part."""
    for event in events:
        if isinstance(event, ToolCallDelta):
            seen.add(event.part)
    if len(seen) > MAX_CALLS:
        raise WireFault(f"the answer calls tools more than {MAX_CALLS} times")


def status_failure(status: int, message: str = "") -> Failure:
    """The failure for an HTTP status, wherever it was reported."""
    said = f": {message}" if message else ""
    detail = {"status": status}
    if status in (401, 403):
        # Providers repeat parts of a wrong key in this message, so it is left out.
        return Failure("PROVIDER_DENIED", f"The provider refused the key ({status}).", detail=detail)
    if status == 429:
        return Failure("PROVIDER_RATE_LIMITED", f"The provider's rate limit was reached{said}", True, detail)
    if status >= 500 or status in _TRANSIENT:
        return Failure("PROVIDER_UNAVAILABLE", f"The provider answered {status}{said}", True, detail)
    return Failure("PROVIDER_REJECTED", f"The provider refused the request ({status}){said}", detail=detail)


def _outside(error: OutsideError) -> Failure:
    code = {
        "OUTSIDE_UNREACHABLE": "PROVIDER_UNREACHABLE",
        "OUTSIDE_TIMEOUT": "PROVIDER_TIMEOUT",
        "OUTSIDE_CUT_OFF": "PROVIDER_CUT_OFF",
        "OUTSIDE_TOO_LARGE": "PROVIDER_MALFORMED",
    }.get(error.code, error.code)
    return Failure(code, error.failure.message, error.failure.retryable)


def _malformed(message: str) -> Failure:
    return Failure("PROVIDER_MALFORMED", message)


async def _refusal(reply: Reply, key: str | None, clock: Clock) -> StreamError:
    message = ""
    body = b""
    async for piece in reply.chunks():
        body += piece
        if len(body) > _MAX_ERROR:
            break
    with suppress(json.JsonError):  # a proxy's HTML page says nothing that the status does not
        message = _error_message(json.loads(body))
    return StreamError(status_failure(reply.status, _scrubbed(message, key)), _retry_after(reply, clock))


def _error_message(document: Any) -> str:
    error = document.get("error") if isinstance(document, dict) else None
    said = error.get("message") if isinstance(error, dict) else error
    return said if isinstance(said, str) else ""


def _scrubbed(message: str, key: str | None) -> str:
    if key:
        message = message.replace(key, "[REDACTED:key]")
    return message if len(message) <= 300 else message[:297] + "..."


def _retry_after(reply: Reply, clock: Clock) -> float | None:
    """Seconds, from either spelling of the header."""
    millis = reply.headers.get("retry-after-ms", "")
    if millis.replace(".", "", 1).isdigit():
        return float(millis) / 1000
    text = reply.headers.get("Retry-After", "").strip()
    if not text:
        return None
    if text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - clock.now_ms() / 1000)
    except ValueError:
        return None


def _request_id(reply: Reply) -> str | None:
    for name in _REQUEST_ID_HEADERS:
        if name in reply.headers:
            return reply.headers[name][:200]
    return None
