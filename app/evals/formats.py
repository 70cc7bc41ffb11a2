"""Datasets as files: JSON lines of our own, and the YAML of pydantic-evals, in and out.

    ours        id, input, expected, output, metadata, source
    pydantic    name, inputs, expected_output, metadata; what has no place there is in `metadata.holdfast`

Both are read within bounds: size, number of cases, no aliases in YAML. What a case may be is said in `cases`.
"""

from collections.abc import Sequence
from typing import Any, Final

import yaml

from app.core import json
from app.core.errors import Failure
from app.core.json import JsonObject
from app.evals.cases import MAX_BYTES, MAX_CASES, Case, cases_of

MAX_YAML_BYTES: Final = 4 * 1024 * 1024
"""Parsing YAML takes about fifty times as long as JSON."""
_MAX_DEPTH: Final = 32
_OWN: Final = "holdfast"
_PASSED_ON: Final = frozenset({"evaluators", "report_evaluators", "$schema"})
"""Fields of pydantic-evals that name Python code of its own; an evaluation here has its own evaluators."""


def _refuse_bombs(data: bytes) -> None:
    """A few bytes of aliases can stand for gigabytes, and each level of nesting is one of the parser's own stack."""
    depth = 0
    for event in yaml.parse(data, yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _MAX_DEPTH:
                raise yaml.YAMLError("too deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def read_jsonl(data: bytes) -> list[Case] | Failure:
    if len(data) > MAX_BYTES:
        return Failure("DATASET_INVALID", f"A dataset has at most {MAX_BYTES} bytes.")
    documents: list[Any] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        if len(documents) >= MAX_CASES:
            return Failure("DATASET_INVALID", f"A dataset has at most {MAX_CASES} cases.")
        try:
            documents.append(json.loads_strict(line))
        except json.JsonError as error:
            return Failure("DATASET_INVALID", f"Line {number} cannot be read: {error.failure.message}.")
    return cases_of(documents)


def write_yaml(name: str, cases: Sequence[Case]) -> bytes:
    """As `pydantic_evals.Dataset.from_file` reads it."""
    document = {"name": name, "cases": [_to_pydantic(case) for case in cases]}
    made: str = yaml.dump(document, Dumper=yaml.CSafeDumper, allow_unicode=True, sort_keys=False, width=10_000)
    return made.encode()


def read_yaml(data: bytes) -> list[Case] | Failure:
    if len(data) > MAX_YAML_BYTES:
        return Failure("DATASET_INVALID", f"A YAML dataset has at most {MAX_YAML_BYTES} bytes; use JSON lines.")
    try:
        _refuse_bombs(data)
        document = yaml.load(data, yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError, UnicodeError):
        return Failure("DATASET_INVALID", "The file is not YAML that can be read here; aliases are not allowed.")
    cases = document.get("cases") if isinstance(document, dict) else None
    if not isinstance(cases, list):
        return Failure("DATASET_INVALID", "The file has no list `cases`.")
    documents: list[Any] = []
    for number, case in enumerate(cases, 1):
        read = _from_pydantic(case, number)
        if isinstance(read, Failure):
            return read
        documents.append(read)
    return cases_of(documents)


def _to_pydantic(case: Case) -> JsonObject:
    made: JsonObject = {"name": case.id, "inputs": case.input}
    own = {name: value for name in ("output", "source") if (value := getattr(case, name)) is not None}
    metadata = dict(case.metadata) | ({_OWN: _plain(own)} if own else {})
    if metadata:
        made["metadata"] = _plain(metadata)
    if case.expected is not None:
        made["expected_output"] = case.expected
    return made


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _from_pydantic(case: Any, number: int) -> JsonObject | Failure:
    if not isinstance(case, dict):
        return Failure("DATASET_INVALID", f"Case {number} is not an object.")
    unknown = case.keys() - {"name", "inputs", "expected_output", "metadata"} - _PASSED_ON
    if unknown:
        return Failure("DATASET_INVALID", f"Case {number} has unknown fields.")
    metadata = case.get("metadata") or {}
    if not isinstance(metadata, dict):
        metadata = {"value": metadata}
    own = metadata.get(_OWN)
    kept = {key: value for key, value in metadata.items() if key != _OWN} if isinstance(own, dict) else metadata
    made: JsonObject = {"input": case.get("inputs"), "metadata": kept}
    if case.get("name") is not None:
        made["id"] = str(case["name"])
    if case.get("expected_output") is not None:
        made["expected"] = case["expected_output"]
    if isinstance(own, dict):
        made |= {name: own[name] for name in ("output", "source") if name in own}
    try:
        checked: JsonObject = json.loads_strict(json.canonical(made))
    except json.JsonError:
        return Failure("DATASET_INVALID", f"Case {number} has a value that JSON cannot hold, such as a date.")
    return checked
