"""docs/log-format.md holds: its vectors, its rules and the verifier printed in it."""

import re
import subprocess
import sys
from pathlib import Path
from types import CodeType

import pytest

from app.core import json
from app.core.schemas import SchemaRegistry
from app.events.catalog import schema_id
from app.events.chain import Head, verify
from app.events.envelope import GENESIS
from app.protocols.dialects.native import ExportInvalid, read_export
from tests.server import ROOT

PAGE = (ROOT / "docs/log-format.md").read_text(encoding="utf-8")


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


(VERIFIER,) = _blocks("python")
VECTORS, COMPACTED = (block.encode().splitlines() for block in _blocks("jsonl"))
BOTH = pytest.mark.parametrize("vectors", [VECTORS, COMPACTED], ids=["whole", "compacted"])


def run_the_printed_verifier(tmp_path: Path, lines: list[bytes]) -> int:
    """How the page's verifier, as a program of its own, ends with these lines."""
    (tmp_path / "verify.py").write_text(VERIFIER, encoding="utf-8")
    (tmp_path / "export.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    command = [sys.executable, "-I", "-W", "ignore", str(tmp_path / "verify.py"), str(tmp_path / "export.jsonl")]
    return subprocess.run(command, capture_output=True, check=False).returncode


@pytest.mark.smoke
@pytest.mark.requirement("HK-36", "G19")
def test_our_code_reads_and_verifies_the_vectors() -> None:
    export = read_export(VECTORS)
    assert verify(export.events, export.head) == export.head == Head(3, json.loads(VECTORS[-1])["head"]["hash"])


@pytest.mark.requirement("HK-36", "G19")
def test_our_code_verifies_the_vectors_without_their_deltas() -> None:
    export, head = read_export(COMPACTED), json.loads(COMPACTED[-1])["head"]
    found = verify(export.events, export.head)
    assert found == export.head == Head(12, head["hash"])
    assert isinstance(found, Head)
    assert found.dropped == head["dropped"] == 5


@BOTH
@pytest.mark.requirement("HK-36", "G19")
def test_the_vectors_are_reproduced_from_their_parsed_values(vectors: list[bytes]) -> None:
    events = read_export(vectors).events
    assert [event.export_line() for event in events] == vectors[:-1]
    assert [event.sealed() for event in events] == [event.hash for event in events]
    assert [json.canonical(json.loads(line)) for line in vectors] == vectors


@BOTH
def test_the_vectors_are_events_of_the_catalog(vectors: list[bytes]) -> None:
    schemas = SchemaRegistry()
    for event in read_export(vectors).events:
        assert schemas.validator(schema_id(event.type)).issues(event.payload) == []


def test_the_table_of_members_is_complete() -> None:
    described = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE))
    assert described == set(json.loads(VECTORS[0]))


@BOTH
@pytest.mark.smoke
@pytest.mark.requirement("HK-36", "G19")
def test_the_printed_verifier_accepts_the_vectors(tmp_path: Path, vectors: list[bytes]) -> None:
    assert run_the_printed_verifier(tmp_path, vectors) == 0


@pytest.mark.requirement("G19")
@pytest.mark.parametrize(
    "lines",
    [
        [VECTORS[0].replace("Grüße".encode(), "Grüsse".encode()), *VECTORS[1:]],
        [VECTORS[0], VECTORS[1].replace(b"0.5", b"0.25"), *VECTORS[2:]],
        [VECTORS[0], VECTORS[1].replace(b"null]", b"true]"), *VECTORS[2:]],
        [VECTORS[0], *VECTORS[2:]],
        [VECTORS[1], VECTORS[0], *VECTORS[2:]],
        [VECTORS[0], VECTORS[0], *VECTORS[1:]],
        [*VECTORS[:2], VECTORS[3]],
        VECTORS[:3],
        VECTORS[3:],
        [*COMPACTED[:6], COMPACTED[7]],
        [*COMPACTED[:6], COMPACTED[6].replace(b'"toSeq":9', b'"toSeq":8'), COMPACTED[7]],
        [*COMPACTED[:4], *COMPACTED[5:]],
        [*COMPACTED[:3], *COMPACTED[4:]],
        [*COMPACTED[:5], *COMPACTED[6:]],
        [*COMPACTED[:4], COMPACTED[5], COMPACTED[4], *COMPACTED[6:]],
        [COMPACTED[6], *COMPACTED[:6], COMPACTED[7]],
    ],
    ids=["text", "float", "null", "removed", "swapped", "repeated", "cut off", "no head", "only the head",
         "no reason for a gap", "another reason", "end of the message", "start of the message", "end of the run",
         "swapped after a gap", "reason first"],
)  # fmt: skip
def test_the_printed_verifier_and_ours_find_the_same_damage(tmp_path: Path, lines: list[bytes]) -> None:
    assert lines not in (VECTORS, COMPACTED)
    assert run_the_printed_verifier(tmp_path, lines) != 0
    assert not isinstance(_ours(lines), Head)


def _ours(lines: list[bytes]) -> object:
    try:
        export = read_export(lines)
    except ExportInvalid as invalid:
        return invalid
    return verify(export.events, export.head)


@BOTH
@pytest.mark.requirement("G19")
def test_every_flipped_byte_of_an_event_is_found_by_the_rule_of_the_page(vectors: list[bytes]) -> None:
    """The page's rule in this process: a process for each of a thousand bytes would take a minute."""
    rule = compile(VERIFIER.replace("sys.exit(", "raise SystemExit("), "log-format.md", "exec")
    good = b"\n".join(vectors)
    for place in range(0, len(good) - len(vectors[-1]), 7):
        flipped = good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :]
        assert _verdict(rule, flipped) is not None, place
    assert _verdict(rule, good) is None
    assert GENESIS.encode() in good


def _verdict(rule: CodeType, data: bytes) -> object:
    class File:
        def read(self) -> bytes:
            return data

    names = {"open": lambda *_: File()}
    argv = sys.argv
    sys.argv = ["verify.py", "export.jsonl"]
    try:
        exec(rule, names)
    except SystemExit as end:
        return end.code or None
    except Exception as error:
        return error
    finally:
        sys.argv = argv
    return "ended without a verdict"
