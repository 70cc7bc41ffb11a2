"""Push notifications of A2A tasks: set by its own SDK, read by it where they arrive, and sent again after a kill."""

import asyncio
import shutil
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import httpx2
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError
from aiohttp import web
from google.protobuf.json_format import Parse  # type: ignore[import-untyped]
from standardwebhooks.webhooks import Webhook as Verifier

from app.core.settings import Settings
from tests.scenarios.conftest import _empty_database
from tests.server import ROOT, ServerProcess
from tests.waiting import until

pytestmark = pytest.mark.requirement("PX-3")
BINDINGS = ("JSONRPC", "HTTP+JSON")
TOKEN = "token-of-the-client"
OUTGOING = '  outgoing: {webhooks: ["127.0.0.1"], private: ["127.0.0.1"]}\n'
PATIENCE = 60
"""Seconds for what is sent by a task of the server."""


class PushReceiver:
    """Keeps what it is sent, and answers as it is told to."""

    def __init__(self) -> None:
        self.url = ""
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.status = 200
        self.open = asyncio.Event()
        self.open.set()
        self.begun = 0

    async def take(self, request: web.Request) -> web.Response:
        got = ({name.lower(): value for name, value in request.headers.items()}, await request.read())
        self.begun += 1
        await self.open.wait()
        self.got.append(got)
        return web.Response(status=self.status)

    def tasks(self) -> list[pb.Task]:
        """As the protocol's own SDK reads them; it refuses what is no response of a stream."""
        return [Parse(body, pb.StreamResponse()).task for _, body in self.got]

    def states(self) -> list[str]:
        return [pb.TaskState.Name(one.status.state) for one in self.tasks()]


@asynccontextmanager
async def listening() -> AsyncIterator[PushReceiver]:
    made = PushReceiver()
    app = web.Application()
    app.router.add_post("/{name}", made.take)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}/told"
    try:
        yield made
    finally:
        made.open.set()
        await runner.cleanup()


def _workspace(folder: Path) -> Path:
    """The demo, with a host that may be told things."""
    shutil.copytree(ROOT / "workspaces" / "demo", folder)
    runtime = folder / "runtime.yaml"
    runtime.write_text(runtime.read_text() + OUTGOING)
    return folder


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def pushing(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = _empty_database(request.param, request, tmp_path_factory)
    workspace = _workspace(tmp_path_factory.mktemp("pushing") / "workspace")
    variables = {"HOLDFAST_A2A_V03": "true"}
    server = ServerProcess.start(settings.data_dir, settings.database_url, workspace, variables)
    try:
        yield server
    finally:
        server.stop()


def said(text: str, **ids: str) -> dict[str, Any]:
    return {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": [{"text": text}], **ids}


async def _client(http: httpx.AsyncClient, url: str, binding: str) -> Any:
    card = await A2ACardResolver(http, f"{url}/a2a/assistant").get_agent_card()
    assert card.capabilities.push_notifications
    config = ClientConfig(httpx_client=http, streaming=False, supported_protocol_bindings=[binding])
    return ClientFactory(config).create(card)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_client_is_told_of_the_question_and_of_the_end(pushing: ServerProcess, binding: str) -> None:
    async with listening() as at, httpx.AsyncClient(timeout=60, verify=False) as http:
        client = await _client(http, pushing.url, binding)
        push = pb.TaskPushNotificationConfig(url=at.url, token=TOKEN)
        push.authentication.scheme, push.authentication.credentials = "Bearer", "a-credential"
        message = pb.Message(message_id=uuid.uuid4().hex, role=pb.ROLE_USER, parts=[pb.Part(text="publish it now")])
        request = pb.SendMessageRequest(message=message)
        request.configuration.task_push_notification_config.CopyFrom(push)
        (waits,) = [one async for one in client.send_message(request)]
        await until(lambda: "TASK_STATE_INPUT_REQUIRED" in at.states(), PATIENCE)
        answer = pb.Message(
            message_id=uuid.uuid4().hex, role=pb.ROLE_USER, parts=[pb.Part(text="approve")], task_id=waits.task.id
        )
        (done,) = [one async for one in client.send_message(pb.SendMessageRequest(message=answer))]
        await until(lambda: "TASK_STATE_COMPLETED" in at.states(), PATIENCE)
        assert at.tasks()[-1] == await client.get_task(pb.GetTaskRequest(id=waits.task.id)) == done.task
        assert {one.id for one in at.tasks()} == {waits.task.id}
        for headers, _ in at.got:
            assert headers["x-a2a-notification-token"] == TOKEN
            assert headers["authorization"] == "Bearer a-credential"


@pytest.mark.parametrize("binding", BINDINGS)
async def test_configs_are_set_read_listed_and_deleted(pushing: ServerProcess, binding: str) -> None:
    async with listening() as at, httpx.AsyncClient(timeout=60, verify=False) as http:
        client = await _client(http, pushing.url, binding)
        started = await http.post(f"{pushing.url}/a2a/assistant/message:send", json={"message": said("publish it now")})
        task = started.json()["task"]["id"]
        push = pb.TaskPushNotificationConfig(task_id=task, url=f"{at.url}?key=AKIA{'A1B2' * 4}", id="mine", token=TOKEN)
        made = await client.create_task_push_notification_config(push)
        assert (made.id, made.task_id, made.url, made.token) == ("mine", task, push.url, ""), (
            "a token is shown to nobody"
        )
        await until(lambda: "TASK_STATE_INPUT_REQUIRED" in at.states(), PATIENCE)  # it asked before
        other = await client.create_task_push_notification_config(
            pb.TaskPushNotificationConfig(task_id=task, url=at.url)
        )
        assert other.id == task
        listed = await client.list_task_push_notification_configs(
            pb.ListTaskPushNotificationConfigsRequest(task_id=task)
        )
        assert {one.id for one in listed.configs} == {"mine", task}
        read = await client.get_task_push_notification_config(
            pb.GetTaskPushNotificationConfigRequest(task_id=task, id="mine")
        )
        assert read == made
        for one in ("mine", task):
            await client.delete_task_push_notification_config(
                pb.DeleteTaskPushNotificationConfigRequest(task_id=task, id=one)
            )
        for call in (client.get_task_push_notification_config, client.delete_task_push_notification_config):
            kind = pb.GetTaskPushNotificationConfigRequest if "get" in call.__name__ else None
            request = (kind or pb.DeleteTaskPushNotificationConfigRequest)(task_id=task, id="mine")
            with pytest.raises(TaskNotFoundError):
                await call(request)
        with pytest.raises(TaskNotFoundError):
            await client.create_task_push_notification_config(
                pb.TaskPushNotificationConfig(task_id="run_nowhere", url=at.url)
            )
        for url in ("http://169.254.169.254/", "https://elsewhere.org/told", "ftp://127.0.0.1/", "http://u@127.0.0.1/"):
            with pytest.raises(InvalidParamsError):
                await client.create_task_push_notification_config(pb.TaskPushNotificationConfig(task_id=task, url=url))
        for wrong in ({"id": "a/b"}, {"id": "a:b"}, {"token": "a\r\nb: c"}, {"token": "x" * 1001}):
            config = pb.TaskPushNotificationConfig(
                task_id=task, url=at.url, id=wrong.get("id"), token=wrong.get("token")
            )
            with pytest.raises(InvalidParamsError):
                await client.create_task_push_notification_config(config)


async def test_a_task_has_few_configs_and_a_refused_one_starts_nothing(pushing: ServerProcess) -> None:
    async with listening() as at, httpx2.AsyncClient(base_url=f"{pushing.url}/a2a/assistant", timeout=60) as http:
        task = (await http.post("/message:send", json={"message": said("publish it now")})).json()["task"]["id"]
        configs = f"/tasks/{task}/pushNotificationConfigs"
        made = await asyncio.gather(*(http.post(configs, json={"id": f"c{n}", "url": at.url}) for n in range(15)))
        assert sorted(one.status_code for one in made) == [200] * 10 + [409] * 5
        refused = next(one.json()["error"] for one in made if one.status_code == 409)
        assert refused["details"][0]["metadata"]["code"] == "PUSH_LIMIT"
        context = f"ctx-{uuid.uuid4().hex}"
        for config in ({"url": "https://elsewhere.org/"}, {"url": 7}, {}, {"url": at.url, "authentication": 7}, 7):
            body = {
                "message": said("hello", contextId=context),
                "configuration": {"taskPushNotificationConfig": config or {"url": ""}},
            }
            answer = await http.post("/message:send", json=body)
            assert answer.json()["error"]["details"][0]["reason"] == "INVALID_PARAMS", (config, answer.text)
        assert (await http.get("/tasks", params={"contextId": context})).json()["tasks"] == []


async def test_a_client_of_0_3_is_told_in_its_own_words(pushing: ServerProcess) -> None:
    from a2a.compat.v0_3 import types as v03

    async def call(method: str, params: dict[str, Any]) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = (await http.post(f"{pushing.url}/a2a/assistant", json=body)).json()
        assert "result" in answer, answer
        return answer["result"]

    async with listening() as at, httpx2.AsyncClient(timeout=60) as http:
        message: dict[str, Any] = {"kind": "message", "messageId": uuid.uuid4().hex, "role": "user"}
        message["parts"] = [{"kind": "text", "text": "publish it"}]
        push = {"url": at.url, "token": TOKEN, "authentication": {"schemes": ["Bearer"], "credentials": "c"}}
        task = await call("message/send", {"message": message, "configuration": {"pushNotificationConfig": push}})
        await until(lambda: bool(at.got), PATIENCE)
        told = v03.Task.model_validate_json(at.got[0][1])
        assert told.id == task["id"] and told.status.state is v03.TaskState.input_required
        assert at.got[0][0]["authorization"] == "Bearer c"
        named = {"taskId": task["id"], "pushNotificationConfig": {"id": "second", "url": at.url}}
        v03.TaskPushNotificationConfig.model_validate(await call("tasks/pushNotificationConfig/set", named))
        names = "tasks/pushNotificationConfig"
        assert len(await call(f"{names}/list", {"id": task["id"]})) == 2
        one = await call(f"{names}/get", {"id": task["id"], "pushNotificationConfigId": "second"})
        assert v03.TaskPushNotificationConfig.model_validate(one).push_notification_config.id == "second"
        assert (await call(f"{names}/get", {"id": task["id"]}))["pushNotificationConfig"]["id"] == task["id"]
        gone = {"id": task["id"], "pushNotificationConfigId": "second"}
        assert await call(f"{names}/delete", gone) is None
        assert len(await call(f"{names}/list", {"id": task["id"]})) == 1


async def test_notifications_are_signed_sealed_and_stop_when_the_receiver_is_gone(pushing: ServerProcess) -> None:
    async with listening() as at, httpx2.AsyncClient(base_url=pushing.url, timeout=60) as http:
        configuration = {"taskPushNotificationConfig": {"url": at.url, "id": "mine", "token": TOKEN}}
        body = {"message": said("publish it now"), "configuration": configuration}
        task = (await http.post("/a2a/assistant/message:send", json=body)).json()["task"]["id"]
        await until(lambda: bool(at.got), PATIENCE)
        ledger = (await http.get("/api/ledger")).text
        assert f"a2a:{task}:mine" in ledger and TOKEN not in ledger and at.url not in ledger
        secret = (await http.post("/api/webhooks/_runs/rotate-secret")).json()["secret"]
        at.status = 410
        await http.post("/a2a/assistant/message:send", json={"message": said("approve", taskId=task)})
        await until(lambda: len(at.got) >= 2, PATIENCE)
        assert Verifier(secret).verify(at.got[1][1], at.got[1][0])["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        configs = f"/a2a/assistant/tasks/{task}/pushNotificationConfigs"
        async with asyncio.timeout(PATIENCE):
            while (await http.get(configs)).json()["configs"]:  # noqa: ASYNC110  # there is no event for it
                await asyncio.sleep(0.01)
        sent = (await http.get(f"/api/webhooks/a2a:{task}:mine/deliveries")).json()["items"]
        assert {one["status"] for one in sent} == {"delivered", "dead"}
        # Neither the webhooks' own routes nor a run may use it.
        assert (await http.get(f"/api/webhooks/a2a:{task}:mine")).status_code == 404
        named = await http.post("/api/runs", json={"input": "x", "webhook": f"a2a:{task}:mine"})
        assert named.json()["error"]["code"] == "WEBHOOK_NOT_FOUND"


async def _stored(settings: Settings) -> str:
    """All that the database holds, as it is read and as bytes."""
    if not settings.is_postgres:
        files = b"".join(one.read_bytes() for one in settings.data_dir.glob("*.db*"))
        return files.decode("latin-1") + files.hex()
    connection = await asyncpg.connect(settings.database_url)
    try:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        rows = [await connection.fetch(f"SELECT t::text FROM {name} t") for (name,) in tables]
        return "\n".join(str(one) for found in rows for (one,) in found)
    finally:
        await connection.close()


async def test_a_server_that_is_killed_tells_after_its_restart(settings: Settings, tmp_path: Path) -> None:
    workspace = _workspace(tmp_path / "workspace")
    server = await asyncio.to_thread(ServerProcess.start, settings.data_dir, settings.database_url, workspace)
    try:
        async with listening() as at:
            at.open.clear()  # it has been sent, and nobody knows whether it has arrived
            async with httpx2.AsyncClient(base_url=f"{server.url}/a2a/assistant", timeout=60) as http:
                configuration = {"taskPushNotificationConfig": {"url": at.url, "token": TOKEN}}
                body = {"message": said("good day"), "configuration": configuration}
                task = (await http.post("/message:send", json=body)).json()["task"]["id"]
                await until(lambda: at.begun == 1, PATIENCE)
            server.kill()
            at.open.set()
            server = await asyncio.to_thread(server.again)
            await until(lambda: len(at.got) >= 2, PATIENCE)
            assert {one.id for one in at.tasks()} == {task}
            assert at.got[0][0]["webhook-id"] == at.got[1][0]["webhook-id"], "the receiver knows that it is the same"
            assert at.got[1][0]["x-a2a-notification-token"] == TOKEN
            async with httpx2.AsyncClient(base_url=f"{server.url}/a2a/assistant", timeout=60) as http:
                listed = (await http.get(f"/tasks/{task}/pushNotificationConfigs")).json()["configs"]
                assert [one["id"] for one in listed] == [task]
            stored = await _stored(settings)
            assert task in stored
            for secret in (TOKEN, at.url):
                assert secret not in stored and secret.encode().hex() not in stored
    finally:
        server.stop()
