"""What an event alone does not say and a frame shows: the thread's title and project, an interrupt's kind, the plan,
the tokens, and the items of a turn.

Looked up in the store when an event needs it, and kept because events come in rows: whoever hears every event of a
thread folds them as they come and asks the store for nothing. Bounded. Leaves to others: which event needs what (the
dialect).
"""

from dataclasses import field
from typing import Final

from cachetools import LRUCache, TTLCache

from app.core.clock import Clock
from app.core.value import mutable
from app.events.catalog.model import ModelCompleted
from app.events.envelope import Event
from app.protocols.dialects import codex
from app.protocols.dialects import codex_lifecycle as lifecycle
from app.protocols.dialects.codex_items import tokens_of
from app.views import todos
from app.views.controls import project_of
from app.views.ports import Reader
from app.views.thread import Thread

MAX_TITLES: Final = 4096
TITLE_SECONDS: Final = 5.0
"""A title is a label, not a fact of the event: that it is a few seconds old harms nobody."""
MAX_STORIES: Final = 16_384
"""Of threads that are streamed at once; beyond that, events of the least used ones ask the store."""
_PAGE: Final = 1000


@mutable(slots=True)
class Story:
    """A thread's plan, its tokens and the items of its turns up to `seq`. Its values are replaced, never changed."""

    seq: int = 0
    plan: todos.Todos = field(default_factory=todos.Todos)
    tokens: dict[str, int] = field(default_factory=lambda: tokens_of({}))
    items: lifecycle.Items = field(default_factory=dict)
    moves: tuple[lifecycle.Transition, ...] = ()
    """What the event at `seq` did to the items."""

    def apply(self, event: Event) -> None:
        self.seq = event.seq
        self.items, self.moves = lifecycle.advance(self.items, event)
        if event.type not in _TODOS:
            return
        self.plan = todos.fold(self.plan, event)
        if event.type == ModelCompleted.type:
            used = tokens_of(event.payload["usage"])
            self.tokens = {name: count + used[name] for name, count in self.tokens.items()}

    def copy(self) -> "Story":
        return Story(self.seq, self.plan, self.tokens, self.items, self.moves)

    def known(self, label: "Label") -> codex.Known:
        return codex.Known(label[0], None, self.plan, self.tokens, self.moves, label[1])


_TODOS: Final = frozenset({*todos.FOLDED, ModelCompleted.type})
_MAX_DELTA_PAGES: Final = 20
"""Of the deltas of a turn that is joined in its middle, how many pages are looked through for items that they began."""
Label = tuple[str | None, str | None]
"""A session's title and its project."""
_NO_LABEL: Final[Label] = (None, None)


class EventContexts:
    def __init__(self, reader: Reader, clock: Clock) -> None:
        self._reader = reader
        self._titles: TTLCache[tuple[str, str], Label] = TTLCache(MAX_TITLES, TITLE_SECONDS, timer=clock.monotonic)
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
        story = self._next(event)
        if kind in codex.NEEDS_INTERRUPT or (kind in codex.NEEDS_STORY and story is None):
            return None
        if kind not in codex.NEEDS_TITLE:
            return codex.NOTHING
        label = self._titles.get((event.tenant, event.thread_id))
        if label is None:
            return None
        return codex.Known(title=label[0], project=label[1]) if story is None else story.known(label)

    def _next(self, event: Event) -> Story | None:
        """The story with the event, if it is known up to the event before it, or up to this one."""
        for slot in (0, 1):
            key = (event.tenant, event.thread_id, slot)
            story = self._stories.get(key)
            if story is None and event.seq == 1 and slot == 0:
                story = Story()
            if story is not None and story.seq == event.seq:
                return story
            if story is not None and story.seq == event.seq - 1:
                after = self._stories[key] = story.copy()
                after.apply(event)
                return after
        return None

    async def of(self, event: Event) -> codex.Known:
        kind, tenant = event.type, event.tenant
        label = await self._label(tenant, event.thread_id) if kind in codex.NEEDS_TITLE else _NO_LABEL
        if kind in codex.NEEDS_INTERRUPT:
            asked = await self._reader.interrupt(tenant, event.payload["interruptId"])
            return codex.Known(label[0], asked, project=label[1])
        if kind in codex.NEEDS_STORY:
            return (self._next(event) or await self._story(event)).known(label)
        return codex.Known(label[0], project=label[1])

    async def _label(self, tenant: str, thread_id: str) -> Label:
        known = self._titles.get((tenant, thread_id))
        if known is not None:
            return known
        found = await self._reader.thread(tenant, thread_id)
        label = (found.title, project_of(found.metadata)) if isinstance(found, Thread) else _NO_LABEL
        self._titles[tenant, thread_id] = label
        return label

    async def _story(self, event: Event) -> Story:
        """The thread's story up to the event: goes on from the nearest known one before it, else from the start."""
        place = (event.tenant, event.thread_id)
        known = [(self._stories[*place, slot], slot) for slot in (0, 1) if (*place, slot) in self._stories]
        fitting = [(story.seq, slot) for story, slot in known if story.seq <= event.seq]
        slot = max(fitting)[1] if fitting else len(known) % 2
        # A copy, so that a second one who waits for the store below finds the old one whole.
        story = self._stories[*place, slot].copy() if fitting else Story()
        known_until, before = story.seq, event.seq - 1
        while story.seq < before:
            page = await self._reader.events_of(event.tenant, event.thread_id, codex.FOLDED, story.seq, before, _PAGE)
            for earlier in page:
                story.apply(earlier)
            if len(page) < _PAGE:
                story.seq = before
        await self._begun_by_deltas(event, story, known_until)
        if story.seq < event.seq:
            story.apply(event)
        self._stories[*place, slot] = story
        return story

    async def _begun_by_deltas(self, event: Event, story: Story, known_until: int) -> None:
        """Items of open turns that only deltas speak of."""
        if not story.items or known_until >= event.seq - 1:
            return
        after = max(known_until, min(run.since for run in story.items.values()) - 1)
        for _ in range(_MAX_DELTA_PAGES):
            page = await self._reader.events_of(
                event.tenant, event.thread_id, (lifecycle.DELTAS,), after, event.seq - 1, _PAGE
            )
            for delta in page:
                if delta.run_id in story.items:
                    story.items, _ = lifecycle.advance(story.items, delta)
            if len(page) < _PAGE:
                return
            after = page[-1].seq
