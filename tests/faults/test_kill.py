"""`kill -9` at random moments and at named points: what was acknowledged is there, in order, once."""

import asyncio
import random
from pathlib import Path

import pytest

from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events.follow import follow
from app.wiring.store import Store, open_store
from tests.faults.audit import SeenEvent, audit, read_seen_events
from tests.faults.conftest import Count
from tests.faults.loader import SHARED
from tests.faults.points import POINTS
from tests.faults.processes import flags, started

LATEST_KILL = 0.4
"""Seconds under load: some hundred commits on either database."""
EARLY_KILLS = 8
"""One in so many dies while it still starts or opens the log."""
LATEST_EARLY_KILL = 1.5


@pytest.mark.requirement("G1", "G2", "G3", "G19", "G22", "PX-1")
@pytest.mark.parametrize(
    "trials", [5, pytest.param(100, marks=[pytest.mark.faults, pytest.mark.timeout(3000)])], ids="{}-kills".format
)
async def test_a_killed_writer_loses_nothing_it_acknowledged(
    settings: Settings, tmp_path: Path, trials: int, count: Count
) -> None:
    chance = random.Random(20_240_229)
    acknowledged: list[SeenEvent] = []
    published: list[SeenEvent] = []
    for trial in range(trials):
        notes = tmp_path / f"notes-{trial}"
        async with started("tests.faults.loader", *flags(settings), "--notes", str(notes)) as loader:
            early = trial % EARLY_KILLS == EARLY_KILLS - 1
            if not early:
                await loader.line("loading")
            # Not a wait for anything: the random moment is the fault itself.
            await asyncio.sleep(chance.uniform(0.0, LATEST_EARLY_KILL if early else LATEST_KILL))
            await loader.kill()
        answered, shown = read_seen_events(notes / "acknowledged"), read_seen_events(notes / "published")
        # This trial's own threads at once; the shared ones go through all the kills and are read at the end.
        own = {one.thread_id for one in (*answered, *shown)} - set(SHARED)
        async with open_store(settings) as store:
            found = await audit(store, (t for t in answered if t.thread_id in own),
                                (t for t in shown if t.thread_id in own), own)  # fmt: skip
        found.assert_sound()
        acknowledged += answered
        published += shown
    async with open_store(settings) as store:
        figures = await audit(store, acknowledged, published)
    figures.trials = trials
    assert figures.acknowledged > 20 * trials, "the load was too small to show anything"
    count(figures)


@pytest.mark.requirement("G1", "G2", "G3", "G22", "PX-1")
@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_at_a_named_point_loses_nothing_and_shows_nothing_unstored(
    settings: Settings, tmp_path: Path, point: str, count: Count
) -> None:
    notes = tmp_path / "notes"
    async with started("tests.faults.loader", *flags(settings), "--notes", str(notes), "--point", point) as loader:
        await loader.line("loading")
        assert await loader.end() == -9, loader.said
    acknowledged, published = read_seen_events(notes / "acknowledged"), read_seen_events(notes / "published")
    assert acknowledged and set(acknowledged) <= set(published), "an answer came before its event was published"
    async with open_store(settings) as store:
        figures = await audit(store, acknowledged, published)
        await _assert_a_resuming_subscriber_misses_nothing(store, published)
    if point in ("before_work", "before_commit"):
        assert figures.stored == len(published), "a transaction that was never committed left something behind"
    elif point in ("after_commit", "before_publish"):
        assert figures.stored > len(published), "the point lies between commit and publish"
    count(figures)


async def _assert_a_resuming_subscriber_misses_nothing(store: Store, published: list[SeenEvent]) -> None:
    """From the last event it was shown before the kill, it is shown all that is stored, each once."""
    last_shown: dict[str, int] = {}
    for known in published:
        assert known.seq == last_shown.get(known.thread_id, 0) + 1
        last_shown[known.thread_id] = known.seq
    for _, thread_id, last_seq in await store.reader.threads():
        after = last_shown.get(thread_id, 0)
        if after == last_seq:
            continue
        seen: list[int] = []
        async with asyncio.timeout(30):
            async for batch in follow(store.hub, store.reader.events, DEFAULT_TENANT, thread_id, after):
                seen += [event.seq for event in batch]
                if seen[-1] >= last_seq:
                    break
        assert seen == list(range(after + 1, last_seq + 1))
