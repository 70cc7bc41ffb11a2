"""Tenants and users are apart, whatever they are called and whatever they search for: nothing crosses."""

import random

import pytest

from app.core.clock import ManualClock
from app.core.settings import Settings
from app.memory.contract import MemoryCandidate, RecordFilter, RecordQuery, RunIdentity
from app.policy.redaction import CurrentRedaction
from app.wiring.memory import open_memory
from app.wiring.store import open_store
from app.workspace.compiled import CompiledMemory
from app.workspace.namespaces import filled
from app.workspace.specs.others import MemorySpec
from tests.store_equals_replay import assert_tables_equal_replay

TENANTS = ("acme", "acme2", "ac", "other")
USERS = ("lena", "lena/x", "lena%2Fx", "x", "../lena", "-", "LENA", "лена", "acme/clerk/lena", "a" * 300)
AGENTS = ("clerk", "clerk/lena")
TEMPLATES = (None, "{tenant}/{user}", "{agent}/{user}", "{tenant}/shared", "{user}/{agent}/{memory}", "fixed")
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]


@pytest.mark.requirement("S23")
async def test_no_search_or_list_gives_a_record_of_another_namespace_or_tenant(settings: Settings) -> None:
    chance = random.Random(20_261_117)
    owner: dict[str, tuple[str, str]] = {}
    async with open_store(settings) as store:
        clock = ManualClock()
        service = open_memory(store, clock, CurrentRedaction())
        places: set[tuple[str, str]] = set()
        for number in range(60):
            memory = CompiledMemory(
                f"m{number % 3}", "", {}, MemorySpec.model_validate({"namespace": chance.choice(TEMPLATES)})
            )
            tenant, agent, user = chance.choice(TENANTS), chance.choice(AGENTS), chance.choice(USERS)
            who = RunIdentity(tenant, agent, user, "t", None, f"user:{user}")
            place = filled(memory.spec.namespace, memory.spec.type, who.values(memory.name))
            assert place.startswith(f"{tenant}/")
            texts = [" ".join(chance.choices(WORDS, k=3)) + f" number{number}x{n}" for n in range(3)]
            offered = [MemoryCandidate(text, "semantic", "user", 0.9) for text in texts]
            for one in (await service.submit(who, memory, offered, str(number))).submitted:
                assert one.record_id is not None and one.namespace == place
                owner[one.record_id] = (tenant, place)
            places.add((tenant, place))
        plain = CompiledMemory("m", "", {}, MemorySpec())
        for _ in range(300):
            tenant, place = chance.choice(sorted(places))
            asked = chance.choice(TENANTS)
            query = RecordQuery(asked, place, " ".join(chance.choices(WORDS, k=2)), 50, clock.now_ms())
            hits = await service.index_of(plain, asked).search(query)
            assert {owner[hit.record.id] for hit in hits} <= {(asked, place)}
            assert asked == tenant or not hits
        for tenant in TENANTS:
            listed = await service.table.records(tenant, RecordFilter(), 0, 1000)
            assert {record.id for record in listed} == {id_ for id_, of in owner.items() if of[0] == tenant}
            victim = listed[0]
            assert [await service.table.record(other, victim.id) for other in TENANTS if other != tenant] == [None] * 3
        await assert_tables_equal_replay(store)
