"""A router with one provider kind, its fake and a recording list: what most tests of this room start from."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from app.core.clock import ManualClock, SystemClock
from app.core.errors import Failure
from app.core.schemas import SchemaRegistry, Validator
from app.events.catalog.adapter import AdapterEvent
from app.events.catalog.base import EVENTS, EventModel, Payload, schema_of
from app.models.completion import CompletionRequest, CompletionResponse, Message
from app.models.config import ModelConfig
from app.models.contract import Provider, ProviderDeps, ProviderKind
from app.models.kinds import scripted
from app.models.limits import Limiter
from app.models.negotiate import ModelChoice
from app.models.registry import Providers
from app.models.router import ModelRouter
from app.outside.http import HttpClient
from app.wiring.kinds import PROVIDERS
from app.workspace.catalog import Kinds
from app.workspace.specs.model import Retry, Script, ScriptFailure, ScriptReply, ScriptRule, ScriptToolCall
from tests.models.fakes.anthropic import AnthropicSpeaker
from tests.models.fakes.gemini import GeminiSpeaker
from tests.models.fakes.ollama import OllamaSpeaker
from tests.models.fakes.openai import OpenAiSpeaker
from tests.models.fakes.server import Answer, Behaviour, Fake, Hang, Speaker, Status, running

KINDS = {kind.name: kind for kind in PROVIDERS}
SPEAKERS: dict[str, type[Speaker]] = {
    "openai": OpenAiSpeaker,
    "anthropic": AnthropicSpeaker,
    "gemini": GeminiSpeaker,
    "ollama": OllamaSpeaker,
}
HTTP_KINDS = list(SPEAKERS)
ALL_KINDS = list(KINDS)
SECRET = "sk-test-secret-key"
ASK = CompletionRequest((Message("system", "Be brief."), Message("user", "Hi")))


@dataclass
class Recorder:
    """Takes events as the store would: validated against their schema, in order."""

    events: list[EventModel] = field(default_factory=list)
    recorded: list[Payload] = field(default_factory=list)
    """The same as they were handed in."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, payload: Payload) -> None:
        await asyncio.sleep(0)
        self.recorded.append(payload)
        self.events.append(EVENTS[payload.type].model_validate(payload.to_json()))
        self.changed.set()

    @property
    def types(self) -> list[str]:
        """The facts in order, deltas left out."""
        return [event.type.removeprefix("runtime.model.") for event in self.events if event.type != AdapterEvent.type]

    def of(self, kind: str) -> list[Any]:
        return [event for event in self.events if event.type == f"runtime.model.{kind}"]

    def deltas(self, phase: str = "agent.output.delta", message_id: str | None = None) -> str:
        signals = [event.event for event in self.events if isinstance(event, AdapterEvent)]
        return "".join(s.text or "" for s in signals if s.phase == phase and message_id in (None, s.message_id))

    def as_text(self) -> str:
        return str([event.to_json() for event in self.events])

    def breaks_a_schema(self) -> list[Any]:
        return [issue for one in self.recorded for issue in _validator(EVENTS[one.type]).issues(one.to_json())]


@cache
def _validator(cls: type[EventModel]) -> Validator:
    return Validator(schema_of(cls))


def a_model(name: str, provider: str, model: str, **fields: Any) -> ModelConfig:
    """Without capabilities of its own: it has what its provider usually has. Not validated, so that tests may go
    beyond what a document may say."""
    return ModelConfig.model_construct(name=name, provider=provider, model=model, **fields)


class ProviderSetup:
    def __init__(
        self, kind: str, fake: Fake | None, router: ModelRouter, clock: ManualClock, slept: list[float]
    ) -> None:
        self.kind, self.fake, self.router, self.clock, self.slept = kind, fake, router, clock, slept
        self.recorder = Recorder()
        self.script = Script()

    @property
    def server(self) -> Fake:
        assert self.fake is not None
        return self.fake

    def plays(self, *behaviours: Behaviour) -> None:
        if self.fake is not None:
            self.fake.plays(*behaviours)
        else:
            self.script = Script(rules=tuple(_rule(b) for b in behaviours))

    def config(self, name: str = "primary", **changes: Any) -> ModelConfig:
        fields: dict[str, Any] = {"script": self.script}
        if self.fake is not None:
            fields["base_url"] = self.fake.url + ("/v1" if self.kind == "openai" else "")
            fields["api_key"] = "${env:TEST_KEY}"
        return a_model(name, self.kind, "test-model", **fields).model_copy(update=changes)

    async def complete(
        self, request: CompletionRequest = ASK, plan: ModelChoice | None = None, **options: Any
    ) -> CompletionResponse | Failure:
        plan = plan or ModelChoice(self.config())
        answer = self.router.complete(plan, request, record=self.recorder, message_id="msg_1", **options)
        return await asyncio.wait_for(answer, 30)

    async def answer(self, request: CompletionRequest = ASK, plan: ModelChoice | None = None, **options: Any) -> Any:
        outcome = await self.complete(request, plan, **options)
        assert isinstance(outcome, CompletionResponse), outcome
        assert self.recorder.breaks_a_schema() == []
        return outcome

    async def failure(
        self, request: CompletionRequest = ASK, plan: ModelChoice | None = None, **options: Any
    ) -> Failure:
        outcome = await self.complete(request, plan, **options)
        assert isinstance(outcome, Failure), outcome
        assert self.recorder.breaks_a_schema() == []
        return outcome


def _rule(behaviour: Behaviour) -> ScriptRule:
    """The same behaviour for the scripted kind. A fault is played once, then the next rule follows."""
    if isinstance(behaviour, Status):
        after = behaviour.headers.get("Retry-After")
        retry_after = None if after is None else float(after)
        fault = ScriptFailure.model_construct(
            status=behaviour.status, message=behaviour.message, retry_after_seconds=retry_after
        )
        return ScriptRule(fail=fault)
    if isinstance(behaviour, Hang):
        return ScriptRule(fail=ScriptFailure(kind="timeout"))
    cut = behaviour.close_after if behaviour.close_after is not None else behaviour.hang_after
    kind = "midStream" if behaviour.close_after is not None else "timeout"
    given, made = behaviour.usage
    reply = ScriptReply(
        reasoning="".join(behaviour.reasoning),
        chunks=behaviour.chunks,
        toolCalls=tuple(ScriptToolCall(name=c.name, rawArgs=c.arguments) for c in behaviour.calls),
        chunkSize=behaviour.argument_size,
        finishReason=behaviour.finish,
        usage={"inputTokens": given, "outputTokens": made},
    )
    fail = None if cut is None else ScriptFailure(kind=kind, afterChunks=cut)  # type: ignore[arg-type]
    return ScriptRule(reply=reply, fail=fail)


class InTurn:
    """A scripted model that plays its rules one per call, as the fakes do."""

    def __init__(self, inner: Provider) -> None:
        self._inner = inner
        self._calls = 0
        self.capabilities = inner.capabilities
        self.notes = inner.notes

    def stream(self, call: Any) -> Any:
        rules = (call.config.script or Script()).rules
        if rules:
            rule = rules[min(self._calls, len(rules) - 1)]
            call = replace(call, config=call.config.model_copy(update={"script": Script(rules=(rule,))}))
            self._calls += 1
        return self._inner.stream(call)


def quick(**changes: Any) -> Retry:
    """So many attempts and no more: an outage is not waited for unless `total_seconds` is given."""
    return Retry(totalSeconds=0).model_copy(update=changes)


@asynccontextmanager
async def open_provider_setup(
    kind: str, *, limiter: Limiter | None = None, in_turn: bool = True
) -> AsyncIterator[ProviderSetup]:
    """Waiting between attempts is only noted and moves the clock, so that tests take no time."""
    clock, slept = ManualClock(), list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.advance(seconds)

    async with AsyncExitStack() as stack:
        fake = await stack.enter_async_context(running(SPEAKERS[kind]())) if kind in SPEAKERS else None
        client = HttpClient()
        stack.push_async_callback(client.close)
        deps = ProviderDeps(client, {"${env:TEST_KEY}": SECRET}.get, SystemClock(), sleep)
        kinds = dict(KINDS)
        if in_turn:
            kinds["scripted"] = ProviderKind(name="scripted", make=lambda deps: InTurn(scripted.provider(deps)))
        router = ModelRouter(
            Providers(Kinds(kinds.values()), deps),
            schemas=SchemaRegistry(),
            clock=clock,
            random=lambda: 0.5,
            sleep=sleep,
            limiter=limiter,
        )
        yield ProviderSetup(kind, fake, router, clock, slept)


__all__ = [
    "ALL_KINDS",
    "ASK",
    "HTTP_KINDS",
    "SECRET",
    "Answer",
    "Hang",
    "ProviderSetup",
    "Recorder",
    "Status",
    "a_model",
    "open_provider_setup",
    "quick",
]
