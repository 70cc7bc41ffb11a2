"""Holds the workspace the server works with, and swaps it when its files change.

A good change replaces the value at once; runs keep the one they started with, because they hold it. A bad
change keeps the old one and says so. Recording and announcing either is left to the callbacks.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import field, replace
from pathlib import Path
from typing import Final

import structlog
from cachetools import LRUCache

from app.core.clock import Clock
from app.core.errors import HoldfastError
from app.core.recent import RecentDict
from app.core.value import value
from app.events.catalog.ledger import WorkspaceLoaded, WorkspaceRejected
from app.runtime.installed import installed_code
from app.runtime.ports import WorkspaceArchive
from app.workspace.catalog import KindCatalog
from app.workspace.compile import CompileCache, compile
from app.workspace.compiled import Compiled, CompiledWorkspace
from app.workspace.diagnostics import Diagnostics
from app.workspace.files import SUFFIXES, WorkspaceFiles, read_folder

DEBOUNCE_MS: Final = 100  # an editor writes a file in several steps; a deploy writes many files
_LOOK_MS: Final = 5_000  # how often to see whether the folder is still the same one
_ROOT_GONE_SECONDS: Final = 1.0  # how soon to look again for a folder that was removed

_WATCH_AFTER_SECONDS: Final = 0.3
"""The server is ready before the watcher is imported. Watching begins with a reload, so nothing is missed."""

MAX_CODES: Final = 1000
MAX_OLD_WORKSPACES: Final = 8  # versions still in use at once; older ones are compiled again

_log = structlog.get_logger(__name__)


@value(frozen=True, slots=True)
class WorkspaceStatus:
    """What `/api/workspace` shows. `rejected` are the mistakes of the files as they are now, if any."""

    digest: str | None = None
    loaded_at_ms: int | None = None
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    rejected: Diagnostics | None = None
    rejected_at_ms: int | None = None

    def loaded_event(self, agents: int) -> WorkspaceLoaded:
        """What is recorded in the ledger of a workspace that was loaded."""
        assert self.digest is not None
        return WorkspaceLoaded(digest=self.digest, agents=agents, warnings=self.diagnostics.as_json() or None)

    def rejected_event(self) -> WorkspaceRejected:
        assert self.rejected is not None
        return WorkspaceRejected(diagnostics=self.rejected.as_json(), kept_digest=self.digest)


Callback = Callable[[WorkspaceStatus], Awaitable[None]]


async def _nobody(status: WorkspaceStatus) -> None:
    return None


class CurrentWorkspace:
    def __init__(
        self,
        root: Path,
        catalog: KindCatalog,
        clock: Clock,
        *,
        profile: str | None = None,
        on_loaded: Callback = _nobody,
        on_rejected: Callback = _nobody,
    ) -> None:
        self._root = root
        self._catalog = catalog
        self._clock = clock
        self._profile = profile
        self._on_loaded = on_loaded
        self._on_rejected = on_rejected
        self._cache = CompileCache()
        self.loaded: CompiledWorkspace | None = None
        """The same as `current`, or None where none could be loaded."""
        self._files: WorkspaceFiles | None = None
        self._lock = asyncio.Lock()
        self._rejected_digest: str | None = None
        self._folder_digest: str | None = None
        """Of the folder as it was loaded last; another server's workspace may have come after it."""
        self.recorded_seq = 0
        """Where the ledger says that the one in use was loaded."""
        self.unavailable: str | None = None
        """The workspace that is in force and cannot be loaded here."""
        self.on_adopted: Callable[[], Awaitable[None]] | None = None
        self.status = WorkspaceStatus()

    @property
    def current(self) -> CompiledWorkspace:
        """The workspace for a run that starts now; raises until one is loaded."""
        if self.loaded is None:
            raise HoldfastError("WORKSPACE_NOT_LOADED", "No workspace is loaded.", retryable=True)
        return self.loaded

    async def reload(self) -> WorkspaceStatus:
        """Read and compile the folder as it is now. The first call loads it; one at a time."""
        async with self._lock:
            files, result = await asyncio.to_thread(self._compile)
            self._files = files
            if isinstance(result, Compiled):
                await self._accept(result)
            else:
                await self._reject(files.digest, result)
            return self.status

    async def adopt(self, workspace: CompiledWorkspace, seq: int) -> None:
        """Another server loaded it: it is in force for this one as well, whatever this one's folder holds.

        Unless this one has loaded another meanwhile: the ledger, where this was recorded at `seq`, has the order.
        """
        async with self._lock:
            if seq <= self.recorded_seq:
                return
            self.loaded, self.unavailable, self.recorded_seq = workspace, None, seq
            self.status = replace(self.status, digest=workspace.digest, loaded_at_ms=self._clock.now_ms())
            if self.on_adopted is not None:
                await self.on_adopted()
            _log.info("workspace.adopted", digest=workspace.digest)

    async def watch(self, stop: asyncio.Event) -> None:
        """Reload on every change until `stop` is set. Survives the folder being replaced."""
        await _wait(stop, _WATCH_AFTER_SECONDS)
        while not stop.is_set():
            try:
                await self._watch_folder(stop, _identity(self._root))
            except OSError:
                await self.reload()
                await _wait(stop, _ROOT_GONE_SECONDS)

    async def _watch_folder(self, stop: asyncio.Event, identity: tuple[int, int]) -> None:
        import watchfiles

        changes = watchfiles.awatch(
            self._root,
            watch_filter=_concerns_us,
            debounce=DEBOUNCE_MS,
            step=20,
            stop_event=stop,
            rust_timeout=_LOOK_MS,
            yield_on_timeout=True,
        )
        following = asyncio.ensure_future(anext(changes, None))
        try:
            # In this order: once the watcher listens, the reload sees everything that changed before.
            await asyncio.sleep(0)
            await self.reload()
            while (change := await following) is not None:
                if change:
                    await self.reload()
                elif _identity(self._root) != identity:
                    return  # another folder has taken the place; the watcher still looks at the old one
                following = asyncio.ensure_future(anext(changes, None))
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    def _compile(self) -> tuple[WorkspaceFiles, Compiled | Diagnostics]:
        files = read_folder(self._root, self._files)
        return files, compile(files, self._catalog, profile=self._profile, cache=self._cache)

    async def _accept(self, result: Compiled) -> None:
        workspace = result.workspace
        recovered = self.status.rejected is not None
        # A folder that did not change is no reason to leave what another server loaded after it.
        changed = self.loaded is None or workspace.digest not in (self.loaded.digest, self._folder_digest)
        self._folder_digest, self._rejected_digest = workspace.digest, None
        if workspace.digest == self.unavailable:
            changed, self.unavailable = True, None
        if not changed:
            self.status = replace(self.status, rejected=None, rejected_at_ms=None)
            if recovered:
                await self._on_loaded(self.status)
            return
        self.loaded = workspace
        self.status = WorkspaceStatus(workspace.digest, self._clock.now_ms(), result.diagnostics)
        _log.info("workspace.loaded", digest=workspace.digest, warnings=len(result.diagnostics))
        await self._on_loaded(self.status)

    async def _reject(self, digest: str, diagnostics: Diagnostics) -> None:
        # A watcher may look twice at the same bad files; they are reported once.
        repeated = self._rejected_digest == digest and self.status.rejected == diagnostics
        self._rejected_digest = digest
        if repeated:
            return
        self.status = replace(self.status, rejected=diagnostics, rejected_at_ms=self._clock.now_ms())
        first = diagnostics.errors[0]
        _log.warning(
            "workspace.rejected",
            errors=len(diagnostics.errors),
            first=f"{first.place} {first.code}: {first.message}",
        )
        await self._on_rejected(self.status)


class WorkspaceHistory:
    """The workspace of any run: the current one, or the one whose files were kept when a run first used it."""

    def __init__(self, current: CurrentWorkspace, catalog: KindCatalog, archive: WorkspaceArchive) -> None:
        self._current = current
        self._catalog = catalog
        self._archive = archive
        self._kept: set[str] = set()
        self._keeping = asyncio.Lock()
        self._known: LRUCache[tuple[str, str | None], CompiledWorkspace] = LRUCache(MAX_OLD_WORKSPACES)
        self._code = RecentDict[str, str](MAX_CODES)

    async def for_new_run(self) -> CompiledWorkspace:
        """The current workspace, once its files are safe: nothing may refer to a digest that could be lost."""
        workspace = self._current.current
        if self._current.unavailable is not None:
            message = "The workspace that is in force cannot be loaded on this server."
            raise HoldfastError("WORKSPACE_UNAVAILABLE", message, retryable=True)
        if workspace.digest not in self._kept:
            async with self._keeping:  # the first run of many at once keeps it for all of them
                if workspace.digest not in self._kept:
                    await self._archive.put(workspace.digest, workspace.files.contents())
                    self._kept.add(workspace.digest)
        return workspace

    def cached(self, digest: str | None) -> CompiledWorkspace | None:
        """The one that nearly every run has, without waiting for it."""
        current = self._current.current
        return current if digest is None or digest == current.digest else None

    async def of(self, digest: str | None) -> CompiledWorkspace | None:
        """None if its files are gone or no longer compile; a run without a digest gets the current one."""
        current = self._current.current
        if digest is None or digest == current.digest:
            return current
        key = (digest, current.profile)
        known = self._known.get(key)
        if known is None:
            contents = await self._archive.get(digest)
            if contents is None:
                return None
            files = WorkspaceFiles.from_contents(contents)
            result = await asyncio.to_thread(compile, files, self._catalog, profile=current.profile, stored=True)
            if not isinstance(result, Compiled):
                return None
            known = self._known[key] = result.workspace
        return known

    async def code(self, workspace: CompiledWorkspace) -> str:
        """What stands for the code besides the workspace's own, as it was when the workspace was first used here."""
        known = self._code.get(workspace.digest)
        if known is None:
            known = await asyncio.to_thread(installed_code, workspace)
            self._code.put(workspace.digest, known)
        self._code.move_to_end(workspace.digest)  # what is in use stays
        return known

    async def code_changed(self, digest: str | None, accepted_with: str | None) -> bool | None:
        """Since a run of that workspace was accepted; None where that is unknown."""
        workspace = await self.of(digest) if accepted_with is not None else None
        return None if workspace is None else await self.code(workspace) != accepted_with


def _identity(root: Path) -> tuple[int, int]:
    info = root.stat()
    return info.st_dev, info.st_ino


def _concerns_us(change: object, path: str) -> bool:
    name = Path(path).name
    # A name without a suffix may be a folder that was moved in or away.
    return name.endswith(SUFFIXES) or ("." not in name and name != "__pycache__")


async def _wait(stop: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return
