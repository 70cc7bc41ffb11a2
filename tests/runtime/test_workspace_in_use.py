"""A running server and its workspace: good changes swap in, bad ones are reported and kept out, runs keep theirs."""

import asyncio
import shutil
from pathlib import Path

import pytest

from app.backends.contract import Context, Resume
from app.core.principal import LOCAL
from app.core.resources import shipped
from app.core.settings import Settings
from app.events.follow import follow
from app.runtime.intake.ledger import LEDGER_THREAD
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.submission import Submission
from app.views.run import Run
from app.wiring.runtime import Holdfast, open_holdfast

ECHO = "apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: NAME}\nspec: {backend: echo}\n"


def workspace(folder: Path) -> Path:
    root = folder / "workspace"
    shutil.copytree(shipped("workspaces") / "demo", root)
    return root


async def ledger(holdfast: Holdfast, type: str, after: int = 0) -> int:
    """Waits for the next ledger entry of a type; returns its seq."""
    store = holdfast.store
    async with asyncio.timeout(30):
        async for batch in follow(store.hub, store.reader.events, "default", LEDGER_THREAD, after):
            for event in batch:
                if event.type == type:
                    return event.seq
    raise AssertionError("the ledger ended")


def rejected(holdfast: Holdfast) -> bool:
    return holdfast.workspace.status.rejected is not None


def accepted(answer: Run | Rejected) -> Run:
    assert isinstance(answer, Run), answer
    return answer


@pytest.mark.requirement("SH-1", "S24", "CARD-3")
async def test_a_good_change_is_taken_up_and_a_bad_one_is_reported_and_kept_out(
    settings: Settings, tmp_path: Path
) -> None:
    root = workspace(tmp_path)
    async with open_holdfast(settings.model_copy(update={"workspace": root})) as holdfast:
        first = holdfast.workspace.current.digest
        seq = await ledger(holdfast, "runtime.workspace.loaded")
        assert isinstance(await holdfast.service.submit(LOCAL, Submission("parrot", "hi")), Rejected)

        (root / "agents" / "parrot.yaml").write_text(ECHO.replace("NAME", "parrot"))
        seq = await ledger(holdfast, "runtime.workspace.loaded", seq)
        run = accepted(await holdfast.service.submit(LOCAL, Submission("parrot", "hi")))
        assert run.workspace_digest == holdfast.workspace.current.digest != first

        (root / "agents" / "parrot.yaml").write_text("kind: [")
        seq = await ledger(holdfast, "runtime.workspace.rejected", seq)
        assert rejected(holdfast)
        accepted(await holdfast.service.submit(LOCAL, Submission("parrot", "still here")))

        (root / "agents" / "parrot.yaml").unlink()
        await ledger(holdfast, "runtime.workspace.loaded", seq)
        assert not rejected(holdfast)
        assert holdfast.workspace.current.digest == first, "same files, same digest"


class Recording:
    """A backend that notes which attempt it is, and never comes to an end the first time."""

    kind = "echo"
    resume: Resume = "restart"

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.hang = True

    async def run(self, ctx: Context) -> str:
        self.started.set()
        if self.hang:
            await asyncio.Event().wait()
        return "done"


@pytest.mark.requirement("OS-I4", "G5")
async def test_a_run_resumes_with_the_workspace_it_started_with(settings: Settings, tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / "agents" / "parrot.yaml").write_text(ECHO.replace("NAME", "parrot"))
    used = settings.model_copy(update={"workspace": root})
    backend = Recording()
    async with open_holdfast(used, backends={"echo": backend}) as holdfast:
        run = accepted(await holdfast.service.submit(LOCAL, Submission("parrot", "hi")))
        await asyncio.wait_for(backend.started.wait(), 30)
        await holdfast.executor.drain(0)
    (root / "agents" / "parrot.yaml").unlink()
    backend.hang = False
    async with open_holdfast(used, backends={"echo": backend}) as holdfast:
        assert "parrot" not in holdfast.workspace.current.agents
        store = holdfast.store
        async with asyncio.timeout(30):
            async for batch in follow(store.hub, store.reader.events, "default", run.thread_id, 0):
                if batch[-1].type == "runtime.request.completed":
                    break
        ended = await store.reader.run("default", run.id)
        assert ended is not None and (ended.status, ended.output, ended.epoch) == ("completed", "done", 2)
        assert ended.workspace_digest == run.workspace_digest


async def test_a_server_with_a_broken_workspace_does_not_start_and_names_the_mistake(tmp_path: Path) -> None:
    root = workspace(tmp_path)
    (root / "agents" / "echo.yaml").write_text("kind: Agent\n")
    from app.core.errors import HoldfastError

    with pytest.raises(HoldfastError, match=r"agents/echo\.yaml") as raised:
        async with open_holdfast(Settings(data_dir=tmp_path / "data", workspace=root)):
            pass
    assert raised.value.code == "WORKSPACE_INVALID"
