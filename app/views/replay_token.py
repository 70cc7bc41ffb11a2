"""The replay token of a run: what must be the same for a rerun to repeat it, as hashes.

A pure fold over the run's events. As a text a token is `rt2_<content>.<signature>`, signed with the server's secret, so
that a client cannot make one up. Leaves to the runtime: comparing a token with the present, and rerunning.
"""

import base64
import binascii
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Final

from app.core import json
from app.core.errors import Failure
from app.core.signing import Signer
from app.events.catalog import model, request, tool
from app.events.envelope import Event

_PREFIX: Final = "rt2_"
_UNSIGNED_PREFIX: Final = "rt1_"
_PURPOSE: Final = "replay token 2"
_ASKED: Final = ("agent", "tool", "input", "instructions", "clientTools", "responseSchema", "modelPlan")
_ASKED_SINCE: Final = ("parameters", "toolChoice")
"""Only where they were asked for, so that a token from before there were any still fits."""


Fingerprint = Callable[[Iterable[str]], str]
"""The capability fingerprint of models, by their names in the workspace that the run used."""


@dataclass(frozen=True, slots=True)
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
        message = "this is not a token that this server signed: it was changed, or its secret is no longer in use"
        return Failure("REPLAY_TOKEN_INVALID", message)


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def replay_token(
    run_id: str, events: Iterable[Event], version: str, fingerprint: Fingerprint, created_at: int
) -> ReplayToken:
    """`events` are the run's own, with large values in place; `fingerprint` knows what the models could do."""
    asked: dict[str, Any] = {}
    prompt: str | None = None
    calls: list[str] = []
    models: set[str] = set()
    for event in events:
        payload = event.payload
        match event.type:
            case request.RequestQueued.type:
                asked = payload
            case model.ModelRequested.type:
                prompt = prompt or payload["requestHash"]
                models.add(payload["model"])
            case tool.ToolInvoked.type if payload.get("attempt", 1) == 1:
                calls.append(call_hash(payload["tool"], payload["arguments"]))
    return ReplayToken(
        run_id,
        _request_hash(asked),
        prompt,
        _hash(calls),
        fingerprint(models),
        f"{version}/{asked.get('workspaceDigest')}",
        created_at,
    )


def _request_hash(asked: dict[str, Any]) -> str:
    given = {name: asked.get(name) for name in _ASKED}
    return _hash(given | {name: asked[name] for name in _ASKED_SINCE if name in asked})


def tool_calls(events: Iterable[Event]) -> list[str]:
    """The hashes of a run's tool calls, in order."""
    first = (e.payload for e in events if e.type == tool.ToolInvoked.type and e.payload.get("attempt", 1) == 1)
    return [call_hash(payload["tool"], payload["arguments"]) for payload in first]


def call_hash(name: str, arguments: Any) -> str:
    return _hash([name, arguments])


def capability_hash(models: Iterable[tuple[str, Iterable[str]]]) -> str:
    """Of models as their provider and capabilities: the same for two models that can do the same."""
    return _hash(sorted([provider, *sorted(capabilities)] for provider, capabilities in set_of(models)))


def set_of(models: Iterable[tuple[str, Iterable[str]]]) -> set[tuple[str, frozenset[str]]]:
    return {(provider, frozenset(capabilities)) for provider, capabilities in models}


def _hash(value: Any) -> str:
    return sha256(json.canonical(value)).hexdigest()
