"""Terms in every script, and one order on both databases."""
# ruff: noqa: RUF001  # letters of other scripts look like Latin ones

import asyncio
import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from app.core.clock import ManualClock
from app.core.settings import Settings
from app.memory.contract import MemoryCandidate, RecordFilter, RecordQuery, RunIdentity
from app.memory.kinds.store import LexicalIndex
from app.memory.ranking import Ranked, Relevance, ceiling, freshness, ordered
from app.memory.terms import MAX_TERMS, fingerprint, terms
from app.policy.redaction import CurrentRedaction
from app.views.memory_record import MemoryRecord
from app.wiring.memory import open_memory
from app.wiring.store import open_store
from app.workspace.compiled import CompiledMemory
from app.workspace.namespaces import filled, segment, template_problem
from app.workspace.specs.others import MemorySpec

WORDS = {
    "latin": ["the", "green", "garden", "door", "opens", "slowly", "when", "winter", "wind", "turns", "old", "stones"],
    "german": ["der", "Gärtner", "öffnet", "das", "Tor", "über", "den", "Fluß", "mit", "größter", "Vorsicht"],
    "cyrillic": ["старый", "дом", "стоит", "у", "реки", "где", "зимой", "дует", "холодный", "ветер"],
    "greek": ["ο", "παλιός", "κήπος", "ανοίγει", "την", "πόρτα", "όταν", "ο", "άνεμος", "φυσά"],
    "arabic": ["الباب", "الأخضر", "يفتح", "ببطء", "عندما", "تهب", "رياح", "الشتاء", "القديمة"],
    "hebrew": ["הדלת", "הירוקה", "נפתחת", "לאט", "כאשר", "רוח", "החורף", "נושבת"],
    "devanagari": ["हरा", "दरवाज़ा", "धीरे", "खुलता", "है", "जब", "सर्दी", "की", "हवा", "चलती", "है"],
    "chinese": ["绿色", "花园", "大门", "慢慢", "打开", "冬天", "寒风", "吹过", "石头"],
    "japanese": ["緑の", "ドアが", "ゆっくり", "開く", "とき", "冬の", "風が", "古い", "石を"],
    "korean": ["초록색", "문이", "천천히", "열리면", "겨울", "바람이", "오래된", "돌을"],
    "georgian": ["ძველი", "სახლი", "დგას", "მდინარესთან", "სადაც", "ზამთარში", "ქრის", "ცივი", "ქარი"],
    "amharic": ["አሮጌው", "ቤት", "በወንዙ", "አጠገብ", "ይገኛል", "በክረምት", "ቀዝቃዛ", "ነፋስ"],
    "tamil": ["பழைய", "வீடு", "ஆற்றின்", "அருகே", "உள்ளது", "குளிர்", "காற்று", "வீசும்"],
    "thai": ["ประตู", "สีเขียว", "เปิด", "ช้าๆ", "เมื่อ", "ลม", "หนาว", "พัด", "ผ่าน", "หิน"],
}


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("ＦＵＬＬ width", "full"),
        ("Straße nach Köln", "STRASSE"),
        ("我喜欢红色的苹果", "红色"),
        ("私は犬が好きです", "犬"),
        ("그는 서울에서 산다", "서울"),
        ("ฉันชอบกินข้าว", "ข้าว"),
        ("Don't stop", "dont"),
        ("ﬁne print", "fine"),
    ],
)
def test_a_word_is_found_in_its_script(text: str, query: str) -> None:
    assert set(terms(query)) & set(terms(text))


@hypothesis_settings(max_examples=100, deadline=None)
@given(st.text(max_size=500))
def test_every_text_has_bounded_terms_and_folding_changes_nothing_twice(text: str) -> None:
    found = terms(text)
    assert len(found) <= MAX_TERMS and all(term and count > 0 for term, count in found.items())
    assert not text.isascii() or fingerprint(text) == fingerprint(f"  {text.upper()}! ")


NAMES = st.text(min_size=1, max_size=40)


@hypothesis_settings(max_examples=300, deadline=None)
@given(st.tuples(NAMES, NAMES, NAMES), st.tuples(NAMES, NAMES, NAMES))
def test_two_owners_never_share_a_namespace(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    def made(tenant: str, agent: str, user: str) -> str:
        values = {"tenant": tenant, "agent": agent, "user": user, "thread": "t", "memory": "m"}
        return filled("{tenant}/{agent}/{user}", "semantic", values)

    assert (made(*one) == made(*other)) == (one == other)
    assert made(*one).startswith(segment(one[0]) + "/")


@pytest.mark.parametrize("template", ["{who}", "{agent}/{tenant}", "a//b", "{tenant}x/y", "{tenant", "/a"])
def test_a_template_that_cannot_be_filled_is_refused(template: str) -> None:
    assert template_problem(template) is not None


COUNT = 1000


class Exhaustive:
    """A search of every record, for comparison."""

    def __init__(self, held: Mapping[str, MemoryRecord]) -> None:
        self._records = {record.seq: record for record in held.values()}
        self._terms = {record.seq: terms(text) for text, record in held.items()}
        self._length = {seq: found.total() for seq, found in self._terms.items()}

    def search(self, query: RecordQuery) -> list[tuple[int, float]]:
        relevance = Relevance(len(self._terms), sum(self._length.values()))
        for term in terms(query.text):
            having = [seq for seq, found in self._terms.items() if term in found]
            relevance.add({0: len(having)}, [(0, seq, self._terms[seq][term], self._length[seq]) for seq in having])
        made = [
            Ranked(record, ceiling(score) * freshness(record.touched_at, record.confidence, query.now))
            for seq, score in relevance.best(len(self._records))
            for record in [self._records[seq]]
        ]
        return [(one.record.seq, one.score) for one in ordered(made)[: query.limit]]


async def test_both_databases_rank_1000_queries_in_14_languages_and_13_scripts_as_an_exhaustive_search_does(
    settings: Settings,
) -> None:
    chance = random.Random(7)
    async with open_store(settings) as store:
        clock = ManualClock()
        service = open_memory(store, clock, CurrentRedaction())
        memory = CompiledMemory("facts", "", {}, MemorySpec())
        place = RunIdentity("acme", "clerk", "lena", "t", None, "user:lena")
        scripts = list(WORDS.values())
        for number in range(22):
            batch = []
            for _ in range(10):
                words = chance.choices(chance.choice(scripts), k=chance.randint(3, 12))
                batch.append(MemoryCandidate(" ".join(words), "semantic", "user", chance.random()))
            clock.advance(86_400)
            await service.submit(place, memory, batch, f"batch {number}")
        records = await service.table.records("acme", RecordFilter(status="accepted"), 0, 1000)
        contents = await service.recollection.contents("acme", records)
        everything = Exhaustive({contents[record.id]["text"]: record for record in records})
        lexical = LexicalIndex(service.table)
        queries = [
            RecordQuery("acme", "acme/clerk/lena", " ".join(chance.choices(words, k=size)), 10, clock.now_ms())
            for words, size in ((chance.choice(scripts), chance.randint(1, 5)) for _ in range(COUNT))
        ]
        answered = 0
        for start in range(0, COUNT, 8):
            asked = queries[start : start + 8]
            for query, hits in zip(asked, await asyncio.gather(*map(lexical.search, asked)), strict=True):
                assert [(hit.record.seq, hit.score) for hit in hits] == everything.search(query), query.text
                answered += bool(hits)
        assert answered > COUNT * 0.95
