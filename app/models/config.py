"""A model as the workspace defines it: provider, address, limits, prices, timeouts, retries, script.

Frozen values plus `model_config`, which reads them from a Model document's `spec`. Leaves to `workspace`:
the file format and its diagnostics. Keys stay references (`${env:NAME}`) here; a kind resolves them when it
calls.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

from app.models.completion import FinishReason, Reasoning


@dataclass(frozen=True, slots=True)
class Timeouts:
    """`first_token` counts from sending, `idle` between two deltas, `total` over one attempt."""

    connect_seconds: float = 10.0
    first_token_seconds: float = 60.0
    idle_seconds: float = 60.0
    total_seconds: float = 600.0

    @property
    def soonest(self) -> float:
        """When one of them may first be over."""
        return min(self.first_token_seconds, self.idle_seconds, self.total_seconds)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    attempts: int = 3
    """Including the first one; made in any case."""
    total_seconds: float = 120.0
    """How long a call that has no other model to ask goes on beyond its attempts, and waits for the breaker; 0 for
    the attempts alone."""
    initial_delay_seconds: float = 0.5
    max_delay_seconds: float = 20.0
    """A provider that asks for a longer wait is given up in favour of the next model, if there is one."""
    budget_per_minute: int = 60
    """Retries of this model in any minute, over all runs: those above it wait for their turn, or go to a fallback."""
    mid_stream: Literal["fail", "restart"] = "fail"
    """What to do when a stream breaks after its first delta was published."""


@dataclass(frozen=True, slots=True)
class BreakerPolicy:
    """Opens when both are reached among the last calls of the window: four times `failures` of them at most."""

    failures: int = 10
    failure_rate: float = 0.8
    """Share of those calls."""
    window_seconds: float = 60.0
    open_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars per million tokens."""

    input: float = 0.0
    output: float = 0.0
    cached_input: float | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """None means unlimited. Rates are per process."""

    concurrency: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    context_tokens: int | None = None
    """Input and output together."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """Knobs for requests that do not set them."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None


@dataclass(frozen=True, slots=True)
class ScriptMatch:
    """All that is given must hold; texts are compared whatever the case."""

    contains: str | None = None
    equals: str | None = None
    system: str | None = None
    turn: int | None = None
    """1 for the first answer after the last user message, 2 for the next, ..."""
    after_tool: str | None = None
    tool_result: str | None = None


@dataclass(frozen=True, slots=True)
class ScriptFailure:
    status: int | None = None
    kind: Literal["status", "connection", "timeout", "midStream"] = "status"
    message: str = "scripted failure"
    retry_after_seconds: float | None = None
    times: int | None = None
    """None fails always."""
    after_chunks: int = 0


@dataclass(frozen=True, slots=True)
class ScriptReply:
    """Texts may say `{{ input }}`, `{{ turn }}` and `{{ toolResult }}`."""

    text: str = ""
    reasoning: str | None = None
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    finish_reason: FinishReason | None = None
    chunk_size: int | None = None
    chunks: tuple[str, ...] = ()
    delay_seconds: float = 0.0
    chunk_delay_seconds: float = 0.0
    usage: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScriptRule:
    match: ScriptMatch = ScriptMatch()
    reply: ScriptReply = ScriptReply()
    fail: ScriptFailure | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """The first rule that matches answers; when none does, `default`, which echoes."""

    rules: tuple[ScriptRule, ...] = ()
    default: ScriptReply = ScriptReply(text="{{ input }}")


@dataclass(frozen=True, slots=True)
class ModelConfig:
    name: str
    provider: str
    model: str
    base_url: str | None = None
    """May hold `${env:NAME}`, like the headers."""
    api_key: str | None = None
    """A reference such as `${env:OPENAI_API_KEY}`, never the key."""
    headers: Mapping[str, str] = field(default_factory=dict)
    capabilities: frozenset[str] | None = None
    """None takes what the provider kind usually has."""
    limits: Limits = Limits()
    prices: Prices = Prices()
    timeouts: Timeouts = Timeouts()
    retry: RetryPolicy = RetryPolicy()
    breaker: BreakerPolicy = BreakerPolicy()
    parameters: Parameters = Parameters()
    reasoning: Reasoning | None = None
    script: Script = Script()
    config: Mapping[str, Any] = field(default_factory=dict)
    """The kind's own: `apiVersion`, and `body`, which is merged into the provider's request."""
    fallbacks: tuple[str, ...] = ()

    @property
    def api_version(self) -> str | None:
        version = self.config.get("apiVersion")
        return version if isinstance(version, str) else None

    @property
    def extra_body(self) -> dict[str, Any]:
        return dict(self.config.get("body") or {})


def model_config(name: str, spec: Mapping[str, Any]) -> ModelConfig:
    """From the `spec` of a Model document as JSON (camelCase), already validated by the workspace.

    With the workspace's own value: `model_config(name, spec.model_dump(by_alias=True, exclude_none=True))`.
    """
    reasoning = spec.get("reasoning") or {}
    return ModelConfig(
        name=name,
        provider=spec["provider"],
        model=spec["model"],
        base_url=spec.get("baseUrl"),
        api_key=spec.get("apiKey"),
        headers=dict(spec.get("headers") or {}),
        capabilities=_capabilities(spec.get("capabilities")),
        limits=_made(Limits, spec.get("limits")),
        prices=_made(Prices, spec.get("prices")),
        timeouts=_made(Timeouts, spec.get("timeouts")),
        retry=_made(RetryPolicy, spec.get("retry")),
        breaker=_made(BreakerPolicy, spec.get("breaker")),
        parameters=_made(Parameters, spec.get("parameters")),
        reasoning=Reasoning(reasoning.get("effort"), reasoning.get("budgetTokens")) if reasoning else None,
        script=_script(spec.get("script")),
        config=dict(spec.get("config") or {}),
        fallbacks=tuple(spec.get("fallbacks") or ()),
    )


_FLAGS: Final = ("streaming", "tools", "parallelTools", "structuredOutput", "reasoning", "systemMessages")
_DEFAULT_ON: Final = frozenset({"streaming", "systemMessages"})


def _capabilities(given: Mapping[str, Any] | None) -> frozenset[str] | None:
    if given is None:
        return None
    flags = [flag for flag in _FLAGS if given.get(flag, flag in _DEFAULT_ON)]
    media = [f"{way}.{medium}" for way in ("input", "output") for medium in given.get(way, ("text",))]
    return frozenset(flags + media)


def _script(given: Mapping[str, Any] | None) -> Script:
    if given is None:
        return Script()
    rules = tuple(
        ScriptRule(
            _made(ScriptMatch, rule.get("match")),
            _made(ScriptReply, rule.get("reply")),
            None if rule.get("fail") is None else _made(ScriptFailure, rule["fail"]),
        )
        for rule in given.get("rules") or ()
    )
    default = given.get("default")
    return Script(rules) if default is None else Script(rules, _made(ScriptReply, default))


V = TypeVar("V")


def _made(cls: type[V], given: Mapping[str, Any] | None) -> V:
    """A value from a JSON object: camelCase to our names, lists to tuples; unknown keys are not ours."""
    known: Mapping[str, Any] = cls.__dataclass_fields__  # type: ignore[attr-defined]  # only dataclasses come here
    values: dict[str, Any] = {}
    for key, value in (given or {}).items():
        name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in key)
        if name in known and value is not None:
            values[name] = tuple(value) if isinstance(value, list) else value
    return cls(**values)
