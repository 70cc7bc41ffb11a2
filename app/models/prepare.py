"""A request made fit for one model: defaults of the model filled in, what it cannot do left out and noted."""

from dataclasses import replace
from typing import Any

from app.core.errors import Failure
from app.core.value import value
from app.models.capabilities import REASONING, STREAMING, STRUCTURED_OUTPUT
from app.models.completion import CompletionRequest, Media, Message, ReasoningLevel, Text, TokenUsage, estimate_tokens
from app.models.config import ModelConfig
from app.models.contract import Estimate, ProviderCall
from app.workspace.specs.model import Prices

# What is reserved for an answer when neither the request nor the model bounds it.
_ASSUMED_OUTPUT = 4_096
_KNOBS = ("max_tokens", "temperature", "top_p", "seed", "presence_penalty", "frequency_penalty")


@value(frozen=True, slots=True)
class Prepared:
    call: ProviderCall
    estimate: Estimate
    notes: tuple[str, ...]


def prepare(
    request: CompletionRequest, config: ModelConfig, capabilities: frozenset[str], *, stream: bool = True
) -> Prepared | Failure:
    """Ready to send, or a refusal because the input cannot fit."""
    notes: list[str] = []
    request = _with_defaults(request, config)
    if request.reasoning is not None and REASONING not in capabilities:
        notes.append(f"reasoning is not supported by {config.name} and was left out")
        request = replace(request, reasoning=None)
    if request.response_schema is not None and STRUCTURED_OUTPUT not in capabilities:
        notes.append(f"{config.name} has no structured output: the schema is only checked afterwards")
        request = replace(request, response_schema=None)
    if unseen := _unseen_media(request, capabilities):
        notes.append(f"{config.name} takes no {', '.join(sorted(unseen))}: what an assistant made of it was left out")
        request = replace(request, messages=tuple(_without_media(message, unseen) for message in request.messages))
    max_tokens = _bounded(request.max_tokens, config.limits.max_output_tokens)
    estimate = _estimate(request, config, max_tokens)
    if refusal := _too_long(estimate, config, max_tokens):
        return refusal
    call = ProviderCall(config, request, max_tokens, stream and STREAMING in capabilities)
    return Prepared(call, estimate, tuple(notes))


def _unseen_media(request: CompletionRequest, capabilities: frozenset[str]) -> set[str]:
    """Kinds of media in earlier answers that this model cannot be shown; another model, or it itself, made them."""
    found: set[str] = set()
    for message in request.messages:
        if message.parts and message.role == "assistant":
            made = {part.kind for part in message.parts if isinstance(part, Media)}
            found.update(kind for kind in made if f"input.{kind}" not in capabilities)
    return found


def _without_media(message: Message, unseen: set[str]) -> Message:
    if message.role != "assistant" or not message.parts:
        return message
    parts = [
        Text(f"[{part.mime}, not shown]") if isinstance(part, Media) and part.kind in unseen else part
        for part in message.parts
    ]
    return replace(message, parts=tuple(parts))


def priced(
    tokens_in: int, tokens_out: int, prices: Prices, reasoning: int | None = None, cached: int | None = None
) -> TokenUsage:
    return TokenUsage(tokens_in, tokens_out, reasoning, cached, _cost(tokens_in, cached or 0, tokens_out, prices))


def _cost(tokens_in: int, cached: int, tokens_out: int, prices: Prices) -> float:
    if not (prices.input or prices.output or prices.cached_input):
        return 0.0
    rate = prices.input if prices.cached_input is None else prices.cached_input
    return round(((tokens_in - cached) * prices.input + cached * rate + tokens_out * prices.output) / 1_000_000, 9)


def _with_defaults(request: CompletionRequest, config: ModelConfig) -> CompletionRequest:
    defaults, reasoning = config.parameters, config.reasoning
    thinks = reasoning.effort is not None or reasoning.budget_tokens is not None
    if not (thinks or defaults.model_fields_set):
        return request
    filled: dict[str, Any] = {
        name: default
        for name in _KNOBS
        if (default := getattr(defaults, name)) is not None and getattr(request, name) is None
    }
    if defaults.stop and not request.stop:
        filled["stop"] = defaults.stop
    if thinks and request.reasoning is None:
        filled["reasoning"] = ReasoningLevel(reasoning.effort, reasoning.budget_tokens)
    # Most models have no defaults, and a copy of a request is not cheap.
    return replace(request, **filled) if filled else request


def _bounded(wanted: int | None, limit: int | None) -> int | None:
    if wanted is None or limit is None:
        return limit if wanted is None else wanted
    return min(wanted, limit)


def _estimate(request: CompletionRequest, config: ModelConfig, max_tokens: int | None) -> Estimate:
    tokens, output = estimate_tokens(request), max_tokens or _ASSUMED_OUTPUT
    return Estimate(config.name, tokens, output, _cost(tokens, 0, output, config.prices))


def input_room(config: ModelConfig, wanted: int | None = None) -> int | None:
    """Tokens an input may come to when so many are wanted for the answer; None when nothing limits it."""
    limits = config.limits
    room = limits.max_input_tokens
    if limits.context_tokens is not None:
        answer = _bounded(config.parameters.max_tokens if wanted is None else wanted, limits.max_output_tokens)
        left = max(0, limits.context_tokens - (answer or 0))
        room = left if room is None else min(room, left)
    return room


def _too_long(estimate: Estimate, config: ModelConfig, max_tokens: int | None) -> Failure | None:
    room = input_room(config, max_tokens)
    if room is None or estimate.input_tokens <= room:
        return None
    detail = {"model": config.name, "estimatedTokens": estimate.input_tokens, "limit": room}
    return Failure("INPUT_TOO_LONG", f"The input is too long for model {config.name!r}.", detail=detail)
