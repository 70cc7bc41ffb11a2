"""A case of a dataset: an input, what is expected and where it came from; and the spelling of cases as JSON lines."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from hashlib import sha256
from typing import Any, Final

from app.core import json
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.value import value

MAX_CASES: Final = 20_000
MAX_BYTES: Final = 32 * 1024 * 1024
"""Of all cases of one version as JSON lines."""
MAX_CASE_BYTES: Final = 256 * 1024
MAX_ID: Final = 200
"""Characters."""
_FIELDS: Final = frozenset({"id", "input", "expected", "output", "metadata", "source"})


@value(frozen=True, slots=True)
class Case:
    id: str
    input: Any
    expected: Any = None
    output: Any = None
    """What the run that the case came from answered."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    source: Mapping[str, Any] | None = None
    """`{runId, threadId, seq, digest}`: the last event of that run and its hash."""

    def to_json(self) -> JsonObject:
        made: JsonObject = {"id": self.id, "input": self.input}
        for name in ("expected", "output"):
            if (value := getattr(self, name)) is not None:
                made[name] = value
        if self.metadata:
            made["metadata"] = dict(self.metadata)
        if self.source is not None:
            made["source"] = dict(self.source)
        return made

    @property
    def digest(self) -> str:
        return sha256(json.canonical(self.to_json())).hexdigest()

    def value_at(self, path: str) -> Any:
        """A field by its path, such as `metadata.agent`; None where there is none. Short forms look into `metadata`."""
        document = self.to_json()
        steps = path.split(".")
        if steps[0] not in _FIELDS:
            steps = ["metadata", *steps]
        value: Any = document
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        return value


def case_of(document: Any, number: int) -> Case | Failure:
    """A case as somebody wrote it; `number` names one without an id."""
    if not isinstance(document, dict):
        return _wrong(number, "is not an object")
    unknown = sorted(document.keys() - _FIELDS)
    if unknown:
        return _wrong(number, f"has unknown fields: {', '.join(unknown[:5])[:200]}")
    if "input" not in document:
        return _wrong(number, "has no `input`")
    if not isinstance(document["input"], str | dict | list):
        return _wrong(number, "has an `input` that is neither text nor an object nor a list")
    name = document.get("id", f"case-{number}")
    if not isinstance(name, str) or not 0 < len(name) <= MAX_ID:
        return _wrong(number, f"has an `id` that is not a text of 1 to {MAX_ID} characters")
    metadata, source = document.get("metadata") or {}, document.get("source")
    if not isinstance(metadata, dict) or not isinstance(source, dict | None):
        return _wrong(number, "has `metadata` or a `source` that is not an object")
    case = Case(name, document["input"], document.get("expected"), document.get("output"), metadata, source)
    if len(json.dumps(case.to_json())) > MAX_CASE_BYTES:
        return _wrong(number, f"is larger than {MAX_CASE_BYTES} bytes")
    return case


def cases_of(documents: Sequence[Any]) -> list[Case] | Failure:
    """All of them, or the first mistake. Ids are unique within a dataset."""
    if len(documents) > MAX_CASES:
        return Failure("DATASET_INVALID", f"A dataset has at most {MAX_CASES} cases; these are {len(documents)}.")
    found: dict[str, Case] = {}
    for number, document in enumerate(documents, 1):
        case = case_of(document, number)
        if isinstance(case, Failure):
            return case
        if case.id in found:
            return _wrong(number, "has an `id` that another case has already")
        found[case.id] = case
    if not found:
        return Failure("DATASET_INVALID", "A dataset needs at least one case.")
    return list(found.values())


def to_lines(cases: Iterable[Case]) -> bytes:
    """One canonical JSON document per line: what is stored, hashed and exported."""
    return b"".join(json.canonical(case.to_json()) + b"\n" for case in cases)


def from_lines(data: bytes) -> list[Case]:
    """The cases of a stored version, which were checked when it was made."""
    made = [case_of(json.loads(line), number) for number, line in enumerate(data.splitlines(), 1)]
    return [case for case in made if isinstance(case, Case)]


def _wrong(number: int, what: str) -> Failure:
    return Failure("DATASET_INVALID", f"Case {number} {what}.")
