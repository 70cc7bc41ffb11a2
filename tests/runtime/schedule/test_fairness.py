"""Many runs at once through the real runtime: in turn by tenant, within an agent's limit, refused when too many."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from app.backends.contract import Context, Resume
from app.core.principal import LOCAL, Principal
from app.core.resources import shipped
from app.core.settings import Settings
from app.runtime.intake.submission import Submission
from app.views.run import Run
from app.wiring.runtime import Holdfast, open_holdfast
from tests.faults.listening import Listener
from tests.server import in_process
from tests.waiting import until

LOUD, QUIET = Principal("loud", tenant="loud"), Principal("quiet", tenant="quiet")


class Gate:
    """A backend whose runs work until they are let through; it keeps who began, and how many worked at once."""

    kind = "echo"
    resume: Resume = "restart"

    def __init__(self, *, open: bool = False) -> None:
        self.began: list[str] = []
        self.inside = self.most = 0
        self._open = asyncio.Event()
        if open:
            self._open.set()

    def let_through(self) -> None:
        self._open.set()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            yield
        finally:
            self.inside -= 1

    async def run(self, ctx: Context) -> str:
        self.began.append(str(ctx.input))
        with self._counted():
            await self._open.wait()
            await ctx.say("msg", "through")
        return "through"


async def submit(holdfast: Holdfast, who: Principal, text: str, thread_id: str | None = None) -> Run:
    wanted = Submission("echo", text, thread_id=thread_id, create_thread=True)
    run = await holdfast.service.submit(who, wanted)
    assert isinstance(run, Run), run
    return run


@pytest.mark.requirement("HK-31")
async def test_a_tenant_with_one_run_does_not_wait_for_all_of_another_s(settings: Settings) -> None:
    gate = Gate()
    narrow = settings.model_copy(update={"max_concurrent_runs": 1})
    async with open_holdfast(narrow, backends={"echo": gate}) as holdfast:
        for number in range(5):
            await submit(holdfast, LOUD, f"loud {number}")
        await submit(holdfast, QUIET, "quiet")
        gate.let_through()
        async with asyncio.timeout(30):
            await until(lambda: len(gate.began) == 6)
            await holdfast.executor.idle()
        assert gate.began.index("quiet") <= 2, gate.began


@pytest.mark.requirement("HK-31")
async def test_an_agent_s_concurrency_bounds_its_runs_and_nobody_else_s(settings: Settings, tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    shutil.copytree(shipped("workspaces") / "demo", root)
    spec = "{backend: native, model: demo, concurrency: 2}"
    (root / "agents" / "narrow.yaml").write_text(
        f"apiVersion: holdfast/v1\nkind: Agent\nmetadata: {{name: narrow}}\nspec: {spec}\n"
    )
    narrow, free = Gate(), Gate()
    chosen = settings.model_copy(update={"workspace": root})
    async with open_holdfast(chosen, backends={"native": narrow, "echo": free}) as holdfast:
        listener = Listener(holdfast.store.hub)
        wanted = [Submission(agent, "go") for agent in ["narrow"] * 12 + ["echo"] * 12]
        runs = [await holdfast.service.submit(LOCAL, one) for one in wanted]
        ids = [run.id for run in runs if isinstance(run, Run)]
        assert len(ids) == 24
        await until(lambda: free.inside == 12 and narrow.inside == 2)
        narrow.let_through()
        free.let_through()
        await listener.until(ids)
        listener.assert_one_end_each(ids)
    assert narrow.most == 2 and len(narrow.began) == 12


async def test_the_runs_of_a_thread_follow_each_other_at_once_and_in_order(settings: Settings) -> None:
    gate = Gate(open=True)
    async with open_holdfast(settings, backends={"echo": gate}) as holdfast:
        listener = Listener(holdfast.store.hub)
        runs = [await submit(holdfast, LOCAL, str(number), "thr_one") for number in range(20)]
        await listener.until([run.id for run in runs])
    assert gate.began == [str(number) for number in range(20)] and gate.most == 1


@pytest.mark.requirement("G14", "HK-31")
async def test_an_overloaded_server_refuses_with_a_time_to_come_back_and_still_cancels(settings: Settings) -> None:
    gate = Gate()
    small = {"max_concurrent_runs": 1, "max_queued_runs": 2, "max_queued_runs_per_tenant": 2}
    async with (
        in_process(settings.model_copy(update=small), {"echo": gate}) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=20, verify=False) as http,
    ):
        body = {"agent": "echo", "input": "hello"}
        accepted = [(await http.post("/api/runs", json=body)) for _ in range(3)]
        assert [answer.status_code for answer in accepted] == [202] * 3
        refused = await http.post("/api/runs", json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "SERVER_BUSY")
        assert int(refused.headers["retry-after"]) >= 1
        assert (await http.get("/healthz")).status_code == 200
        waiting = accepted[-1].json()["id"]
        assert (await http.post(f"/api/runs/{waiting}/cancel")).json()["status"] == "cancelled"
        gate.let_through()
        ended = [await _ended(http, answer.json()["id"]) for answer in accepted]
        assert ended == ["completed", "completed", "cancelled"], "nothing accepted is dropped"
        assert (await http.post("/api/runs", json=body)).status_code == 202


@pytest.mark.requirement("G14", "HK-31")
async def test_a_tenant_over_its_own_limit_is_refused_and_others_are_served(settings: Settings) -> None:
    gate = Gate()
    small = {"max_concurrent_runs": 1, "max_queued_runs": 10, "max_queued_runs_per_tenant": 2}
    async with open_holdfast(settings.model_copy(update=small), backends={"echo": gate}) as holdfast:
        for number in range(3):
            await submit(holdfast, LOUD, f"loud {number}")
        refused = await holdfast.service.submit(LOUD, Submission("echo", "one more"))
        assert not isinstance(refused, Run) and refused.failure.code == "TENANT_BUSY"
        quiet = await submit(holdfast, QUIET, "quiet")
        gate.let_through()
        await until(lambda: "quiet" in gate.began)
        await holdfast.executor.idle()
        done = await holdfast.store.reader.run("quiet", quiet.id)
        assert done is not None and done.status == "completed"


async def _ended(http: httpx2.AsyncClient, run_id: str) -> str:
    async with asyncio.timeout(30):
        while True:
            run = (await http.get(f"/api/runs/{run_id}")).json()
            if run["finishedAt"] is not None:
                return str(run["status"])
