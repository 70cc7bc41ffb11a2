"""What an approval allows, against models that choose their call ids: one call of one run, or a session's, and no more.

The server runs in `header` mode, so that several people can take part.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from app.runtime.schedule.run_leases import LEASE_SECONDS
from tests.server import ServerProcess

ACT: Final = '''
from pathlib import Path

def _act(name, target):
    with Path("{path}").open("a") as lines:
        lines.write(f"{{name}} {{target}}\\n")
    return "done"

def publish(target: str) -> str:
    """Publish."""
    return _act("publish", target)

def destroy(target: str) -> str:
    """Destroy."""
    return _act("destroy", target)

def pay(target: str) -> str:
    """Pay."""
    return _act("pay", target)

def transfer(target: str) -> str:
    """Transfer."""
    return _act("transfer", target)

def look(target: str) -> str:
    """Look."""
    return _act("look", target)
'''


def _tool(name: str, approval: str) -> str:
    return f"""---
apiVersion: holdfast/v1
kind: Tool
metadata: {{name: {name}}}
spec:
  kind: python
  entry: act:{name}
  effect: unsafe
  approval: {approval}
  input: {{type: object, required: [target], additionalProperties: false, properties: {{target: {{type: string}}}}}}
"""


def _agent(name: str, more: str = "") -> str:
    return f"""---
apiVersion: holdfast/v1
kind: Agent
metadata: {{name: {name}}}
spec:
  model: script
  maxTurns: 9
  {more}
"""


TOOLS = (
    _tool("publish", "always") + _tool("destroy", "always") + _tool("look", "never")
    + _tool("pay", "{when: always, approver: other}")
    + _tool("transfer", '{when: args.target != "safe", approver: "role:treasurer"}')
)  # fmt: skip

AGENTS = (
    _agent("single", "tools: [publish, destroy, pay, transfer]\n  parallelTools: false")
    + _agent("several", "tools: [publish, destroy, look]")
    + _agent("parent", "tools: [look]\n  subagents: [child]")
    + _agent("giver", "tools: [look]\n  subagents: [{agent: child, tools: [publish]}]")
    + _agent("grandparent", "tools: [look]\n  subagents: [giver]")
    + _agent("child", "tools: [publish, look]")
)


def _call(name: str, target: str, call_id: str | None) -> str:
    made = f"name: {name}, args: {{target: {target}}}"
    return f"{{{made}}}" if call_id is None else f"{{id: {call_id}, {made}}}"


def _rule(match: str, reply: str) -> str:
    return f"      - match: {{{match}}}\n        reply: {reply}\n"


def _script(long_id: str) -> str:
    x = '"x"'
    rules = ""
    # One id for two tools, one after the other.
    rules += _rule("equals: swap, turn: 1", f"{{toolCalls: [{_call('publish', 'R1', x)}]}}")
    rules += _rule("equals: swap, turn: 2", f"{{toolCalls: [{_call('destroy', 'R1', x)}]}}")
    # One id, again and again.
    rules += _rule("equals: again, turn: 6", "{text: finished}")
    rules += _rule("equals: again", f"{{toolCalls: [{_call('publish', 'R2', x)}]}}")
    # Two calls of one id in one answer.
    twins = f"{_call('publish', 'R3', x)}, {_call('destroy', 'R3', x)}"
    rules += _rule("equals: twins, turn: 1", f"{{toolCalls: [{twins}]}}")
    # Ids that are no ids.
    odd = ", ".join(
        _call("look", f"R4-{number}", call_id)
        for number, call_id in enumerate(('""', '" "', '"\\u0001\\u001b[2J"', f'"{long_id}"', '"agent-1"', x, x))
    )
    rules += _rule("equals: odd, turn: 1", f"{{toolCalls: [{odd}]}}")
    for tool, target in (("pay", "R5"), ("transfer", "R6")):
        rules += _rule(f"equals: {tool}, turn: 1", f"{{toolCalls: [{_call(tool, target, x)}]}}")
    rules += _rule("equals: publish, turn: 1", f"{{toolCalls: [{_call('publish', 'R7', x)}]}}")
    # A parent asks its subagent, which tries a tool that the parent lacks.
    ask = '{toolCalls: [{name: child, args: {input: "publish"}}]}'
    rules += _rule("equals: delegate, turn: 1", ask)
    rules += _rule("equals: pass, turn: 1", '{toolCalls: [{name: giver, args: {input: "delegate"}}]}')
    return f"""apiVersion: holdfast/v1
kind: Model
metadata: {{name: script}}
spec:
  provider: scripted
  model: script
  capabilities: {{tools: true, parallelTools: true}}
  script:
    rules:
{rules}    default: {{text: "finished: {{{{ toolResult }}}}"}}
"""


class ApprovalSetup:
    def __init__(self, server: ServerProcess, witness: Path) -> None:
        self.server, self._witness = server, witness

    def acted(self, target: str) -> list[str]:
        lines = self._witness.read_text().splitlines() if self._witness.exists() else []
        return [name for name, found in (line.split() for line in lines) if found.startswith(target)]

    @asynccontextmanager
    async def caller(self, name: str, roles: str = "member") -> AsyncIterator[httpx2.AsyncClient]:
        headers = {"x-holdfast-user": name, "x-holdfast-roles": roles}
        async with httpx2.AsyncClient(base_url=self.server.url, headers=headers, timeout=60) as client:
            yield client


@pytest.fixture(scope="module")
def setup(settings: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApprovalSetup]:
    folder = tmp_path_factory.mktemp("approvals")
    witness = folder / "witness.txt"
    workspace = folder / "workspace"
    workspace.mkdir()
    (workspace / "act.py").write_text(ACT.format(path=witness))
    (workspace / "all.yaml").write_text(_script("i" * 100_000) + TOOLS + AGENTS)
    (workspace / "runtime.yaml").write_text(
        "apiVersion: holdfast/v1\nkind: Runtime\nmetadata: {name: runtime}\nspec: {defaultAgent: single}\n"
    )
    variables = {"HOLDFAST_AUTH": "header", "HOLDFAST_TRUSTED_PROXIES": "127.0.0.1"}
    server = ServerProcess.start(settings.data_dir, settings.database_url, workspace, variables)
    try:
        setup = ApprovalSetup(server, witness)
        yield setup
    finally:
        setup.server.stop()


async def begin(client: httpx2.AsyncClient, agent: str, text: str, **more: Any) -> dict[str, Any]:
    answer = await client.post("/api/runs?wait=20", json={"agent": agent, "input": text, **more})
    assert answer.status_code in (200, 202) and answer.json()["status"] != "failed", answer.text
    run: dict[str, Any] = answer.json()
    return run


async def settled(client: httpx2.AsyncClient, run_id: str, before: tuple[str, ...] = ()) -> dict[str, Any]:
    """The run when it has ended or waits for something new: after a kill within the time of a lease and 5 s (G5)."""
    deadline = time.monotonic() + LEASE_SECONDS + 5.0
    while time.monotonic() < deadline:
        answer = await client.get(f"/api/runs/{run_id}")
        assert answer.status_code == 200, answer.text
        run: dict[str, Any] = answer.json()
        if run["finishedAt"] is not None or set(run["waitingOn"]) - set(before):
            return run
        await asyncio.sleep(0.02)
    raise AssertionError("the run neither ended nor waits")


async def decide(client: httpx2.AsyncClient, interrupt_id: str, decision: str, **more: Any) -> httpx2.Response:
    return await client.post(f"/api/interrupts/{interrupt_id}/answer", json={"decision": decision, **more})


async def call_ids(client: httpx2.AsyncClient, run_id: str) -> list[str]:
    events = (await client.get(f"/api/runs/{run_id}/events?limit=1000")).json()["items"]
    return [event["payload"]["callId"] for event in events if event["type"] == "runtime.tool.invoked"]


@pytest.mark.requirement("G9")
async def test_an_approval_of_one_tool_does_not_let_another_run_under_the_same_id(setup: ApprovalSetup) -> None:
    async with setup.caller("anna") as anna:
        run = await begin(anna, "single", "swap")
        (first,) = run["waitingOn"]
        assert (await decide(anna, first, "approve")).status_code == 200
        run = await settled(anna, run["id"], (first,))
        assert run["status"] == "waiting" and setup.acted("R1") == ["publish"]
        (second,) = run["waitingOn"]
        asked = (await anna.get(f"/api/interrupts/{second}")).json()
        assert asked["tool"] == "destroy" and asked["callId"] != "x"
        await decide(anna, second, "deny")
        run = await settled(anna, run["id"], (first, second))
        assert run["status"] == "completed" and setup.acted("R1") == ["publish"]


@pytest.mark.requirement("G9")
async def test_an_approval_is_used_once_however_often_a_model_repeats_its_call(setup: ApprovalSetup) -> None:
    async with setup.caller("anna") as anna:
        run = await begin(anna, "single", "again")
        seen: tuple[str, ...] = ()
        for number in range(5):
            (asked,) = run["waitingOn"]
            assert len(setup.acted("R2")) == number
            await decide(anna, asked, "approve")
            seen = (*seen, asked)
            run = await settled(anna, run["id"], seen)
        assert run["output"] == "finished" and len(setup.acted("R2")) == 5
        assert len(set(seen)) == 5


@pytest.mark.requirement("G9")
async def test_of_two_calls_with_one_id_in_one_answer_only_the_approved_one_runs(setup: ApprovalSetup) -> None:
    async with setup.caller("anna") as anna:
        run = await begin(anna, "several", "twins")
        run = await settled(anna, run["id"], tuple(run["waitingOn"])) if len(run["waitingOn"]) < 2 else run
        asked = {}
        for interrupt in run["waitingOn"]:
            found = (await anna.get(f"/api/interrupts/{interrupt}")).json()
            asked[found["tool"]] = found
        assert set(asked) == {"publish", "destroy"} and asked["publish"]["callId"] != asked["destroy"]["callId"]
        await decide(anna, asked["destroy"]["id"], "deny")
        await decide(anna, asked["publish"]["id"], "approve")
        run = await settled(anna, run["id"], tuple(one["id"] for one in asked.values()))
        assert run["status"] == "completed" and setup.acted("R3") == ["publish"]


@pytest.mark.requirement("G9")
async def test_calls_with_odd_and_repeated_ids_each_run_once_under_ids_of_ours(setup: ApprovalSetup) -> None:
    async with setup.caller("anna") as anna:
        run = await begin(anna, "several", "odd")
        assert run["status"] == "completed" and len(setup.acted("R4")) == 7
        ids = await call_ids(anna, run["id"])
        assert len(set(ids)) == 7 and all(one.startswith("call_") and len(one) == 37 for one in ids)


@pytest.mark.requirement("G9")
async def test_an_answer_for_the_session_holds_for_the_same_call_later_in_the_thread_and_for_nothing_else(
    setup: ApprovalSetup,
) -> None:
    async with setup.caller("anna") as anna:
        before = len(setup.acted("R7"))
        run = await begin(anna, "single", "publish")
        wrong = await decide(anna, run["waitingOn"][0], "approve", scope="tenant")
        assert wrong.status_code == 400 and wrong.json()["error"]["code"] == "ANSWER_INVALID"
        await decide(anna, run["waitingOn"][0], "approve", scope="session")
        await settled(anna, run["id"], tuple(run["waitingOn"]))
        later = await begin(anna, "single", "publish", threadId=run["threadId"])
        assert later["status"] == "completed" and len(setup.acted("R7")) == before + 2
        elsewhere = await begin(anna, "single", "publish")
        assert elsewhere["status"] == "waiting"
        other = await begin(anna, "single", "swap", threadId=run["threadId"])
        assert other["status"] == "waiting" and len(setup.acted("R7")) == before + 2
        for waiting in (elsewhere, other):
            await anna.post(f"/api/runs/{waiting['id']}/cancel")


@pytest.mark.requirement("G9")
async def test_a_no_for_the_session_denies_the_same_call_later_in_the_thread_and_nothing_else(
    setup: ApprovalSetup,
) -> None:
    async with setup.caller("anna") as anna:
        before = len(setup.acted("R7"))
        run = await begin(anna, "single", "publish")
        answer = await decide(anna, run["waitingOn"][0], "deny", scope="session", reason="not on Fridays")
        assert answer.status_code == 200
        await settled(anna, run["id"], tuple(run["waitingOn"]))
        later = await begin(anna, "single", "publish", threadId=run["threadId"])
        assert later["status"] in ("completed", "failed") and len(setup.acted("R7")) == before
        found = await anna.get(f"/api/runs/{later['id']}/events", params={"type": "runtime.tool.resulted"})
        refused = [event["payload"]["error"] for event in found.json()["items"]]
        assert [(error["code"], error["message"]) for error in refused] == [("APPROVAL_DENIED", "not on Fridays")]
        elsewhere = await begin(anna, "single", "publish")
        assert elsewhere["status"] == "waiting"
        await anna.post(f"/api/runs/{elsewhere['id']}/cancel")


@pytest.mark.requirement("G9", "G5")
async def test_an_approved_call_runs_once_when_the_server_is_killed_right_after_the_answer(
    setup: ApprovalSetup,
) -> None:
    async with setup.caller("anna") as anna:
        before = len(setup.acted("R7"))
        run = await begin(anna, "single", "publish")
        assert (await decide(anna, run["waitingOn"][0], "approve")).status_code == 200
    old = setup.server
    old.kill()
    setup.server = old.again()
    async with setup.caller("anna") as anna:
        ended = await settled(anna, run["id"], tuple(run["waitingOn"]))
        if ended["status"] == "waiting":
            # It was cut off inside the tool, whose outcome is unknown then: an operator is asked, it is not repeated.
            (asked,) = ended["waitingOn"]
            assert (await anna.get(f"/api/interrupts/{asked}")).json()["kind"] == "recovery"
            assert len(setup.acted("R7")) - before <= 1
        else:
            assert ended["status"] == "completed" and len(setup.acted("R7")) - before == 1


@pytest.mark.requirement("G9")
async def test_who_submitted_a_run_may_not_approve_it_where_the_rule_says_other(setup: ApprovalSetup) -> None:
    async with setup.caller("anna") as anna, setup.caller("bert") as bert:
        run = await begin(anna, "single", "pay")
        (asked,) = run["waitingOn"]
        assert (await anna.get(f"/api/interrupts/{asked}")).json()["approver"] == "other"
        refused = await decide(anna, asked, "approve")
        assert refused.status_code == 403 and refused.json()["error"]["code"] == "APPROVER_NOT_ALLOWED"
        contract = await anna.post(f"/api/approvals/{asked}/decision", json={"decision": "accept"})
        assert contract.status_code == 403 and contract.json()["code"] == "approver_not_allowed"
        assert setup.acted("R5") == []
        assert (await decide(bert, asked, "approve", scope="session")).status_code == 200
        assert (await settled(anna, run["id"], (asked,)))["status"] == "completed"
        # What Bert allowed for the session does not let Bert pay by himself.
        own = await begin(bert, "single", "pay", threadId=run["threadId"])
        assert own["status"] == "waiting" and setup.acted("R5") == ["pay"]
        await bert.post(f"/api/runs/{own['id']}/cancel")


@pytest.mark.requirement("G9")
async def test_only_the_named_role_may_approve(setup: ApprovalSetup) -> None:
    async with setup.caller("anna", "admin") as anna, setup.caller("carl", "member,treasurer") as carl:
        run = await begin(anna, "single", "transfer")
        (asked,) = run["waitingOn"]
        refused = await decide(anna, asked, "approve")
        assert refused.status_code == 403 and "treasurer" in refused.json()["error"]["message"]
        assert (await decide(carl, asked, "approve")).status_code == 200
        assert (await settled(anna, run["id"], (asked,)))["status"] == "completed"
        assert setup.acted("R6") == ["transfer"]


@pytest.mark.requirement("S17")
async def test_a_subagent_uses_only_what_its_parent_has_or_passes_on(setup: ApprovalSetup) -> None:
    async with setup.caller("anna") as anna:
        before = len(setup.acted("R7"))
        withheld = await begin(anna, "parent", "delegate")
        assert withheld["status"] == "completed" and "TOOL_NOT_ALLOWED" in withheld["output"]
        # A parent that is a subagent itself passes on only what it was let use.
        narrowed = await begin(anna, "grandparent", "pass")
        assert narrowed["status"] == "completed" and "TOOL_NOT_ALLOWED" in narrowed["output"]
        passed = await begin(anna, "giver", "delegate")
        assert passed["status"] == "waiting"
        await decide(anna, passed["waitingOn"][0], "approve")
        assert (await settled(anna, passed["id"], tuple(passed["waitingOn"])))["status"] == "completed"
        assert len(setup.acted("R7")) == before + 1
