"""The replay token of a run: what must be the same for a rerun to repeat it, as hashes.

A pure fold over the run's events. As a text a token is `rt2_<content>.<signature>`, signed with the server's secret, so
that a client cannot make one up. Leaves to the runtime: comparing a token with the present, and rerunning.
"""

import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from hashlib import sha256
from typing import Any, Final

from app.core import json
from app.core.errors import Failure
from app.core.signing import Signer
from app.core.value import value
from app.events.catalog import adapter, execution, model, request, tool
from app.events.envelope import Event

_PREFIX: Final = "rt2_"
_UNSIGNED_PREFIX: Final = "rt1_"
_PURPOSE: Final = "replay token 2"
_ASKED: Final = ("agent", "tool", "input", "instructions", "clientTools", "responseSchema", "modelPlan")
_ASKED_SINCE: Final = ("parameters", "toolChoice")
"""Only where they were asked for, so that a token from before there were any still fits."""


Fingerprint = Callable[[Iterable[str]], str]
"""The capability fingerprint of models, by their names in the workspace that the run used."""


@value(frozen=True, slots=True)
class ReplayToken:
    run_id: str
    request: str
    """Hash of what the client asked for."""
    prompt: str | None
    """Hash of the first request to a model: instructions, history, input and tools, as assembled."""
    tools: str
    """Hash of the tool calls that were made, by name and arguments, in order."""
    provider: str
    """The capability fingerprint of the models that were used: their providers and what they can do."""
    runtime: str
    """The version of the server and the digest of the workspace."""
    created_at: int
    """When the token was made, in milliseconds since 1970."""

    def encode(self, signer: Signer) -> str:
        content = json.canonical(asdict(self))
        return f"{_PREFIX}{_base64(content)}.{_base64(signer.sign(_PURPOSE, content))}"


def decode(text: str, signer: Signer) -> ReplayToken | Failure:
    """The signature is checked before anything of the content is looked at."""
    if text.startswith(_UNSIGNED_PREFIX):
        return Failure("REPLAY_TOKEN_UNSIGNED", "The replay token has no signature.")
    content, _, signature = text.removeprefix(_PREFIX).partition(".")
    try:
        body = _bytes(content)
        if not text.startswith(_PREFIX) or not signer.verify(_PURPOSE, body, _bytes(signature)):
            raise ValueError
        found = json.loads_strict(body)
        return ReplayToken(**{name: found[name] for name in ReplayToken.__dataclass_fields__})
    except (binascii.Error, json.JsonError, KeyError, TypeError, ValueError):
        message = "This is not a token that this server signed: it was changed, or its secret is no longer in use."
        return Failure("REPLAY_TOKEN_INVALID", message)


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def replay_token(
    run_id: str, events: Sequence[Event], version: str, fingerprint: Fingerprint, created_at: int
) -> ReplayToken:
    """`events` are the run's own, with large values in place; `fingerprint` knows what the models could do."""
    asked: dict[str, Any] = {}
    prompt: str | None = None
    models: set[str] = set()
    for event in events:
        payload = event.payload
        match event.type:
            case request.RequestQueued.type:
                asked = payload
            case model.ModelRequested.type:
                prompt = prompt or payload["requestHash"]
                models.add(payload["model"])
    return ReplayToken(
        run_id,
        _request_hash(asked),
        prompt,
        _hash(recorded_calls(events).hashes),
        fingerprint(models),
        f"{version}/{asked.get('workspaceDigest')}",
        created_at,
    )


def _request_hash(asked: dict[str, Any]) -> str:
    given = {name: asked.get(name) for name in _ASKED}
    return _hash(given | {name: asked[name] for name in _ASKED_SINCE if name in asked})


@value(frozen=True, slots=True)
class RecordedCalls:
    hashes: list[str]
    """Of a run's tool calls and of the steps that its upstream ran, in the order of the log."""
    after: list[int]
    """For each of them, how many of the first calls had ended when it began. Only those have to come before it when it
    is repeated; what ran in parallel may begin in any order."""


def recorded_calls(events: Iterable[Event]) -> RecordedCalls:
    found = RecordedCalls([], [])
    places: dict[str, int] = {}
    ended: set[int] = set()
    before = 0
    for event in events:
        begun = _begun(event)
        if begun is not None:
            call_id, hashed = begun
            while before in ended:
                before += 1
            places[call_id] = len(found.hashes)
            found.hashes.append(hashed)
            found.after.append(before)
        elif event.type == tool.ToolResulted.type:
            ended.add(places.get(event.payload["callId"], -1))
        elif event.type == execution.StepCompleted.type:
            ended.add(places.get(event.payload["key"], -1))
    return found


def _begun(event: Event) -> tuple[str, str] | None:
    """The id and the hash of the call that this event is the first attempt of."""
    payload = event.payload
    if event.type == tool.ToolInvoked.type and payload.get("attempt", 1) == 1:
        return payload["callId"], call_hash(payload["tool"], payload["arguments"])
    if event.type == adapter.AdapterEvent.type:
        signal = payload["event"]
        if signal["phase"] == adapter.TOOL_START and signal.get("attempt", 1) == 1:
            return signal["callId"], call_hash(signal["toolId"], signal.get("args"))
    return None


def first_prompts(events: Iterable[Event]) -> list[str]:
    """The hashes of the requests that were made before any model had answered; branches in parallel make several."""
    found: list[str] = []
    for event in events:
        if event.type == model.ModelRequested.type:
            found.append(event.payload["requestHash"])
        elif event.type == model.ModelCompleted.type:
            break
    return found


def call_hash(name: str, arguments: Any) -> str:
    return _hash([name, arguments])


def capability_hash(models: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Of models as their provider and capabilities: the same for two models that can do the same."""
    return _hash(sorted([provider, *sorted(capabilities)] for provider, capabilities in set_of(models)))


def set_of(models: Iterable[tuple[str, Iterable[str]]]) -> set[tuple[str, frozenset[str]]]:
    return {(provider, frozenset(capabilities)) for provider, capabilities in models}


def _hash(value: Any) -> str:
    return sha256(json.canonical(value)).hexdigest()
