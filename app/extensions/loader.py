"""Finds extensions and loads all of them, or none: folders of the workspace and installed packages, under a policy.

The result is a frozen set; whoever handles an event keeps the one it began with. Leaves to `code`: how an extension
runs. Leaves to `registry`: which set is in use.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoints
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from app.core.value import value
from app.events.catalog import EVENTS
from app.events.catalog.adapter import AdapterEvent
from app.extensions.code import ExtensionCode, HandlerSpec, SandboxedCode, TrustedCode
from app.extensions.manifest import ExtensionFolder, ExtensionInvalid, read_folder

FOLDER: Final = "extensions"
GROUP: Final = "holdfast.extensions"
MAX_EXTENSIONS: Final = 50
LOADED_AT_ONCE: Final = 4
"""Each starts a program of its own, and a server does not listen before all are loaded."""
TrustMode = Literal["disabled", "warn", "enforced"]
ACTIONS: Final = frozenset({"transcript.upsert", "approval.decide", "turn.steer.create", "queue.enqueue"})
OFFERED: Final = frozenset(
    name for name in EVENTS if name != AdapterEvent.type and not name.startswith("runtime.extension.")
)
"""What an extension can hear: every type of the catalog but deltas, and what extensions themselves did."""


@value(frozen=True, slots=True)
class Extension:
    found: ExtensionFolder
    code: ExtensionCode
    handlers: tuple[HandlerSpec, ...]
    in_process: bool
    mode: TrustMode
    warnings: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return self.found.manifest.agent_id

    @property
    def module(self) -> str:
        return self.found.folder.name

    def may_act(self, action: str) -> bool:
        """Under an enforced policy only what the manifest declares."""
        declared = self.found.manifest.capabilities
        if self.mode != "enforced":
            return True
        return declared is not None and ("*" in declared.actions or action in declared.actions)


@value(frozen=True, slots=True)
class TrustPolicy:
    mode: TrustMode = "warn"
    digests: frozenset[str] = frozenset()
    """Of extensions that run in the server: their code is as the operator saw it."""


@value(frozen=True, slots=True)
class Loaded:
    extensions: tuple[Extension, ...] = ()
    errors: tuple[ExtensionInvalid, ...] = ()


Places = Callable[[], Iterable[Path]]


class ExtensionLoader:
    def __init__(self, workspace: Path, data: Path | None, trust: Callable[[], TrustPolicy], packages: Places) -> None:
        self._workspace, self._data, self._trust, self._packages = workspace, data, trust, packages

    @property
    def mode(self) -> TrustMode:
        return self._trust().mode

    async def load(self, known: Mapping[str, Extension]) -> Loaded:
        """Of `known`, by digest, what is the same is kept: its code is not run again."""
        policy = self._trust()
        folders, errors = await asyncio.to_thread(self._folders)
        loaded: list[Extension] = []
        taken: dict[str, str] = {}
        places = asyncio.Semaphore(LOADED_AT_ONCE)

        async def load(found: ExtensionFolder) -> Extension | ExtensionInvalid:
            async with places:
                try:
                    return await self._one(found, policy, known)
                except ExtensionInvalid as error:
                    return error

        for one in await asyncio.gather(*map(load, folders)):
            try:
                if isinstance(one, ExtensionInvalid):
                    raise one
                if (other := taken.get(one.id)) is not None:
                    message = f"{other} has the agentId {one.id} too"
                    raise ExtensionInvalid(one.module, "agent_id_conflict", message)
                taken[one.id] = one.module
                loaded.append(one)
            except ExtensionInvalid as error:
                errors.append(error)
        return Loaded(tuple(loaded), tuple(errors))

    def _folders(self) -> tuple[list[ExtensionFolder], list[ExtensionInvalid]]:
        found: list[ExtensionFolder] = []
        errors: list[ExtensionInvalid] = []
        own = self._workspace / FOLDER
        inside = sorted(path for path in own.iterdir() if path.is_dir()) if own.is_dir() else []
        folders = [(path, "repo_local") for path in inside if not path.name.startswith((".", "_"))]
        folders += [(path, "installed_package") for path in sorted(self._packages())]
        for path, origin in folders[:MAX_EXTENSIONS]:
            try:
                found.append(read_folder(path, "repo_local" if origin == "repo_local" else "installed_package"))
            except ExtensionInvalid as error:
                errors.append(error)
            except OSError:
                errors.append(ExtensionInvalid(path.name, "import_failed", "its files cannot be read"))
        for path, _ in folders[MAX_EXTENSIONS:]:
            errors.append(ExtensionInvalid(path.name, "registration_failed", f"more than {MAX_EXTENSIONS} extensions"))
        return found, errors

    async def _one(self, found: ExtensionFolder, policy: TrustPolicy, known: Mapping[str, Extension]) -> Extension:
        # Whoever installs a package runs its code anyway.
        trusted = found.origin == "installed_package" or found.digest in policy.digests
        kept = known.get(found.digest)
        if kept is not None and (kept.in_process, kept.mode) == (trusted, policy.mode):
            return kept
        code: ExtensionCode = TrustedCode(found) if trusted else SandboxedCode(found, self._data, self._workspace)
        handlers = await code.handlers()
        unknown = sorted({one.event_type for one in handlers} - OFFERED)
        if unknown:
            message = f"there is no event {', '.join(unknown)[:200]} that an extension can hear"
            raise ExtensionInvalid(found.folder.name, "registration_failed", message)
        warnings = _undeclared(found, handlers)
        if warnings and policy.mode == "enforced":
            raise ExtensionInvalid(found.folder.name, "trust_denied", "; ".join(warnings))
        shown = warnings if policy.mode == "warn" else ()
        return Extension(found, code, tuple(handlers), trusted, policy.mode, shown)


def _undeclared(found: ExtensionFolder, handlers: Iterable[HandlerSpec]) -> tuple[str, ...]:
    """Declared capabilities against what the code asks for."""
    declared = found.manifest.capabilities
    if declared is None:
        return ("the manifest declares no capabilities",)
    wanted = sorted({one.event_type for one in handlers})
    missing = [] if "*" in declared.events else [kind for kind in wanted if kind not in declared.events]
    made = [f"the event {kind} is not declared" for kind in missing]
    made += [f"there is no action {name}" for name in declared.actions if name != "*" and name not in ACTIONS]
    return tuple(made)


def installed_folders(points: EntryPoints) -> list[Path]:
    """Of packages with an entry point: its value is the package that has the manifest."""
    folders: list[Path] = []
    for point in points.select(group=GROUP):
        spec = find_spec(point.module)
        places = list(spec.submodule_search_locations or ()) if spec is not None else []
        if places:
            folders.append(Path(places[0]))
    return folders
