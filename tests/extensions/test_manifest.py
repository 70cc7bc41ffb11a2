"""Folders that are, and are not, extensions; and a name that no agent may have."""

from pathlib import Path
from typing import Any

import pytest

from app.core import json
from app.extensions.manifest import ExtensionInvalid, read_folder
from app.wiring.kinds import kind_catalog
from app.workspace.compile import compile
from app.workspace.compiled import Compiled
from tests.workspace.building import document, files

MANIFEST: dict[str, Any] = {"name": "n", "version": "1", "agentId": "a", "displayName": "d"}


def _folder(tmp_path: Path, manifest: Any = MANIFEST, entry: str | None = "events.py") -> Path:
    folder = tmp_path / "one"
    folder.mkdir()
    if manifest is not None:
        (folder / "extension.manifest.json").write_bytes(json.dumps(manifest))
    if entry is not None:
        (folder / entry).write_text("def register(events): ...\n")
    return folder


def test_a_folder_without_a_manifest_is_called_after_itself(tmp_path: Path) -> None:
    found = read_folder(_folder(tmp_path, None), "repo_local")
    assert (found.manifest.agent_id, found.manifest.version) == ("one", "0.0.0")


def test_the_digest_changes_with_every_file_and_with_nothing_else(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    first = read_folder(folder, "repo_local").digest
    assert read_folder(folder, "repo_local").digest == first
    (folder / "more.py").write_text("x = 1")
    assert read_folder(folder, "repo_local").digest != first


@pytest.mark.requirement("CM-8")
@pytest.mark.parametrize(
    ("manifest", "entry", "code"),
    [
        (MANIFEST | {"name": ""}, "events.py", "invalid_manifest"),
        (MANIFEST | {"agentId": "../x"}, "events.py", "invalid_manifest"),
        ([], "events.py", "invalid_manifest"),
        (MANIFEST, None, "missing_entrypoint"),
        (MANIFEST, "events.mjs", "incompatible_runtime"),
        (MANIFEST | {"entrypoints": {"events": "events.ts"}}, "events.ts", "incompatible_runtime"),
        (MANIFEST | {"entrypoints": {"events": "../events.py"}}, "events.py", "invalid_manifest"),
        (MANIFEST | {"runtime": {"coreApiVersion": 2}}, "events.py", "incompatible_runtime"),
    ],
)
def test_what_is_no_extension_is_named_by_its_code(tmp_path: Path, manifest: Any, entry: str | None, code: str) -> None:
    with pytest.raises(ExtensionInvalid) as refused:
        read_folder(_folder(tmp_path, manifest, entry), "repo_local")
    assert refused.value.code == code


def test_links_lead_nowhere(tmp_path: Path) -> None:
    folder = _folder(tmp_path)
    (folder / "secret").symlink_to("/etc/passwd")
    with pytest.raises(ExtensionInvalid):
        read_folder(folder, "repo_local")


def test_no_agent_is_called_extensions() -> None:
    changes = {"x.yaml": document("Agent", "extensions", "backend: echo")}
    result = compile(files(changes), kind_catalog())
    assert not isinstance(result, Compiled) and "NAME_RESERVED" in result.as_text()
