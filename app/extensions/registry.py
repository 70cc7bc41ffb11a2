"""Which extensions are in use: loaded at the start, loaded again on request, all of them or none.

Leaves to others: what an extension is (`loader`), what it does with events (`dispatch`), who may ask (the protocols).
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from app.core.clock import Clock
from app.core.ids import new_id
from app.core.principal import DEFAULT_TENANT, Principal
from app.core.value import value
from app.events.catalog.extension import ExtensionsReloaded
from app.events.recorder import Recorder
from app.extensions.actions import ExtensionActions
from app.extensions.dispatch import ExtensionConsumer, ExtensionSet
from app.extensions.loader import ExtensionLoader, Loaded
from app.extensions.manifest import ExtensionInvalid
from app.runtime.automation.follower import LogFollower
from app.runtime.intake.ledger import Ledger
from app.views.ports import Reader

log = structlog.get_logger("holdfast.extensions")

_FIRST: Final = ExtensionSet(0, 0)


@value(frozen=True, slots=True)
class Reload:
    """What became of a reload."""

    id: str
    snapshot: ExtensionSet
    errors: tuple[ExtensionInvalid, ...] = ()


class ExtensionRegistry:
    def __init__(
        self,
        loader: ExtensionLoader,
        follower: LogFollower,
        recorder: Recorder,
        reader: Reader,
        actions: ExtensionActions,
        ledger: Ledger,
        clock: Clock,
    ) -> None:
        self._loader, self._follower, self._recorder, self._reader = loader, follower, recorder, reader
        self._actions, self._ledger, self._clock = actions, ledger, clock
        self._reloading = asyncio.Lock()
        self._consumer: ExtensionConsumer | None = None
        self.snapshot = _FIRST
        self.errors: tuple[ExtensionInvalid, ...] = ()
        """Of the first load, which passes over what is wrong."""
        self.on_reloaded: Callable[[], None] = lambda: None
        """Called when somebody had the extensions of this server loaded again: the other servers load theirs."""

    @property
    def suspended(self) -> list[tuple[str, int]]:
        return [] if self._consumer is None else self._consumer.suspended

    async def start(self) -> None:
        """What cannot be loaded is left out, and said so: one bad extension keeps no server from starting."""
        loaded = await self._loader.load({})
        self.errors = loaded.errors
        for error in loaded.errors:
            log.warning("extension.rejected", extension=error.extension, code=error.code, message=error.message)
        await self._use(loaded)

    async def reload(self, who: Principal, origin: Mapping[str, str]) -> Reload | None:
        """None while another one is under way. With any error the old set stays in use."""
        if self._reloading.locked():
            return None
        done = await self._reload(who.tenant, who.actor, origin)
        if not done.errors:
            self.on_reloaded()
        return done

    async def follow(self) -> None:
        """Another server was asked to reload. With any error this one keeps its set; the ledger says so."""
        done = await self._reload(DEFAULT_TENANT, "system", {"server": "another one was asked to reload"})
        for error in done.errors:
            log.warning("extension.rejected", extension=error.extension, code=error.code, message=error.message)

    async def _reload(self, tenant: str, actor: str, origin: Mapping[str, str]) -> Reload:
        async with self._reloading:
            before, reload_id = self.snapshot, new_id("step").replace("step_", "reload_")
            known = {one.found.digest: one for one in before.extensions}
            loaded = await self._loader.load(known)
            if not loaded.errors:
                await self._use(loaded)
                self.errors = ()
            failed = bool(loaded.errors)
            names = {one.module for one in (*before.extensions, *loaded.extensions)}
            audit = ExtensionsReloaded(
                reload_id=reload_id,
                result="failed" if failed else "success",
                snapshot_before=before.version,
                snapshot_after=None if failed else self.snapshot.version,
                trust_mode=self._loader.mode,
                errors=[{"extension": one.extension, "code": one.code, "message": one.message} for one in loaded.errors]
                or None,
                extensions=sorted(names | {one.extension for one in loaded.errors}),
                origin=dict(origin) or None,
            )
            await self._ledger.record(tenant, audit, actor=actor)
            return Reload(reload_id, self.snapshot, loaded.errors)

    async def _use(self, loaded: Loaded) -> None:
        """From here on events go to the new set; a pass that is under way is not interrupted, and ends with the old
        one: reloads in a row would otherwise let no pass come to its end."""
        snapshot = ExtensionSet(self.snapshot.version + 1, self._clock.now_ms(), loaded.extensions)
        if snapshot.types and self._consumer is not None:
            if snapshot.types != self._consumer.types:
                await self._follower.want(ExtensionConsumer.name, snapshot.types)
            self._consumer.use(snapshot)
        elif snapshot.types:
            consumer = ExtensionConsumer(snapshot, self._recorder, self._reader, self._actions)
            await self._follower.add(consumer)
            self._consumer = consumer
        else:
            await self._follower.remove(ExtensionConsumer.name)
            self._consumer = None
        self.snapshot = snapshot
