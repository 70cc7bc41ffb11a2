"""How the answer is to be sampled, read from the bodies of chat completions and responses; and what cannot be done.

Most requests say nothing of it, and then one look at the body's names is all that it costs. What is not named here has
no effect. Pure: a wrong value raises `Refusal` with the place, never the value. Leaves to the runtime: what the agent
allows; to the models room: what a provider knows.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from app.core.json import JsonObject
from app.protocols.openai.errors import Refusal

Read = Callable[[Any, str], Any]

MAX_STOPS: Final = 4
_MAX_STOP_LENGTH: Final = 1000
EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_LOGPROBS: Final = "message.output_text.logprobs"


def chat_parameters(body: JsonObject) -> JsonObject | None:
    if _CHAT_NAMES.isdisjoint(body):
        return None
    _refuse(body, _CHAT_REFUSED)
    return _read(body, _CHAT) or None


def response_parameters(body: JsonObject) -> JsonObject | None:
    if _RESPONSE_NAMES.isdisjoint(body):
        return None
    _refuse(body, _RESPONSE_REFUSED)
    made = _read(body, _RESPONSES)
    if (reasoning := body.get("reasoning")) is not None:
        if not isinstance(reasoning, dict):
            raise Refusal("INVALID_REQUEST", "reasoning must be an object", param="reasoning")
        if (effort := reasoning.get("effort")) is not None:
            made["effort"] = _effort(effort, "reasoning.effort")
    return made or None


def _read(body: JsonObject, readers: Mapping[str, tuple[str, Read]]) -> JsonObject:
    """In the order of the readers: where two names mean the same, the later one wins."""
    found = ((name, ours, read) for name, (ours, read) in readers.items() if body.get(name) is not None)
    return {ours: read(body[name], name) for name, ours, read in found}


def _refuse(body: JsonObject, refused: Mapping[str, tuple[Callable[[Any], bool], str]]) -> None:
    for name, (harmless, message) in refused.items():
        if (value := body.get(name)) is not None and not harmless(value):
            raise Refusal("INVALID_REQUEST", message, param=name)


# -- values -------------------------------------------------------------------------------------------


def _number(least: float, most: float) -> Read:
    def read(value: Any, param: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise Refusal("INVALID_REQUEST", f"{param} must be a number from {least:g} to {most:g}", param=param)
        return value

    return read


def _whole(least: int, most: int, means: str) -> Read:
    def read(value: Any, param: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise Refusal("INVALID_REQUEST", f"{param} must be {means}", param=param)
        return value

    return read


def _flag(value: Any, param: str) -> bool:
    if not isinstance(value, bool):
        raise Refusal("INVALID_REQUEST", f"{param} must be true or false", param=param)
    return value


def _stops(value: Any, param: str) -> list[str]:
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or len(stops) > MAX_STOPS or not all(_is_stop(stop) for stop in stops):
        raise Refusal("INVALID_REQUEST", f"stop must be a text or at most {MAX_STOPS} of them", param=param)
    return stops


def _is_stop(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_STOP_LENGTH


def _effort(value: Any, param: str) -> str:
    if value not in EFFORTS:
        raise Refusal("INVALID_REQUEST", f"{param} must be one of {', '.join(EFFORTS)}", param=param)
    effort: str = value
    return effort


_TOKENS: Final = _whole(1, 2**31 - 1, "a whole number of at least 1")
_BOTH: Final[Mapping[str, tuple[str, Read]]] = {
    "temperature": ("temperature", _number(0, 2)),
    "top_p": ("topP", _number(0, 1)),
    "parallel_tool_calls": ("parallelTools", _flag),
}
_CHAT: Final[Mapping[str, tuple[str, Read]]] = {
    **_BOTH,
    "max_tokens": ("maxTokens", _TOKENS),
    "max_completion_tokens": ("maxTokens", _TOKENS),
    "stop": ("stop", _stops),
    "seed": ("seed", _whole(-(2**63), 2**63 - 1, "a whole number of 64 bits")),
    "presence_penalty": ("presencePenalty", _number(-2, 2)),
    "frequency_penalty": ("frequencyPenalty", _number(-2, 2)),
    "reasoning_effort": ("effort", _effort),
}
_RESPONSES: Final[Mapping[str, tuple[str, Read]]] = {**_BOTH, "max_output_tokens": ("maxTokens", _TOKENS)}


# -- what cannot be done ------------------------------------------------------------------------------


def _never(value: Any) -> bool:
    return False


def _one_of(*harmless: Any) -> Callable[[Any], bool]:
    return lambda value: value in harmless


def _is_empty(value: Any) -> bool:
    return not value


def _without_logprobs(value: Any) -> bool:
    return isinstance(value, list) and _LOGPROBS not in value


_NO_LOGPROBS: Final = "probabilities of tokens are not kept"
_NO_SOUND: Final = "an agent answers with text"
_NO_MODERATION: Final = "what is said is checked by the workspace's own guardrails"
_CHAT_REFUSED: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "n": (_one_of(1), "an agent gives one answer"),
    "logprobs": (_one_of(False), _NO_LOGPROBS),
    "top_logprobs": (_one_of(0), _NO_LOGPROBS),
    "logit_bias": (_is_empty, "single tokens cannot be made more or less likely"),
    "audio": (_never, _NO_SOUND),
    "modalities": (_one_of(["text"]), _NO_SOUND),
    "functions": (_is_empty, "functions are old: send tools"),
    "function_call": (_one_of("auto", "none"), "functions are old: send tools and tool_choice"),
    "web_search_options": (_never, "the agent has tools of its own"),
    "moderation": (_never, _NO_MODERATION),
}
_RESPONSE_REFUSED: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "top_logprobs": (_one_of(0), _NO_LOGPROBS),
    "include": (_without_logprobs, f"include must be a list; {_NO_LOGPROBS}"),
    "prompt": (_never, "the agent has instructions of its own: send input"),
    "max_tool_calls": (_never, "how many calls a run may make is said by its agent's limits"),
    "moderation": (_never, _NO_MODERATION),
}
_CHAT_NAMES: Final = frozenset({*_CHAT, *_CHAT_REFUSED})
_RESPONSE_NAMES: Final = frozenset({*_RESPONSES, *_RESPONSE_REFUSED, "reasoning"})
