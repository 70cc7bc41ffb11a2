"""/v1/embeddings: vectors of texts by an exposed Model, in OpenAI's shape.

Leaves to the desk: budgets, redaction and the log.
"""

import struct
from base64 import b64encode
from typing import Any, Final, Literal

from fastapi import APIRouter, Request, Response

from app.core import json
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.value import value
from app.models.embeddings import MAX_DIMENSIONS
from app.protocols.context import ServerContext
from app.protocols.http.body import off_loop, parsed, read_body
from app.protocols.http.caller import Caller
from app.protocols.http.errors import STATUS
from app.protocols.http.straight import straight
from app.protocols.openai.client_request import refuse_upstreams
from app.protocols.openai.errors import Refusal, answer
from app.runtime.intake.embedding_desk import MAX_TEXT

MAX_TEXTS: Final = 2_048
"""Of one request, as OpenAI has it."""
MAX_CHARACTERS: Final = 1_000_000
"""Of all texts of one request: at most about 300,000 tokens."""
_MAX_BODY: Final = 8 * 1024 * 1024
_PROVIDER: Final = "PROVIDER_"

Encoding = Literal["float", "base64"]


@value(frozen=True, slots=True)
class EmbeddingRequest:
    model: str
    texts: list[str]
    encoding: Encoding = "float"
    dimensions: int | None = None


def add_to(router: APIRouter, server: ServerContext) -> None:
    @router.post("/embeddings", summary="Embeddings by an exposed model", openapi_extra=_BODY, responses=_ANSWER)
    @straight
    async def embed(request: Request, caller: Caller) -> Response:
        raw = await read_body(request, _MAX_BODY)
        asked = await off_loop(len(raw), lambda: read_request(parsed(raw)))
        made = await server.embeddings.embed(caller, asked.model, asked.texts, asked.dimensions)
        if isinstance(made, Failure):
            return answer(made, status=_status(made))
        size = sum(map(len, made.vectors))
        usage = {"prompt_tokens": made.usage.input_tokens, "total_tokens": made.usage.input_tokens}
        body = await off_loop(size, lambda: _answer(asked, made.vectors, usage))
        return Response(body, 200, None, "application/json")


def read_request(body: Any) -> EmbeddingRequest:
    """Pure: a wrong value raises `Refusal` with the place, never the value."""
    if not isinstance(body, dict):
        raise Refusal("INVALID_REQUEST", "The body must be an object.")
    refuse_upstreams(body)
    model = body.get("model")
    if not isinstance(model, str) or not 0 < len(model) <= 200:
        raise Refusal("INVALID_REQUEST", "model must be a text", param="model")
    encodings: dict[Any, Encoding] = {None: "float", "float": "float", "base64": "base64"}
    encoding, dimensions = body.get("encoding_format"), body.get("dimensions")
    if not isinstance(encoding, str | None) or encoding not in encodings:
        raise Refusal("INVALID_REQUEST", "encoding_format must be float or base64", param="encoding_format")
    if dimensions is not None and (
        isinstance(dimensions, bool) or not isinstance(dimensions, int) or not 1 <= dimensions <= MAX_DIMENSIONS
    ):
        message = f"dimensions must be a whole number from 1 to {MAX_DIMENSIONS}"
        raise Refusal("INVALID_REQUEST", message, param="dimensions")
    return EmbeddingRequest(model, _texts(body), encodings[encoding], dimensions)


def _texts(body: JsonObject) -> list[str]:
    given = body.get("input")
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not 1 <= len(texts) <= MAX_TEXTS:
        raise Refusal("INVALID_REQUEST", f"input must be a text or 1 to {MAX_TEXTS} texts", param="input")
    if any(isinstance(text, int | list) for text in texts):
        message = (
            "input must be texts: this server has no tokens of models (LangChain: check_embedding_ctx_length=False)"
        )
        raise Refusal("INVALID_REQUEST", message, param="input")
    if not all(isinstance(text, str) and text for text in texts):
        raise Refusal("INVALID_REQUEST", "each text of input must have at least one character", param="input")
    longest, total = max(map(len, texts)), sum(map(len, texts))
    if longest > MAX_TEXT or total > MAX_CHARACTERS:
        message = f"a text has at most {MAX_TEXT} characters, and all of a request at most {MAX_CHARACTERS}"
        raise Refusal("INPUT_TOO_LONG", message, param="input")
    return texts


def _status(failure: Failure) -> int | None:
    if failure.code == "MODEL_NOT_FOUND":
        return 404
    if failure.code == "BUDGET_EXCEEDED":
        return 429
    if failure.code == "MODEL_QUEUE_FULL":
        return 503
    return 502 if failure.code.startswith(_PROVIDER) else STATUS.get(failure.code, 400)


def _answer(asked: EmbeddingRequest, vectors: list[bytes], usage: JsonObject) -> bytes:
    data = [
        {"object": "embedding", "index": place, "embedding": _encoded(vector, asked.encoding)}
        for place, vector in enumerate(vectors)
    ]
    return json.dumps({"object": "list", "data": data, "model": asked.model, "usage": usage})


def _encoded(vector: bytes, encoding: Encoding) -> str | list[float]:
    """float32, little-endian, as the clients read it."""
    if encoding == "base64":
        return b64encode(vector).decode()
    return list(struct.unpack(f"<{len(vector) // 4}f", vector))


_TEXT: Final = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT}
_BODY: Final = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["model", "input"],
                    "properties": {
                        "model": {"type": "string"},
                        "input": {
                            "oneOf": [_TEXT, {"type": "array", "minItems": 1, "maxItems": MAX_TEXTS, "items": _TEXT}]
                        },
                        "encoding_format": {"enum": ["float", "base64"]},
                        "dimensions": {"type": "integer", "minimum": 1, "maximum": MAX_DIMENSIONS},
                        "user": {"type": "string"},
                    },
                }
            }
        },
    }
}
_ANSWER: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "One embedding per text, in order.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    },
}
