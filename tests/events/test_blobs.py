"""Large values come back at any depth, and what is no reference of ours stays what it is."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import pytest

from app.core import json
from app.events import blobs
from app.events.blobs import restored


class Blobs:
    def __init__(self) -> None:
        self.stored: dict[str, bytes] = {}
        self.loads = 0

    def put(self, value: Any) -> dict[str, Any]:
        data = value.encode() if isinstance(value, str) else json.canonical(value)
        digest = sha256(data).hexdigest()
        self.stored[digest] = data
        mime = "text/plain; charset=utf-8" if isinstance(value, str) else "application/json"
        return {"$blob": {"sha256": digest, "size": len(data), "mime": mime}}

    async def load(self, reference: Mapping[str, Any]) -> bytes | None:
        self.loads += 1
        return self.stored.get(reference["sha256"])


async def test_a_value_within_a_value_within_a_value_comes_back() -> None:
    kept = Blobs()
    inner = kept.put({"text": kept.put("deep"), "list": [kept.put([1, 2])]})
    assert await restored({"a": [inner, 3]}, kept.load) == {"a": [{"text": "deep", "list": [[1, 2]]}, 3]}


@pytest.mark.parametrize(
    "value",
    [
        {"$blob": {"sha256": "gone", "size": 1, "mime": "text/plain"}},
        {"$blob": "a client's own"},
        {"$blob": {"sha256": 5}},
        {"$blob": {"sha256": "without a type"}},
    ],
)
async def test_what_is_gone_or_no_reference_stays_as_it_is(value: Any) -> None:
    assert await restored({"value": value}, Blobs().load) == {"value": value}


async def test_an_excerpt_that_names_its_blob_stays_an_excerpt() -> None:
    kept = Blobs()
    excerpt = {"excerpt": "d", "truncated": True, **kept.put("deep")}
    assert await restored(excerpt, kept.load) == excerpt


async def test_references_that_multiply_end_at_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "MAX_RESTORED_BYTES", 10_000)
    kept = Blobs()
    value = kept.put("x" * 100)
    for _ in range(6):
        value = kept.put([value] * 10)
    await restored(value, kept.load)
    assert kept.loads < 1000
