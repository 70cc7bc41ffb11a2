"""What an event alone does not say and a frame shows: the thread's title, an interrupt's kind, the plan, the tokens.

Looked up in the store when an event needs it, and kept a short while because events come in rows. Bounded. Leaves to
others: which event needs what (the dialect).
"""

from dataclasses import dataclass, field
from typing import Final

from cachetools import LRUCache, TTLCache

from app.core.clock import Clock
from app.events.catalog.model import ModelCompleted
from app.events.envelope import Event
from app.protocols.dialects import codex
from app.protocols.dialects.codex_items import tokens_of
from app.views import todos
from app.views.ports import Reader
from app.views.thread import Thread

MAX_TITLES: Final = 4096
TITLE_SECONDS: Final = 5.0
"""A title is a label, not a fact of the event: that it is a few seconds old harms nobody."""
MAX_STORIES: Final = 512
_PAGE: Final = 1000


@dataclass(slots=True)
class Story:
    """A thread's plan and its tokens up to `seq`."""

    seq: int = 0
    plan: todos.Todos = field(default_factory=todos.Todos)
    tokens: dict[str, int] = field(default_factory=lambda: tokens_of({}))

    def apply(self, event: Event) -> None:
        self.seq = event.seq
        self.plan = todos.fold(self.plan, event)
        if event.type == ModelCompleted.type:
            used = tokens_of(event.payload["usage"])
            self.tokens = {name: count + used[name] for name, count in self.tokens.items()}


_UNKNOWN: Final = "\0unknown"


class EventContexts:
    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader = reader
        self._titles: TTLCache[tuple[str, str], str | None] = TTLCache(MAX_TITLES, TITLE_SECONDS, timer=clock.monotonic)
        self._stories: LRUCache[tuple[str, str, int], Story] = LRUCache(MAX_STORIES)
        """Two a thread: one for who listens live, one for who reads history; by thread and which of the two."""

    @property
    def titles(self) -> int:
        return len(self._titles)

    @property
    def stories(self) -> int:
        return len(self._stories)

    def cached(self, event: Event) -> codex.Known | None:
        """Without asking the store; None when it must be asked."""
        kind = event.type
        if kind in codex.NEEDS_INTERRUPT or kind in codex.NEEDS_STORY:
            return None
        if kind not in codex.NEEDS_TITLE:
            return codex.NOTHING
        title = self._titles.get((event.tenant, event.thread_id), _UNKNOWN)
        return codex.Known(title=title) if title is not _UNKNOWN else None

    async def of(self, event: Event) -> codex.Known:
        kind, tenant = event.type, event.tenant
        title = await self._title(tenant, event.thread_id) if kind in codex.NEEDS_TITLE else None
        if kind in codex.NEEDS_INTERRUPT:
            asked = await self._reader.interrupt(tenant, event.payload["interruptId"])
            return codex.Known(title, asked)
        if kind in codex.NEEDS_STORY:
            story = await self._story(event)
            return codex.Known(title, None, story.plan, story.tokens)
        return codex.Known(title)

    async def _title(self, tenant: str, thread_id: str) -> str | None:
        known = self._titles.get((tenant, thread_id), _UNKNOWN)
        if known is not _UNKNOWN:
            return known
        found = await self._reader.thread(tenant, thread_id)
        title = found.title if isinstance(found, Thread) else None
        self._titles[tenant, thread_id] = title
        return title

    async def _story(self, event: Event) -> Story:
        """The thread's story up to the event: goes on from the nearest known one before it, else from the start."""
        place = (event.tenant, event.thread_id)
        known = [(self._stories[*place, slot], slot) for slot in (0, 1) if (*place, slot) in self._stories]
        fitting = [(story.seq, slot) for story, slot in known if story.seq <= event.seq]
        slot = max(fitting)[1] if fitting else len(known) % 2
        # A copy, so that a second one who waits for the store below finds the old one whole.
        base = self._stories[*place, slot] if fitting else Story()
        story = Story(base.seq, base.plan, base.tokens)
        while story.seq < event.seq:
            page = await self._reader.events_of(
                event.tenant, event.thread_id, codex.FOLDED, story.seq, event.seq, _PAGE
            )
            for earlier in page:
                story.apply(earlier)
            if len(page) < _PAGE:
                story.seq = event.seq
        self._stories[*place, slot] = story
        return story
