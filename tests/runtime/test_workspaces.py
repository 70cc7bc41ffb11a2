"""The current workspace: swapped when good, kept when the files are bad, watched."""

import asyncio
from pathlib import Path

import pytest

from app.core.clock import ManualClock
from app.core.errors import HoldfastError
from app.runtime import workspaces
from app.runtime.workspaces import CurrentWorkspace, WorkspaceStatus
from tests.workspace.building import AGENT, GOOD, catalog

BOUND = 20  # seconds a test waits for the watcher before it fails


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


class Heard:
    """Collects what the callbacks are called with."""

    def __init__(self) -> None:
        self.calls: asyncio.Queue[tuple[str, WorkspaceStatus]] = asyncio.Queue()

    async def loaded(self, status: WorkspaceStatus) -> None:
        await self.calls.put(("loaded", status))

    async def rejected(self, status: WorkspaceStatus) -> None:
        await self.calls.put(("rejected", status))

    async def next(self) -> tuple[str, WorkspaceStatus]:
        return await asyncio.wait_for(self.calls.get(), BOUND)

    def all(self) -> list[str]:
        return [self.calls.get_nowait()[0] for _ in range(self.calls.qsize())]


def holder(root: Path, heard: Heard) -> CurrentWorkspace:
    return CurrentWorkspace(root, catalog(), ManualClock(), on_loaded=heard.loaded, on_rejected=heard.rejected)


def test_nothing_is_current_before_the_first_load(tmp_path: Path) -> None:
    with pytest.raises(HoldfastError, match="WORKSPACE_NOT_LOADED"):
        _ = holder(tmp_path, Heard()).current


async def test_good_change_swaps_and_who_holds_the_old_one_keeps_it(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    heard = Heard()
    spaces = holder(tmp_path, heard)
    await spaces.reload()
    before = spaces.current
    write(tmp_path, {"agents/helper.yaml": AGENT + "  maxTurns: 3\n"})
    status = await spaces.reload()
    assert spaces.current.agents["helper"].spec.max_turns == 3
    assert before.agents["helper"].spec.max_turns == 20
    assert status.digest == spaces.current.digest != before.digest
    assert heard.all() == ["loaded", "loaded"]


@pytest.mark.requirement("S24")
async def test_bad_change_keeps_the_old_workspace_and_says_so(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    heard = Heard()
    spaces = holder(tmp_path, heard)
    await spaces.reload()
    before = spaces.current
    write(tmp_path, {"agents/helper.yaml": AGENT.replace("main", "mian")})
    status = await spaces.reload()
    assert spaces.current is before
    assert status.digest == before.digest
    assert status.rejected is not None and status.rejected.items[0].code == "MODEL_UNKNOWN"
    assert heard.all() == ["loaded", "rejected"]


async def test_same_bad_files_are_reported_once_and_going_back_is_reported(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    heard = Heard()
    spaces = holder(tmp_path, heard)
    await spaces.reload()
    write(tmp_path, {"agents/helper.yaml": "a: ["})
    await spaces.reload()
    await spaces.reload()
    write(tmp_path, GOOD)
    status = await spaces.reload()
    assert status.rejected is None
    assert heard.all() == ["loaded", "rejected", "loaded"]


async def test_reload_without_a_change_notifies_nobody(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    heard = Heard()
    spaces = holder(tmp_path, heard)
    await spaces.reload()
    before = spaces.current
    await spaces.reload()
    assert spaces.current is before
    assert heard.all() == ["loaded"]


async def test_first_load_of_a_bad_folder_is_a_rejection(tmp_path: Path) -> None:
    heard = Heard()
    status = await holder(tmp_path / "nowhere", heard).reload()
    assert status.digest is None and status.rejected is not None
    assert heard.all() == ["rejected"]


@pytest.mark.requirement("CARD-3", "S24")
async def test_watcher_picks_up_good_and_bad_changes(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    heard = Heard()
    spaces = holder(tmp_path, heard)
    stop = asyncio.Event()
    watching = asyncio.create_task(spaces.watch(stop))
    try:
        assert (await heard.next())[0] == "loaded"
        write(tmp_path, {"agents/helper.yaml": AGENT + "  maxTurns: 5\n"})
        assert (await heard.next())[0] == "loaded"
        assert spaces.current.agents["helper"].spec.max_turns == 5
        write(tmp_path, {"agents/helper.yaml": AGENT + "  maxTurns: 0\n"})
        what, status = await heard.next()
        assert what == "rejected" and status.rejected is not None
        assert spaces.current.agents["helper"].spec.max_turns == 5
        write(tmp_path, {"agents/new/more.yaml": AGENT.replace("helper", "second"), "agents/helper.yaml": AGENT})
        while "second" not in spaces.current.agents:
            await heard.next()
    finally:
        stop.set()
        await asyncio.wait_for(watching, BOUND)


async def test_watcher_can_be_cancelled(tmp_path: Path) -> None:
    write(tmp_path, GOOD)
    heard = Heard()
    watching = asyncio.create_task(holder(tmp_path, heard).watch(asyncio.Event()))
    await heard.next()
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(watching, BOUND)


async def test_watcher_follows_a_folder_that_was_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspaces, "_LOOK_MS", 50)
    monkeypatch.setattr(workspaces, "_ROOT_GONE_SECONDS", 0.05)
    root = tmp_path / "space"
    write(root, GOOD)
    write(tmp_path / "next", {**GOOD, "agents/helper.yaml": AGENT + "  maxTurns: 7\n"})
    heard = Heard()
    spaces = holder(root, heard)
    stop = asyncio.Event()
    watching = asyncio.create_task(spaces.watch(stop))
    try:
        await heard.next()
        root.rename(tmp_path / "old")
        (tmp_path / "next").rename(root)
        while spaces.current.agents["helper"].spec.max_turns != 7:
            await heard.next()
        write(root, {"agents/helper.yaml": AGENT + "  maxTurns: 8\n"})
        while spaces.current.agents["helper"].spec.max_turns != 8:
            await heard.next()
    finally:
        stop.set()
        await asyncio.wait_for(watching, BOUND)
