"""Webhooks through the front door: signed, in order, again until they arrive, and only where the workspace allows."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from aiohttp import web
from standardwebhooks.webhooks import Webhook as Verifier

from app.core import json
from app.core.clock import ManualClock
from app.core.settings import Settings
from app.runtime.automation import webhook_sender
from tests.server import InProcessServer, in_process
from tests.waiting import until

WORKSPACE = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: hooks}
spec:
  defaultAgent: echo
  env: [HOOK_SECRET]
  outgoing: {webhooks: ["127.0.0.1", "*.example.com"], private: ["127.0.0.1"]}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec: {provider: scripted, model: script, script: {default: {text: "You said: {{ input }}"}}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: echo}
spec: {model: script}
"""
DECLARED = """\
---
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: declared}
spec: {url: "URL", events: [runtime.request.completed], secret: "${env:HOOK_SECRET}"}
"""
ENDED = "runtime.request.completed"
Got = tuple[dict[str, str], bytes]


class Receiver:
    """Keeps what it is sent, and answers as it is told to."""

    def __init__(self) -> None:
        self.url = ""
        self.got: list[Got] = []
        self.status = 200
        self.failing: set[str] = set()
        """Runs whose deliveries are answered 503."""
        self.open = asyncio.Event()
        self.open.set()
        self.headers: dict[str, str] = {}

    async def take(self, request: web.Request) -> web.Response:
        got = (dict(request.headers), await request.read())
        await self.open.wait()
        self.got.append(got)
        return web.Response(status=503 if run_of(got) in self.failing else self.status, headers=self.headers)


@asynccontextmanager
async def receiver() -> AsyncIterator[Receiver]:
    made = Receiver()
    app = web.Application()
    app.router.add_post("/{name}", made.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield made
    finally:
        made.open.set()
        await runner.cleanup()


@asynccontextmanager
async def serving(
    settings: Settings, tmp_path: Path, more: str = "", clock: ManualClock | None = None
) -> AsyncIterator[tuple[InProcessServer, httpx2.AsyncClient]]:
    root = tmp_path / "workspace"
    root.mkdir(exist_ok=True)
    (root / "all.yaml").write_text(WORKSPACE + more)
    settings = settings.model_copy(update={"workspace": root, "data_dir": tmp_path / "data"})
    settings.data_dir.mkdir(exist_ok=True)
    async with (
        in_process(settings, clock=clock) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        for one in (await client.get("/api/webhooks")).json()["items"]:
            if not one["declared"] and not one["url"].endswith("/kept"):  # the database is the module's
                await client.delete(f"/api/webhooks/{one['id']}")
        yield server, client


async def hook(client: httpx2.AsyncClient, url: str, *events: str, **more: Any) -> dict[str, Any]:
    made = await client.post("/api/webhooks", json={"url": url, "events": list(events), **more})
    assert made.status_code == 201, made.text
    shown: dict[str, Any] = made.json()
    return shown


async def run(client: httpx2.AsyncClient, text: str = "hi", **more: Any) -> dict[str, Any]:
    ended: dict[str, Any] = (await client.post("/api/runs", params={"wait": 20}, json={"input": text, **more})).json()
    return ended


async def deliveries(client: httpx2.AsyncClient, webhook: str, **query: str) -> list[dict[str, Any]]:
    answer = await client.get(f"/api/webhooks/{webhook}/deliveries", params=query)
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def seen(client: httpx2.AsyncClient, webhook: str, holds: Callable[[list[dict[str, Any]]], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds(await deliveries(client, webhook)):  # noqa: ASYNC110  # there is no event for it
            await asyncio.sleep(0.02)


def run_of(got: Got) -> str:
    return str(json.loads(got[1])["data"]["runId"])


def verifies(secret: str, got: Got) -> bool:
    try:
        Verifier(secret).verify(got[1], got[0])
    except Exception:
        return False
    return True


async def passes(clock: ManualClock, send: Callable[[], Awaitable[int]], seconds: float, step: float) -> None:
    """So much time passes, and whatever is due is sent."""
    for _ in range(round(seconds / step)):
        clock.advance(step)
        while await send():
            pass


@pytest.mark.requirement("PX-11", "S19")
async def test_deliveries_are_signed_and_verify_with_an_independent_library(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = "whsec_ZGVjbGFyZWQtc2VjcmV0LWRlY2xhcmVkLXNlY3JldA=="
    monkeypatch.setenv("HOOK_SECRET", declared)
    async with receiver() as at, serving(settings, tmp_path, DECLARED.replace("URL", f"{at.url}/d")) as (_, client):
        made = await hook(client, f"{at.url}/made", "runtime.request.*", "runtime.job.*")
        ended = await run(client, "one", labels={"team": "x"})
        await until(lambda: len(at.got) >= 2)
        for got in at.got:
            (secret,) = [key for key in (made["secret"], declared) if verifies(key, got)]
            document = Verifier(secret).verify(got[1], got[0])
            assert document["type"] == ENDED and document["data"]["runId"] == ended["id"]
            assert document["data"]["payload"]["output"] == "You said: one"
            assert document["data"]["run"]["labels"] == {"team": "x"}
            assert not verifies(secret, (got[0], got[1].replace(b"one", b"two")))
        shown = (await client.get("/api/webhooks")).json()["items"]
        assert {one["id"]: one["declared"] for one in shown} == {"declared": True, made["id"]: False}
        assert "whsec" not in str(shown)
        refused = await client.patch("/api/webhooks/declared", json={"enabled": False})
        assert refused.json()["error"]["code"] == "WEBHOOK_DECLARED"
        # For a day after a rotation both secrets verify.
        at.got.clear()
        rotated = (await client.post(f"/api/webhooks/{made['id']}/rotate-secret")).json()
        await run(client, "two")
        await until(lambda: len(at.got) >= 2)
        mine = next(got for got in at.got if verifies(made["secret"], got))
        assert rotated["secret"] != made["secret"] and verifies(rotated["secret"], mine)
        ledger = (await client.get("/api/threads/sys_ledger/events", params={"limit": 500})).text
        assert "whsec" not in ledger and "rotated" in ledger


@pytest.mark.requirement("PX-11")
async def test_a_webhook_gets_what_its_filter_says_and_the_runs_that_name_it(
    settings: Settings, tmp_path: Path
) -> None:
    async with receiver() as at, serving(settings, tmp_path) as (_, client):
        jobs = await hook(client, f"{at.url}/jobs", "runtime.job.completed")
        named = await hook(client, f"{at.url}/named")
        other = await hook(client, f"{at.url}/other", ENDED, agents=["somebody"])
        await run(client)
        job = await run(client, priority="background")
        mine = await run(client, webhook=named["id"])
        await until(lambda: len(at.got) >= 2)
        assert [one["type"] for one in await deliveries(client, jobs["id"])] == ["runtime.job.completed"]
        assert [one["type"] for one in await deliveries(client, named["id"])] == [ENDED]
        assert await deliveries(client, other["id"]) == []
        assert {run_of(got) for got in at.got if verifies(jobs["secret"], got)} == {job["id"]}
        assert {run_of(got) for got in at.got if verifies(named["secret"], got)} == {mine["id"]}
        unknown = await client.post("/api/runs", json={"input": "x", "webhook": "whk_nobody"})
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "WEBHOOK_NOT_FOUND")


@pytest.mark.requirement("PX-11", "S19")
async def test_a_run_may_name_a_url_that_is_sent_its_end(settings: Settings, tmp_path: Path) -> None:
    async with receiver() as at, serving(settings, tmp_path) as (_, client):
        first = await run(client, "first", webhook=f"{at.url}/hook?run=1#here")
        await until(lambda: len(at.got) == 1)
        assert run_of(at.got[0]) == first["id"]
        # The tenant gets the secret by rotating it; what is sent from then on verifies.
        secret = (await client.post("/api/webhooks/_runs/rotate-secret")).json()["secret"]
        assert not verifies(secret, at.got[0])
        second = await run(client, "second", webhook=f"{at.url}/hook?run=2")
        await until(lambda: len(at.got) == 2)
        assert run_of(at.got[1]) == second["id"] and verifies(secret, at.got[1])
        assert (await client.get("/api/webhooks")).json()["items"] == []
        both = [f"{at.url}/hook?run=2", f"{at.url}/hook?run=1"]
        await seen(
            client, "_runs", lambda found: [o["webhookId"] for o in found if o["status"] == "delivered"][:2] == both
        )
        # One that is down: retried, dead when the receiver is gone, and sent again when somebody asks for it.
        at.status = 410
        await run(client, "third", webhook=f"{at.url}/gone")
        await seen(client, "_runs", lambda found: found[0]["status"] == "dead")
        at.status = 200
        again = await client.post("/api/webhooks/_runs/redeliver", json={})
        assert again.json() == {"count": 1}
        await seen(client, "_runs", lambda found: found[0]["status"] == "delivered")
        for method, path in (("PATCH", "/api/webhooks/_runs"), ("DELETE", "/api/webhooks/_runs")):
            refused = await client.request(method, path, json={"enabled": False} if method == "PATCH" else None)
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "WEBHOOK_OF_RUNS")


@pytest.mark.requirement("PX-11")
async def test_a_run_names_no_url_that_the_workspace_does_not_allow(settings: Settings, tmp_path: Path) -> None:
    async with serving(settings, tmp_path) as (_, client):
        for url in (
            "http://169.254.169.254/",
            "https://elsewhere.org/hook",
            "http://user@127.0.0.1/",
            "ftp://127.0.0.1/",
            "http://127.0.0.1/?key=AKIA" + "A1B2" * 4,  # the log would not store it
            "http://127.0.0.1/" + "ä" * 500,  # longer than it looks
        ):
            refused = await client.post("/api/runs", json={"input": "x", "webhook": url})
            assert (refused.status_code, refused.json()["error"]["code"]) == (422, "WEBHOOK_ADDRESS_REFUSED"), url


@pytest.mark.requirement("PX-11")
async def test_a_receiver_that_is_down_for_hours_gets_everything_in_order_or_as_dead_letters(
    settings: Settings, tmp_path: Path
) -> None:
    clock = ManualClock()
    async with receiver() as at, serving(settings, tmp_path, clock=clock) as (server, client):
        send = server.holdfast.automation.sender.send_due
        made = await hook(client, f"{at.url}/down", ENDED)
        at.status = 503
        ids = [(await run(client, str(number)))["id"] for number in range(3)]
        await seen(client, made["id"], lambda found: len(found) == 3 and found[-1]["attempts"] >= 1)
        await passes(clock, send, 1800, 60)
        assert {run_of(got) for got in at.got} == {ids[0]}, "the others wait behind the first"
        at.status = 200
        await passes(clock, send, 3600, 60)
        assert list(dict.fromkeys(run_of(got) for got in at.got)) == ids
        assert [one["status"] for one in await deliveries(client, made["id"])] == ["delivered"] * 3
        # A delivery that fails for an hour no longer blocks the next; after a day it is dead.
        at.status, at.got = 503, []
        stuck = (await run(client, "stuck"))["id"]
        await seen(client, made["id"], lambda found: found[0]["attempts"] >= 1)
        free = (await run(client, "free"))["id"]
        await seen(client, made["id"], lambda found: len(found) == 5)
        at.failing, at.status = {stuck}, 200
        await passes(clock, send, 3000, 100)
        assert free not in {run_of(got) for got in at.got}
        await passes(clock, send, 1000, 100)
        assert free in {run_of(got) for got in at.got}
        await passes(clock, send, 25 * 3600, 1800)
        (dead,) = await deliveries(client, made["id"], status="dead")
        assert dead["answer"] == "503" and dead["attempts"] >= 10
        at.failing, at.got = set(), []
        again = await client.post(f"/api/webhooks/{made['id']}/redeliver", json={"deliveryId": dead["id"]})
        assert again.json() == {"count": 1}
        await seen(client, made["id"], lambda found: {one["status"] for one in found} == {"delivered"})
        assert [run_of(got) for got in at.got] == [stuck]


@pytest.mark.requirement("PX-11")
async def test_a_gone_receiver_is_disabled_and_a_redirect_is_not_followed(settings: Settings, tmp_path: Path) -> None:
    async with receiver() as at, receiver() as inside, serving(settings, tmp_path) as (_, client):
        gone = await hook(client, f"{at.url}/gone", ENDED)
        at.status = 410
        await run(client)
        await seen(client, gone["id"], lambda found: [one["status"] for one in found] == ["dead"])
        shown = (await client.get(f"/api/webhooks/{gone['id']}")).json()
        assert (shown["enabled"], shown["disabledReason"]) == (False, "the receiver answered 410 Gone")
        redirecting = await hook(client, f"{at.url}/redirects", ENDED)
        at.status, at.headers = 307, {"location": f"{inside.url}/inside".replace("127.0.0.1", "127.0.0.2")}
        await run(client)
        await seen(client, redirecting["id"], lambda found: bool(found) and found[0]["attempts"] >= 1)
        assert (await deliveries(client, redirecting["id"]))[0]["answer"].startswith("REDIRECT_REFUSED")
        assert inside.got == [] and len(at.got) == 2


@asynccontextmanager
async def trickling() -> AsyncIterator[str]:
    """A receiver that says a little all the time and never has said it all; its URL."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            writer.write(b"HTTP/1.1 200 OK\r\n")
            while True:
                writer.write(b"x-more: y\r\n")
                await writer.drain()
                await asyncio.sleep(0.02)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/trickles"
    finally:
        server.close()


@pytest.mark.requirement("PX-11")
async def test_an_answer_that_comes_too_late_is_a_failed_attempt_and_the_next_one_counts(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert webhook_sender.ANSWER_SECONDS == 15.0
    monkeypatch.setattr(webhook_sender, "ANSWER_SECONDS", 0.5)
    clock = ManualClock()
    async with (
        receiver() as slow,
        trickling() as never,
        serving(settings, tmp_path, clock=clock) as (server, client),
    ):
        send = server.holdfast.automation.sender.send_due
        slow.open.clear()
        hooks = [(await hook(client, url, ENDED))["id"] for url in (f"{slow.url}/slow", never)]
        ended = (await run(client))["id"]
        for each in hooks:
            await seen(client, each, lambda found: bool(found) and found[0]["attempts"] == 1)
            [late] = await deliveries(client, each)
            assert late["status"] == "pending" and late["answer"].startswith("OUTSIDE_TIMEOUT"), late
        # What it answers now, nobody listens to any more: it is sent again, as the same delivery.
        slow.open.set()
        await until(lambda: len(slow.got) == 1, seconds=30)
        assert (await deliveries(client, hooks[0]))[0]["status"] == "pending"
        monkeypatch.setattr(webhook_sender, "ANSWER_SECONDS", 15.0)
        await client.delete(f"/api/webhooks/{hooks[1]}")
        await passes(clock, send, 5, 5)
        await seen(client, hooks[0], lambda found: (found[0]["status"], found[0]["attempts"]) == ("delivered", 2))
        assert [run_of(got) for got in slow.got] == [ended] * 2
        assert len({got[0]["webhook-id"] for got in slow.got}) == 1


@pytest.mark.requirement("PX-11")
async def test_a_delivery_that_arrives_while_due_ones_are_read_is_not_sent_again(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with receiver() as at, serving(settings, tmp_path) as (server, client):
        sender = server.holdfast.automation.sender
        assert sender._task is not None
        sender._task.cancel()  # the test says when something is sent
        at.open.clear()
        made = await hook(client, f"{at.url}/read", ENDED)
        await run(client)
        await seen(client, made["id"], lambda found: len(found) == 1)
        first = asyncio.create_task(sender.send_due())
        await until(lambda: len(sender._sending) == 1)
        reads, arrived, due = 0, asyncio.Event(), sender._table.due

        async def late_due(*asked: Any) -> Any:
            nonlocal reads
            found = await due(*asked)
            reads += 1
            if reads == 2:  # the one that decides what is sent
                await arrived.wait()
            return found

        monkeypatch.setattr(sender._table, "due", late_due)
        second = asyncio.create_task(sender.send_due())
        await until(lambda: reads == 2)
        at.open.set()
        assert await first == 1
        arrived.set()
        await second
        assert [one["status"] for one in await deliveries(client, made["id"])] == ["delivered"]
        assert len(at.got) == 1


@pytest.mark.requirement("PX-11")
async def test_addresses_come_from_the_workspace_only(settings: Settings, tmp_path: Path) -> None:
    async with serving(settings, tmp_path) as (_, client):
        for url in (
            "http://169.254.169.254/",
            "https://elsewhere.org/",
            "ftp://127.0.0.1/",
            "http://u@127.0.0.1/",
            "x",
        ):
            refused = await client.post("/api/webhooks", json={"url": url, "events": [ENDED]})
            assert (refused.status_code, refused.json()["error"]["code"]) == (422, "WEBHOOK_ADDRESS_REFUSED"), url
        allowed = await hook(client, "https://hooks.example.com/x", ENDED)
        for never in ("runtime.request.complete", "runtime.model.completed", "job.*"):
            asked = {"url": "https://hooks.example.com/x", "events": [ENDED, never]}
            silent = await client.post("/api/webhooks", json=asked)
            assert [one["path"] for one in silent.json()["error"]["issues"]] == ["/events/1"], never
            changed = await client.patch(f"/api/webhooks/{allowed['id']}", json={"events": [never]})
            assert (changed.status_code, silent.status_code) == (400, 400)
        moved = await client.patch(f"/api/webhooks/{allowed['id']}", json={"url": "https://elsewhere.org/"})
        assert moved.status_code == 422
        assert (await client.delete(f"/api/webhooks/{allowed['id']}")).status_code == 204
        assert (await client.get(f"/api/webhooks/{allowed['id']}")).status_code == 404


@pytest.mark.requirement("PX-11")
async def test_a_restart_loses_no_delivery_and_a_slow_receiver_holds_up_no_other(
    settings: Settings, tmp_path: Path
) -> None:
    async with receiver() as slow, receiver() as at:
        async with serving(settings, tmp_path) as (_, client):
            slow.open.clear()
            await hook(client, f"{slow.url}/kept", ENDED)
            await hook(client, f"{at.url}/kept", ENDED)
            first = await run(client)
            await until(lambda: len(at.got) == 1)
            second = await run(client)
            await until(lambda: len(at.got) == 2)
        slow.open.set()
        async with serving(settings, tmp_path) as (_, client):
            both = {first["id"], second["id"]}
            await until(
                lambda: {run_of(got) for got in slow.got} == {run_of(got) for got in at.got} == both, seconds=30
            )
            for one in (await client.get("/api/webhooks")).json()["items"]:
                await client.delete(f"/api/webhooks/{one['id']}")
