"""How each provider is asked for its list of models: a request that costs nothing and shows whether a key works.

Data only. Leaves to others: sending it (`holdfast check --connect`).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from app.core.value import value


@value(frozen=True, slots=True)
class ModelList:
    default_url: str
    path: str
    headers: Callable[[str | None], Mapping[str, str]]
    names: Callable[[Any], list[str]]


def _bearer(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def _data(answer: Any) -> list[str]:
    return [str(model["id"]) for model in answer["data"]]


def _models(answer: Any) -> list[str]:
    return [str(model["name"]).removeprefix("models/") for model in answer["models"]]


LISTS: Final[Mapping[str, ModelList]] = {
    "openai": ModelList("https://api.openai.com/v1", "/models", _bearer, _data),
    "anthropic": ModelList(
        "https://api.anthropic.com",
        "/v1/models?limit=1000",
        lambda key: {"anthropic-version": "2023-06-01"} | ({} if key is None else {"x-api-key": key}),
        _data,
    ),
    "gemini": ModelList(
        "https://generativelanguage.googleapis.com",
        "/v1beta/models?pageSize=1000",
        lambda key: {} if key is None else {"x-goog-api-key": key},
        _models,
    ),
    "ollama": ModelList("http://localhost:11434", "/api/tags", _bearer, _models),
}
"""By provider; those that have no network, or are brought by somebody else, are not here."""
