"""What every kind of memory keeps to, over real records: found in their namespace, once, until they are forgotten."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from app.core.clock import ManualClock
from app.core.settings import Settings
from app.memory.contract import IndexEntry, MemoryCandidate, RecordIndex, RecordQuery, RunIdentity
from app.memory.service import MemoryService
from app.policy.redaction import CurrentRedaction
from app.views.memory_record import MemoryRecord
from app.wiring import kinds
from app.wiring.kinds import memories
from app.wiring.memory import open_memory
from app.wiring.store import open_store
from app.workspace.compiled import CompiledMemory
from app.workspace.specs.others import MemorySpec
from tests.memory.scripted_embeddings import ScriptedEmbeddings
from tests.server import ROOT

OF_A_PACKAGE = EntryPoint("shared_words", "tests.memory.shared_words_kind:KIND", "holdfast.memories")
KINDS = [*sorted(memories()), OF_A_PACKAGE.name]
TEXTS = ("The green door leads to the garden.", "The blue door leads to the cellar.", "Tea is served at five.")


@dataclass
class Room:
    service: MemoryService
    memory: CompiledMemory
    clock: ManualClock

    @property
    def index(self) -> RecordIndex:
        return self.service.index_of(self.memory, "acme")

    async def stored(self, user: str = "lena", tenant: str = "acme") -> list[MemoryRecord]:
        who = RunIdentity(tenant, "clerk", user, "t", None, f"user:{user}")
        offered = [MemoryCandidate(text, "semantic", "user", 0.9) for text in TEXTS]
        learned = await self.service.submit(who, self.memory, offered, f"{tenant} {user}")
        assert learned.failure is None
        found = [await self.service.table.record(tenant, one.record_id or "") for one in learned.submitted]
        return [record for record in found if record is not None]

    async def found(self, text: str, namespace: str = "acme/clerk/lena", tenant: str = "acme") -> list[str]:
        query = RecordQuery(tenant, namespace, text, 2, self.clock.now_ms())
        hits = await self.index.search(query)
        assert all(0 <= hit.score <= 1 for hit in hits)
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        contents = await self.service.recollection.contents(tenant, [hit.record for hit in hits])
        return [contents[hit.record.id]["text"] for hit in hits]


@pytest.fixture(params=KINDS)
async def room(
    settings: Settings, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Room]:
    monkeypatch.setattr(kinds, "installed_points", lambda: EntryPoints([OF_A_PACKAGE]))
    memories.cache_clear()
    async with open_store(settings) as store:
        clock = ManualClock()
        service = open_memory(store, clock, CurrentRedaction(), ScriptedEmbeddings)
        embedding = "words" if request.param == "vector" else None
        memory = CompiledMemory("facts", "", {}, MemorySpec(kind=request.param, embedding=embedding))
        yield Room(service, memory, clock)
    memories.cache_clear()


async def test_the_best_record_is_found_first_and_only_so_many(room: Room) -> None:
    await room.stored()
    found = await room.found("Where does the green door lead?")
    assert found[0] == TEXTS[0] and len(found) <= 2
    assert (await room.found("tea at five"))[0] == TEXTS[2]


@pytest.mark.requirement("S23")
async def test_records_are_found_in_their_own_namespace_and_tenant_only(room: Room) -> None:
    await room.stored()
    await room.stored("olaf")
    await room.stored("lena", "other")
    assert len(await room.found("door")) == 2
    for namespace, tenant in (("acme/clerk", "acme"), ("acme/clerk/nora", "acme"), ("acme/clerk/lena", "other")):
        assert await room.found("door", namespace, tenant) == []


async def test_putting_again_changes_nothing_and_what_was_trimmed_is_not_found(room: Room) -> None:
    records = await room.stored()
    entries = [IndexEntry(record, text) for record, text in zip(records, TEXTS, strict=True)]
    before = await room.found("the door")
    for _ in range(2):
        await room.index.put("acme", entries)
    assert await room.found("the door") == before
    await room.service.forget("acme", records[:1], reason="test", by="user:lena")
    await room.index.trim("acme", records[:1])
    await room.index.trim("acme", records[:1])
    assert TEXTS[0] not in await room.found("green door garden")
    await room.index.put("acme", entries)
    assert TEXTS[0] not in await room.found("green door garden")


async def test_a_query_without_words_and_an_empty_namespace_find_nothing(room: Room) -> None:
    assert await room.found("door") == []
    await room.stored()
    assert await room.found("?!") in ([], [TEXTS[2]], list(TEXTS[:2]), [TEXTS[1], TEXTS[2]])


async def test_an_expired_record_is_not_found(room: Room) -> None:
    spec = room.memory.spec.model_copy(update={"retention_days": 1})
    room.memory = CompiledMemory("facts", "", {}, spec)
    await room.stored()
    assert await room.found("door")
    room.clock.advance(2 * 86_400)
    assert await room.found("door") == []


def test_the_documentation_has_the_kind_that_is_tested_here() -> None:
    code = (ROOT / "tests" / "memory" / "shared_words_kind.py").read_text(encoding="utf-8").split('"""\n\n', 1)[1]
    assert code in (ROOT / "docs" / "memory.md").read_text(encoding="utf-8")
