"""An extension as its folder describes it: manifest, entry, declared capabilities, and the digest of its files.

Leaves to `loader`: where folders are, what the code asks for, and whether it is trusted.
"""

from dataclasses import field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from app.core import json
from app.core.value import value

MANIFEST: Final = "extension.manifest.json"
ENTRY: Final = "events.py"
CORE_API: Final = 1
PROFILE: Final = "codex-manager"
PROFILE_VERSION: Final = "1.0.0"
MAX_MANIFEST_BYTES: Final = 64 * 1024
MAX_FILES: Final = 500
MAX_BYTES: Final = 16 * 1024 * 1024

Origin = Literal["repo_local", "installed_package"]


class _Section(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class ManifestRuntime(_Section):
    core_api_version: int = CORE_API
    core_api_version_range: str | None = Field(None, max_length=100)
    profiles: tuple[dict[str, Any], ...] = ()


class ManifestEntries(_Section):
    events: str = Field(ENTRY, max_length=200)


class ManifestCapabilities(_Section):
    events: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()


class Manifest(_Section):
    """Unknown fields are ignored."""

    name: str = Field(min_length=1, max_length=200)
    version: str = Field(min_length=1, max_length=100)
    agent_id: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9_.-]+$")
    display_name: str = Field(min_length=1, max_length=200)
    runtime: ManifestRuntime = ManifestRuntime()
    entrypoints: ManifestEntries = ManifestEntries()
    capabilities: ManifestCapabilities | None = None


class ExtensionInvalid(Exception):
    """Why a folder is no extension that can be loaded; `code` is one of the published ones."""

    def __init__(self, extension: str, code: str, message: str) -> None:
        super().__init__(message)
        self.extension, self.code, self.message = extension, code, message


@value(frozen=True, slots=True)
class ExtensionFolder:
    """What was found on the disk."""

    folder: Path
    manifest: Manifest
    entry: Path
    digest: str
    origin: Origin
    warnings: tuple[str, ...] = field(default=())


def read_folder(folder: Path, origin: Origin) -> ExtensionFolder:
    """Raises ExtensionInvalid."""
    name = folder.name
    path = folder / MANIFEST
    if path.exists():
        manifest = _manifest(name, path)
    else:
        manifest = Manifest(name=name, version="0.0.0", agent_id=name, display_name=name)
    if manifest.runtime.core_api_version != CORE_API:
        message = f"it needs version {manifest.runtime.core_api_version} of the interface; this server has {CORE_API}"
        raise ExtensionInvalid(name, "incompatible_runtime", message)
    wanted = manifest.entrypoints.events
    if Path(wanted).suffix in (".js", ".mjs", ".cjs", ".ts"):
        raise ExtensionInvalid(name, "incompatible_runtime", "extensions of this server are written in Python")
    entry = (folder / wanted).resolve()
    if not entry.is_relative_to(folder.resolve()):
        raise ExtensionInvalid(name, "invalid_manifest", "the entry is outside the extension's folder")
    if not entry.is_file():
        foreign = any((folder / f"events.{suffix}").exists() for suffix in ("js", "mjs", "ts"))
        code = "incompatible_runtime" if foreign else "missing_entrypoint"
        raise ExtensionInvalid(name, code, f"there is no {wanted}")
    return ExtensionFolder(folder, manifest, entry, folder_digest(folder), origin)


def _manifest(name: str, path: Path) -> Manifest:
    try:
        data = path.read_bytes()
        if len(data) > MAX_MANIFEST_BYTES:
            raise ExtensionInvalid(name, "invalid_manifest", f"the manifest exceeds {MAX_MANIFEST_BYTES} bytes")
        return Manifest.model_validate(json.loads_strict(data))
    except ValidationError as error:
        where = ".".join(str(step) for step in error.errors()[0]["loc"])
        raise ExtensionInvalid(name, "invalid_manifest", f"the manifest is wrong at {where or '/'}") from error
    except (OSError, json.JsonError) as error:
        raise ExtensionInvalid(name, "invalid_manifest", "the manifest is not readable JSON") from error


def folder_digest(folder: Path) -> str:
    """Of the names and contents of all its files. What is not a plain file makes it unusable."""
    made, count, size = sha256(), 0, 0
    for path in sorted(folder.rglob("*")):
        if "__pycache__" in path.parts or path.is_dir():
            continue
        if path.is_symlink() or not path.is_file():
            raise ExtensionInvalid(folder.name, "invalid_manifest", "an extension has plain files only, no links")
        data = path.read_bytes()
        count, size = count + 1, size + len(data)
        if count > MAX_FILES or size > MAX_BYTES:
            message = f"an extension has at most {MAX_FILES} files and {MAX_BYTES} bytes"
            raise ExtensionInvalid(folder.name, "invalid_manifest", message)
        name = path.relative_to(folder).as_posix().encode()
        made.update(b"%d %s %d\n" % (len(name), name, len(data)) + data)
    return made.hexdigest()
