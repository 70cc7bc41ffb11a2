"""Remembers what frozen schemas look like, in `schemas/frozen.json`: schema id to SHA-256 of the file.

A published `_v1` never changes; a breaking change is a `_v2`. So an id is recorded once, when its file
first appears, and never again: a file that differs from its record is a violation, not news.
Which folders are frozen is decided here; what the schemas say is not.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from app.core import json

RECORD: Final = "schemas/frozen.json"

# Event schemas join with release 0.1.0, those that production code emits; until then they may change.
FOLDERS: Final = ("schemas/contracts",)


def record(root: Path) -> Mapping[str, bytes]:
    """The record with the ids that it lacked; those it has keep their digest, whatever the file says now."""
    return {RECORD: json.pretty(_digests(root) | _recorded(root))}


def violations(root: Path) -> list[str]:
    now = _digests(root)
    problems = []
    for schema_id, digest in sorted(_recorded(root).items()):
        if schema_id not in now:
            problems.append(f"{schema_id}: frozen, but its file is gone")
        elif now[schema_id] != digest:
            problems.append(f"{schema_id}: frozen, but its file changed; publish a new version instead")
    return problems


def _digests(root: Path) -> dict[str, str]:
    return {
        path.name.removesuffix(".json"): hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in FOLDERS
        for path in (root / folder).glob("*.json")
    }


def _recorded(root: Path) -> dict[str, str]:
    path = root / RECORD
    recorded: dict[str, str] = json.loads(path.read_bytes()) if path.is_file() else {}
    return recorded
