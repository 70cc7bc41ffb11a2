"""Datasets: versions that never change, in the tenant's log, each with the cases in a blob and where they came from.

A version is one event on the system's thread for evaluations, and its content is stored in the same commit. The next
version of a name is the next number; two at once cannot both get it. Leaves to others: making cases.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, Literal

from cachetools import LRUCache

from app.core.clock import iso
from app.core.errors import Failure
from app.core.value import value
from app.evals.cases import MAX_BYTES, Case, cases_of, from_lines, to_lines
from app.events.catalog.evaluation import DatasetCreated
from app.events.envelope import Event
from app.events.ports import BlobDraft, KeyUnused, Refused
from app.events.recorder import PayloadEntry
from app.runtime.intake.ledger import EVALS_THREAD, Ledger
from app.views.ports import Reader

MIME: Final = "application/x-ndjson"
_ROUTE: Final = "datasets"
_EVER: Final = 2**62
_PAGE: Final = 1000
_RACES: Final = 20
"""How often a version is numbered again because another one took the number meanwhile."""
_KEPT: Final = 8
"""Versions whose cases are kept in memory."""


@value(frozen=True, slots=True)
class DatasetVersion:
    name: str
    version: int
    digest: str
    cases: int
    source: str
    description: str | None
    query: Mapping[str, Any] | None
    redacted: tuple[str, ...]
    created_at: int
    created_by: str

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "version": self.version,
            "digest": self.digest,
            "cases": self.cases,
            "source": self.source,
            "description": self.description,
            "query": None if self.query is None else dict(self.query),
            "redacted": list(self.redacted),
            "createdAt": iso(self.created_at),
            "createdBy": self.created_by,
        }


class Datasets:
    def __init__(self, ledger: Ledger, reader: Reader, clean: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """`clean` replaces secrets, as the recorder does in events: the cases of a dataset are in none."""
        self._ledger, self._reader, self._clean = ledger, reader, clean
        self._kept: LRUCache[tuple[str, str], list[Case]] = LRUCache(_KEPT)

    async def versions(self, tenant: str, name: str | None = None) -> list[DatasetVersion]:
        """All versions of one dataset or of all, oldest first."""
        found: list[DatasetVersion] = []
        after = 0
        while True:
            types = [DatasetCreated.type]
            page = await self._reader.events_of(tenant, EVALS_THREAD, types, after, _EVER, _PAGE)
            found += [_version(event) for event in page if name is None or event.payload["name"] == name]
            if len(page) < _PAGE:
                return found
            after = page[-1].seq

    async def find(self, tenant: str, name: str, version: int | None = None) -> DatasetVersion | Failure:
        """The newest version, or that one."""
        known = await self.versions(tenant, name)
        if not known:
            return Failure("DATASET_NOT_FOUND", "There is no such dataset.")
        if version is None:
            return known[-1]
        wanted = next((one for one in known if one.version == version), None)
        return wanted or Failure("DATASET_NOT_FOUND", "The dataset has no such version.")

    async def cases(self, tenant: str, dataset: DatasetVersion) -> list[Case]:
        kept = self._kept.get((tenant, dataset.digest))
        if kept is None:
            stored = await self._reader.blob(tenant, EVALS_THREAD, dataset.digest)
            kept = [] if stored is None else from_lines(stored[1])
            self._kept[tenant, dataset.digest] = kept
        return kept

    async def create(
        self,
        tenant: str,
        actor: str,
        name: str,
        cases: Sequence[Case],
        *,
        source: Literal["collected", "imported", "sampled"],
        description: str | None = None,
        query: Mapping[str, Any] | None = None,
        redacted: Sequence[str] = (),
    ) -> DatasetVersion | Failure:
        checked = cases_of([self._clean(case.to_json()) for case in cases])
        if isinstance(checked, Failure):
            return checked
        content = to_lines(checked)
        if len(content) > MAX_BYTES:
            return Failure("DATASET_INVALID", f"A dataset has at most {MAX_BYTES} bytes.")
        digest = sha256(content).hexdigest()
        made = DatasetCreated(
            name=name,
            version=1,
            digest=digest,
            cases=len(checked),
            content={"$blob": {"sha256": digest, "size": len(content), "mime": MIME}},
            description=description,
            source=source,
            query=None if query is None else dict(query),
            redacted=list(redacted) or None,
        )
        return await self._store(tenant, actor, made, BlobDraft(digest, content, MIME))

    async def _store(
        self, tenant: str, actor: str, made: DatasetCreated, content: BlobDraft
    ) -> DatasetVersion | Failure:
        for _ in range(_RACES):
            known = await self.versions(tenant, made.name)
            version = known[-1].version + 1 if known else 1
            key = KeyUnused(_ROUTE, f"{made.name}@{version}", made.digest, "", _EVER)
            entry = PayloadEntry(made.model_copy(update={"version": version}), blobs=(content,))
            answer = await self._ledger.record(tenant, entry, actor=actor, conditions=[key])
            if not isinstance(answer, Refused):
                created = next(event for event in answer.events if event.type == DatasetCreated.type)
                return _version(created)
            if answer.failure.code not in ("IDEMPOTENCY_KEY_SEEN", "IDEMPOTENCY_KEY_REUSED"):
                return answer.failure
        return Failure("DATASET_BUSY", "Too many versions of the dataset are being made at once.", True)


def _version(event: Event) -> DatasetVersion:
    payload = event.payload
    return DatasetVersion(
        payload["name"],
        payload["version"],
        payload["digest"],
        payload["cases"],
        payload["source"],
        payload.get("description"),
        payload.get("query"),
        tuple(payload.get("redacted") or ()),
        event.at,
        event.actor,
    )
