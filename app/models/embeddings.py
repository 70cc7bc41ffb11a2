"""Embeddings: texts to vectors, by a Model of the workspace. In batches, with retries, within a budget, cached by
content.

The port of the models room for memory. A vector is float32, little-endian, of length one, so that a dot product is the
cosine. Leaves to others: what is embedded and where vectors are kept (memory).
"""

import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote, urlsplit

from cachetools import LRUCache

from app.core import json
from app.core.errors import Failure
from app.core.value import value
from app.models.call_places import CallPlaces
from app.models.completion import TokenUsage
from app.models.config import ModelConfig
from app.models.contract import Budget, Estimate, ProviderDeps
from app.models.limits import Limiter
from app.models.prepare import priced
from app.models.transport import status_failure
from app.outside.addresses import AddressPolicy, normal_host
from app.outside.http import Deadlines, OutgoingRequest, OutsideError

BATCH: Final = 64
"""Texts of one request; every provider takes as many."""
MAX_BATCH_CHARACTERS: Final = 60_000
MAX_TEXT: Final = 8_000
ATTEMPTS: Final = 3
FIRST_PAUSE: Final = 0.5  # seconds, then twice as long each time
TOTAL_SECONDS: Final = 30.0
MAX_ANSWER: Final = 32 * 1024 * 1024
MAX_DIMENSIONS: Final = 8_192
CACHED: Final = 4_096
MAX_TOKENS: Final = 10_000_000
"""Of one request: a provider that says more is not believed."""
_SCRIPTED_DIMENSIONS: Final = 256
_WORD: Final = re.compile(r"\w+")
_NOTHING: Final = TokenUsage()


@value(frozen=True, slots=True)
class EmbeddingDialect:
    """How one kind of provider is asked for embeddings, and how it answers."""

    default_url: str
    path: Callable[[str], str]
    headers: Callable[[str | None], Mapping[str, str]]
    body: Callable[[str, Sequence[str]], dict[str, Any]]
    vectors: Callable[[Any], list[list[float]]]
    tokens: Callable[[Any], Any] = lambda _document: None
    """How many the provider counted, where it says so."""


def _bearer(key: str | None) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def _openai_vectors(document: Any) -> list[list[float]]:
    return [item["embedding"] for item in sorted(document["data"], key=lambda item: item["index"])]


DIALECTS: Final[Mapping[str, EmbeddingDialect]] = {
    "openai": EmbeddingDialect(
        "https://api.openai.com/v1",
        lambda _model: "/embeddings",
        _bearer,
        lambda model, texts: {"model": model, "input": list(texts), "encoding_format": "float"},
        _openai_vectors,
        lambda document: document["usage"]["prompt_tokens"],
    ),
    "gemini": EmbeddingDialect(
        "https://generativelanguage.googleapis.com/v1beta",
        lambda model: f"/models/{quote(model, safe='')}:batchEmbedContents",
        lambda key: {"x-goog-api-key": key} if key else {},
        lambda model, texts: {
            "requests": [{"model": f"models/{model}", "content": {"parts": [{"text": text}]}} for text in texts]
        },
        lambda document: [item["values"] for item in document["embeddings"]],
        lambda document: document["usageMetadata"]["promptTokenCount"],
    ),
    "ollama": EmbeddingDialect(
        "http://127.0.0.1:11434",
        lambda _model: "/api/embed",
        _bearer,
        lambda model, texts: {"model": model, "input": list(texts)},
        lambda document: document["embeddings"],
        lambda document: document["prompt_eval_count"],
    ),
}
"""By provider. `scripted` needs no server."""


@value(frozen=True, slots=True)
class Embedded:
    """One vector per text, in order, and what making them has used. With a failure there are no vectors, but earlier
    requests may have been made."""

    vectors: list[bytes] = field(default_factory=list)
    usage: TokenUsage = _NOTHING
    texts: int = 0
    """Those that the provider was asked for; the others were known."""
    requests: int = 0
    failure: Failure | None = None


def embedding_identity(config: ModelConfig) -> str:
    """The same as long as vectors can be compared: of the same model, from the same server, with the same options."""
    whole = (config.provider, config.base_url or "", config.model, json.canonical(config.extra_body).decode())
    return sha256("\x00".join(whole).encode()).hexdigest()[:24]


class Embedder:
    def __init__(self, deps: ProviderDeps, places: CallPlaces | None = None) -> None:
        self._deps, self._places = deps, places or CallPlaces(Limiter(deps.clock))
        self._cache: LRUCache[tuple[str, str], bytes] = LRUCache(CACHED)

    async def embed(
        self,
        config: ModelConfig,
        texts: Sequence[str],
        budget: Budget | None = None,
        tenant: str = "",
        longest: int = MAX_TEXT,
    ) -> Embedded:
        """What was embedded lately is not asked for again. Each request is reserved in the budget before it is made and
        waits for its place within the Model's limits, where tenants take turns; of several requests, those that were
        made stay counted and known when a later one fails. Of a text, `longest` characters count."""
        if config.provider == "scripted":
            return Embedded([scripted_vector(text) for text in texts])
        dialect = DIALECTS.get(config.provider)
        if dialect is None:
            message = f"The provider {config.provider!r} makes no embeddings."
            return Embedded(failure=Failure("EMBEDDING_NOT_AVAILABLE", message))
        whole = embedding_identity(config)
        texts = [text[:longest] for text in texts]
        keys = [(whole, sha256(text.encode("utf-8", "surrogatepass")).hexdigest()) for text in texts]
        known = {key: self._cache[key] for key in keys if key in self._cache}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        used, texts_asked, requests = _NOTHING, 0, 0
        for batch in _batches(list(missing.items())):
            made = await self._within(budget, tenant, config, dialect, [text for _, text in batch])
            if isinstance(made, Failure):
                return Embedded([], used, texts_asked, requests, made)
            vectors, usage = made
            fresh = {key: vector for (key, _), vector in zip(batch, vectors, strict=True)}
            known |= fresh
            self._cache.update(fresh)
            used, texts_asked, requests = _sum(used, usage), texts_asked + len(batch), requests + 1
        return Embedded([known[key] for key in keys], used, texts_asked, requests)

    async def _within(
        self, budget: Budget | None, tenant: str, config: ModelConfig, dialect: EmbeddingDialect, texts: Sequence[str]
    ) -> tuple[list[bytes], TokenUsage] | Failure:
        estimated = priced(sum(map(_estimated_tokens, texts)), 0, config.prices)
        if budget is None:
            return await self._asked(tenant, config, dialect, texts, estimated)
        estimate = Estimate(config.name, estimated.input_tokens, 0, estimated.cost_usd or 0.0, calls=0)
        reservation = await budget.reserve(estimate)
        if isinstance(reservation, Failure):
            return reservation
        used = _NOTHING
        try:
            made = await self._asked(tenant, config, dialect, texts, estimated)
            if not isinstance(made, Failure):
                used = made[1]
            return made
        finally:
            await budget.settle(reservation, used)

    async def _asked(
        self, tenant: str, config: ModelConfig, dialect: EmbeddingDialect, texts: Sequence[str], estimated: TokenUsage
    ) -> tuple[list[bytes], TokenUsage] | Failure:
        pause = FIRST_PAUSE
        for attempt in range(1, ATTEMPTS + 1):
            answer = await self._placed(tenant, config, dialect, texts, estimated)
            if not isinstance(answer, Failure) or not answer.retryable or attempt == ATTEMPTS:
                return answer
            await self._deps.sleep(pause)
            pause *= 2
        raise AssertionError("the last attempt returns")

    async def _placed(
        self, tenant: str, config: ModelConfig, dialect: EmbeddingDialect, texts: Sequence[str], estimated: TokenUsage
    ) -> tuple[list[bytes], TokenUsage] | Failure:
        place = await self._places.acquire(config, tenant, estimated.input_tokens)
        if isinstance(place, Failure):
            return replace(place, retryable=False)  # it has waited long enough
        used = 0
        try:
            answer = await self._ask(config, dialect, texts, estimated)
            used = 0 if isinstance(answer, Failure) else answer[1].input_tokens
            return answer
        finally:
            place.release(used)

    async def _ask(
        self, config: ModelConfig, dialect: EmbeddingDialect, texts: Sequence[str], estimated: TokenUsage
    ) -> tuple[list[bytes], TokenUsage] | Failure:
        reference = config.api_key
        key = None if reference is None else self._deps.secrets(reference)
        if reference is not None and not key:
            return Failure("PROVIDER_KEY_MISSING", f"The key of model {config.name!r} is not set.")
        base = (self._resolved(config.base_url) or dialect.default_url).rstrip("/")
        host = normal_host(urlsplit(base).hostname or "")
        policy = AddressPolicy(private=frozenset({host}), only=frozenset({host}), proxied=True)
        headers = {"Content-Type": "application/json", **dialect.headers(key)}
        headers |= {name: self._resolved(value) or "" for name, value in config.headers.items()}
        outgoing = OutgoingRequest(
            "POST",
            base + dialect.path(config.model),
            headers,
            json.dumps({**config.extra_body, **dialect.body(config.model, texts)}),
            policy,
            Deadlines(config.timeouts.connect_seconds, TOTAL_SECONDS, TOTAL_SECONDS),
            MAX_ANSWER,
        )
        try:
            async with await self._deps.client.send(outgoing) as reply:
                body = await reply.read()
        except OutsideError as error:
            return Failure(
                "PROVIDER_UNREACHABLE", "The embedding server could not be reached.", error.failure.retryable
            )
        if reply.status != 200:
            return status_failure(reply.status, "the embedding server refused the request")
        document: Any = None
        try:
            document = json.loads(body)
            vectors = [packed(vector) for vector in dialect.vectors(document)]
        except (KeyError, TypeError, ValueError, json.JsonError, OverflowError, struct.error):
            vectors = []
        if len(vectors) != len(texts) or len({len(vector) for vector in vectors}) != 1:
            return Failure("PROVIDER_MALFORMED", "The embedding server did not answer with one vector per text.")
        return vectors, _counted(dialect, document, config, estimated)

    def _resolved(self, text: str | None) -> str | None:
        return self._deps.secrets(text) if text is not None and "${" in text else text


def _counted(dialect: EmbeddingDialect, document: Any, config: ModelConfig, estimated: TokenUsage) -> TokenUsage:
    """As the provider says, or as estimated where it says nothing sensible."""
    try:
        tokens = dialect.tokens(document)
    except (KeyError, TypeError):
        return estimated
    if isinstance(tokens, bool) or not isinstance(tokens, int) or not 0 <= tokens <= MAX_TOKENS:
        return estimated
    return priced(tokens, 0, config.prices)


def _sum(one: TokenUsage, other: TokenUsage) -> TokenUsage:
    cost = round((one.cost_usd or 0.0) + (other.cost_usd or 0.0), 9)
    return TokenUsage(one.input_tokens + other.input_tokens, cost_usd=cost)


def _estimated_tokens(text: str) -> int:
    """The most it may be, roughly: a byte of another script is a fraction of a token, a letter of English a quarter."""
    return len(text.encode("utf-8", "surrogatepass")) // 3 + 1


def _batches(items: list[Any]) -> list[list[Any]]:
    made: list[list[Any]] = []
    size = 0
    for item in items:
        length = len(item[1])
        if not made or len(made[-1]) == BATCH or size + length > MAX_BATCH_CHARACTERS:
            made.append([])
            size = 0
        made[-1].append(item)
        size += length
    return made


def packed(values: Sequence[float]) -> bytes:
    """Of length one. A vector without a direction, or with a number that is none, is refused."""
    if not 1 <= len(values) <= MAX_DIMENSIONS:
        raise ValueError("a vector has too few or too many dimensions")
    length = math.sqrt(math.fsum(value * value for value in values))
    if not math.isfinite(length) or length == 0:
        raise ValueError("a vector has no direction")
    return struct.pack(f"<{len(values)}f", *(value / length for value in values))


def scripted_vector(text: str) -> bytes:
    """For trying out and for tests, without any server: words and their parts by their hashes."""
    values = [0.0] * _SCRIPTED_DIMENSIONS
    for word in _WORD.findall(text.casefold()):
        for piece in {word, *(word[start : start + 4] for start in range(max(1, len(word) - 3)))}:
            digest = sha256(piece.encode("utf-8", "surrogatepass")).digest()
            values[digest[0]] += 1.0 if digest[1] & 1 else -1.0
    if not any(values):
        values[0] = 1.0
    return packed(values)
