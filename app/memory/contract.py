"""What a memory is: `put`, `search` and `trim` over records, and the values that recall and learning exchange.

The records themselves are folds of events in our own log; a kind is how they are found again. Leaves to others: the
kinds (`kinds/`), what may be remembered (`decisions`) and the tables (the store).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from app.core.clock import Clock, iso
from app.core.errors import Failure
from app.core.value import contract_value
from app.events.ports import MemoryIndexed
from app.memory.ranking import Ranked
from app.views.memory_record import MemoryRecord
from app.workspace.catalog import Kind
from app.workspace.compiled import CompiledMemory

RecordSource = Literal["user", "model", "tool", "operator"]
Outcome = Literal["accepted", "rejected", "merged", "asked"]


@contract_value(frozen=True, slots=True)
class IndexEntry:
    """A record as a kind gets it to index."""

    record: MemoryRecord
    text: str


@contract_value(frozen=True, slots=True)
class RecordQuery:
    tenant: str
    namespace: str
    text: str
    limit: int
    now: int
    """In milliseconds."""

    @property
    def at(self) -> str:
        """The same as tables have times."""
        return iso(self.now)


class RecordIndex(Protocol):
    """How records are found. Called again with the same records, each call does the same as once."""

    async def put(self, tenant: str, entries: Sequence[IndexEntry]) -> None:
        """Enter accepted records, or enter them again after a change of the index."""
        ...

    async def search(self, query: RecordQuery) -> list[Ranked]:
        """The best records of one namespace that are in force, best first, with scores from 0 to 1."""
        ...

    async def trim(self, tenant: str, records: Sequence[MemoryRecord]) -> None:
        """Forget the records: nothing of their text stays behind."""
        ...


@contract_value(frozen=True, slots=True)
class RecordFilter:
    """Which records a list has; None means any."""

    namespace: str | None = None
    prefix: str | None = None
    """Namespaces that begin so."""
    status: str | None = None
    kind: str | None = None
    user: str | None = None


@contract_value(frozen=True, slots=True)
class Standing:
    """What is stored already, before something is added."""

    known: Mapping[str, MemoryRecord] = field(default_factory=dict)
    """By id, whatever their status."""
    by_fingerprint: Mapping[str, Sequence[MemoryRecord]] = field(default_factory=dict)
    """In force, as those of each slot."""
    by_slot: Mapping[str, Sequence[MemoryRecord]] = field(default_factory=dict)

    def similar(self, fingerprint: str, slot: str | None) -> tuple[Sequence[MemoryRecord], Sequence[MemoryRecord]]:
        """Those that say the same, and those of the same slot."""
        return self.by_fingerprint.get(fingerprint, ()), self.by_slot.get(slot, ()) if slot is not None else ()


class RecordTable(Protocol):
    """The stored records and their index. Every call names the tenant."""

    async def record(self, tenant: str, record_id: str) -> MemoryRecord | None: ...

    async def by_id(self, tenant: str, record_ids: Sequence[str]) -> dict[str, MemoryRecord]:
        """Those of them that are there, whatever their status."""
        ...

    async def records(self, tenant: str, filter_: RecordFilter, after: int, limit: int) -> list[MemoryRecord]:
        """By `seq`, after that one."""
        ...

    async def newest(
        self, tenant: str, namespace: str, limit: int, now: str = "", status: str = "accepted"
    ) -> list[MemoryRecord]:
        """Of those in force, newest first; with `now`, without those that have expired by then."""
        ...

    async def by_seq(self, tenant: str, seqs: Sequence[int], now: str = "") -> dict[int, MemoryRecord]:
        """Those of them that are in force; with `now`, likewise."""
        ...

    async def contents(self, tenant: str, digests: Sequence[str]) -> dict[str, bytes]:
        """The blobs that are still there."""
        ...

    async def search(self, tenant: str, namespace: str, terms: Sequence[str], limit: int, now: int) -> list[Ranked]:
        """Records in force that have one of the terms, best first, by `ranking`. Reads a bounded part of the index:
        rare terms first, so that common ones decide only among what those found."""
        ...

    async def standing(
        self, tenant: str, namespace: str, record_ids: Sequence[str], wanted: Sequence[tuple[str, str | None]]
    ) -> "Standing":
        """In one read. `wanted` are fingerprints and slots in the namespace."""
        ...

    async def repeated(self, tenant: str, seqs: Sequence[int]) -> set[int]:
        """Those of them that say the same as an older record in force of their namespace."""
        ...

    async def index(self, tenant: str, record: MemoryRecord, entry: MemoryIndexed) -> None: ...

    async def unindex(self, tenant: str, record: MemoryRecord) -> None: ...

    async def counts(self, tenant: str) -> dict[str, int]:
        """How many records each namespace has in force."""
        ...

    async def tenants(self) -> list[str]:
        """Those that have records."""
        ...


class VectorTable(Protocol):
    """Stored vectors. They are deleted with the record's entry in the search index."""

    async def put_vectors(self, tenant: str, namespace: str, model: str, vectors: Mapping[int, bytes]) -> None:
        """By `seq`; only of records that are in force."""
        ...

    async def vectors(self, tenant: str, namespace: str, model: str, after: int, limit: int) -> list[tuple[int, bytes]]:
        """By `seq`, after that one."""
        ...

    async def vectors_of(self, tenant: str, namespace: str, model: str, seqs: Sequence[int]) -> list[tuple[int, bytes]]:
        """Those of them that are still there."""
        ...

    async def nearest(
        self, tenant: str, namespace: str, model: str, vector: bytes, limit: int
    ) -> list[tuple[int, bytes]] | None:
        """The nearest by inner product, roughly in order, if the database can search vectors; else None."""
        ...

    async def tend_vectors(self, stop: Callable[[], bool]) -> int:
        """Whatever makes `nearest` complete and quick in large namespaces; how much was done."""
        ...

    async def vectors_since(
        self, tenant: str, namespace: str, model: str, after: int, limit: int
    ) -> tuple[tuple[int, int], list[tuple[int, bytes]]]:
        """How many vectors were ever put into the namespace and taken away, of any model; and in the same snapshot
        those of this model by `seq`, after that one. Whoever keeps them sees by the first what has changed."""
        ...

    async def without_vector(self, tenant: str, model: str, limit: int) -> list[MemoryRecord]:
        """Records in force of memories with this model that lack a vector of it."""
        ...

    async def drop_other_vectors(self, tenant: str, models: Sequence[str]) -> int:
        """Those of models that no memory uses any more; how many."""
        ...


class Embeddings(Protocol):
    """Makes vectors by the Models of a workspace, on somebody's account."""

    def identity(self, model: str) -> str | None:
        """Another as soon as vectors of the Model can no longer be compared with those of before; None if the
        workspace has no such Model."""
        ...

    async def embed(self, model: str, texts: Sequence[str]) -> list[bytes] | Failure:
        """One vector per text: float32, little-endian, of length one."""
        ...


EmbeddingsOf = Callable[[str], Embeddings]
"""On the account of a tenant, for what no run asked for."""


@contract_value(frozen=True, slots=True)
class MemoryDeps:
    """What a kind may use."""

    table: RecordTable
    clock: Clock
    embeddings: Embeddings | None = None
    """On the account of the run or tenant that the index was made for."""
    vectors: VectorTable | None = None
    kept: dict[str, Any] = field(default_factory=dict)
    """What a kind keeps as long as the server runs."""


@dataclass(frozen=True, kw_only=True)
class MemoryKind(Kind):
    make: Callable[[CompiledMemory, MemoryDeps], RecordIndex]
    """Makes the index of one Memory document."""
    transactional: bool = False
    """Its index is written with the events of the records, in one commit; `put` is only for rebuilding it."""


# -- what runs exchange with memory -----------------------------------------------------------------


@contract_value(frozen=True, slots=True)
class RunIdentity:
    """On whose behalf: what the variables of a namespace stand for."""

    tenant: str
    agent: str
    user: str
    thread_id: str
    run_id: str | None = None
    actor: str = "system"

    def values(self, memory: str) -> dict[str, str]:
        return {
            "tenant": self.tenant,
            "agent": self.agent,
            "user": self.user,
            "thread": self.thread_id,
            "memory": memory,
        }


@contract_value(frozen=True, slots=True)
class Recalled:
    memory: str
    namespace: str
    record_ids: tuple[str, ...]
    context: str
    stale: tuple[str, ...] = ()
    """Those of the records for which a use is to be recorded: the last one was long ago."""
    failure: Failure | None = None
    """Why a kind could not search; what is recalled then is what others found, or nothing."""


@contract_value(frozen=True, slots=True)
class MemoryCandidate:
    """Something worth remembering, before anybody decided."""

    text: str
    kind: str
    source: RecordSource
    confidence: float
    attributes: Mapping[str, Any] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    slot: str | None = None
    """What it is about: a later record with the same one supersedes it."""
    room: int = 4_000
    """Characters that its attributes may have."""


@contract_value(frozen=True, slots=True)
class Submitted:
    """What became of a candidate."""

    memory: str
    namespace: str
    candidate: MemoryCandidate
    outcome: Outcome
    reason: str
    record_id: str | None = None
    interrupt_id: str | None = None


@contract_value(frozen=True, slots=True)
class Said:
    """What a run has to learn from."""

    given: str
    output: str
    tools: frozenset[str]
    """The tools whose output it saw."""
    by_user: bool = True
    """Whether `given` are the user's words. Those of a subagent or of a workflow's step are usually a model's."""
    given_event: str | None = None
    output_event: str | None = None
