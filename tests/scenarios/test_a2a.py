"""A2A with its own Python SDK as the client, unmodified, by both bindings; and the wire where the SDK cannot go."""

import asyncio
import uuid
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import TaskNotFoundError, UnsupportedOperationError

from tests.scenarios.dialects import make_workspace
from tests.server import ServerProcess

BINDINGS = ("JSONRPC", "HTTP+JSON")


async def client_of(http: httpx.AsyncClient, url: str, agent: str, binding: str, *, streaming: bool = True) -> Any:
    card = await A2ACardResolver(http, f"{url}/a2a/{agent}").get_agent_card()
    config = ClientConfig(httpx_client=http, streaming=streaming, supported_protocol_bindings=[binding])
    return ClientFactory(config).create(card)


def message(text: str, **ids: str) -> Any:
    said = pb.Message(message_id=uuid.uuid4().hex, role=pb.ROLE_USER, parts=[pb.Part(text=text)], **ids)
    return pb.SendMessageRequest(message=said)


async def all_of(stream: Any) -> list[Any]:
    return [one async for one in stream]


def states_of(events: list[Any]) -> list[str]:
    found = [one.status_update.status.state for one in events if one.HasField("status_update")]
    return [pb.TaskState.Name(one) for one in found]


def output_of(events: list[Any]) -> str:
    text = ""
    for one in events:
        if one.HasField("artifact_update") and one.artifact_update.artifact.name == "output":
            piece = "".join(part.text for part in one.artifact_update.artifact.parts)
            text = text + piece if one.artifact_update.append else piece
    return text


async def left_and_subscribed_to(holder: Any, go: Path) -> list[Any]:
    """What the subscription says of a task whose stream was left; the task ends only when somebody follows it again."""
    stream = holder.send_message(message(str(go)))
    first = await anext(stream)
    await stream.aclose()
    following = holder.subscribe(pb.SubscribeToTaskRequest(id=first.task.id))
    found = [await anext(following)]
    await asyncio.to_thread(go.touch)
    found += await all_of(following)
    assert found[0].task.id == first.task.id
    return found


@pytest.mark.requirement("PX-3")
@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_message_is_a_task_that_streams_is_read_and_listed(dialect_server: ServerProcess, binding: str) -> None:
    async with httpx.AsyncClient(timeout=60, verify=False) as http:
        client = await client_of(http, dialect_server.url, "assistant", binding)
        events = await all_of(client.send_message(message("calculate it")))
        task = events[0].task
        assert task.id and task.context_id and states_of(events)[-1] == "TASK_STATE_COMPLETED"
        assert output_of(events).startswith("That makes")
        read = await client.get_task(pb.GetTaskRequest(id=task.id))
        assert read.artifacts[0].parts[0].text == output_of(events) and read.history[0].parts[0].text == "calculate it"
        again = await all_of(client.send_message(message("good day", context_id=task.context_id)))
        assert again[0].task.context_id == task.context_id and again[0].task.id != task.id
        listed = await client.list_tasks(pb.ListTasksRequest(context_id=task.context_id, page_size=1))
        assert [one.id for one in listed.tasks] == [again[0].task.id] and listed.next_page_token
        more = pb.ListTasksRequest(context_id=task.context_id, page_token=listed.next_page_token)
        assert [one.id for one in (await client.list_tasks(more)).tasks] == [task.id]
        with pytest.raises(TaskNotFoundError):
            await client.get_task(pb.GetTaskRequest(id="run_nowhere"))
        with pytest.raises(UnsupportedOperationError):
            await all_of(client.subscribe(pb.SubscribeToTaskRequest(id=task.id)))


@pytest.mark.requirement("PX-3")
@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_task_asks_for_input_and_goes_on_with_the_answer(dialect_server: ServerProcess, binding: str) -> None:
    async with httpx.AsyncClient(timeout=60, verify=False) as http:
        client = await client_of(http, dialect_server.url, "assistant", binding, streaming=False)
        (waits,) = await all_of(client.send_message(message("publish it now")))
        assert waits.task.status.state == pb.TASK_STATE_INPUT_REQUIRED
        assert waits.task.status.message.parts[1].data.struct_value["tool"] == "publish"
        (done,) = await all_of(client.send_message(message("approve", task_id=waits.task.id)))
        assert done.task.id == waits.task.id and done.task.status.state == pb.TASK_STATE_COMPLETED
        assert done.task.artifacts[0].parts[0].text == "It has been published."
        with pytest.raises(UnsupportedOperationError):
            await all_of(client.send_message(message("approve", task_id=waits.task.id)))


@pytest.mark.requirement("PX-3")
async def test_a_stream_that_was_left_is_subscribed_to_again_and_a_task_is_cancelled(
    dialect_server: ServerProcess, tmp_path: Path
) -> None:
    async with httpx.AsyncClient(timeout=60, verify=False) as http:
        holder = await client_of(http, dialect_server.url, "holder", "JSONRPC")
        rest = await left_and_subscribed_to(holder, tmp_path / "go")
        task = await holder.get_task(pb.GetTaskRequest(id=rest[0].task.id))
        assert task.artifacts[0].parts[0].text == "One, two, three."
        client = await client_of(http, dialect_server.url, "assistant", "JSONRPC")
        waits = (await all_of(client.send_message(message("publish it now"))))[-1].status_update
        assert waits.status.state == pb.TASK_STATE_INPUT_REQUIRED
        cancelled = await client.cancel_task(pb.CancelTaskRequest(id=waits.task_id))
        assert cancelled.status.state == pb.TASK_STATE_CANCELED


async def test_questions_failures_and_repeated_messages(dialect_server: ServerProcess) -> None:
    async with httpx2.AsyncClient(base_url=f"{dialect_server.url}/a2a", timeout=60) as http:
        asked = (await http.post("/helper/message:send", json=sent("ask me"))).json()["task"]
        answer = sent("blue", taskId=asked["id"])
        done = (await http.post("/helper/message:send", json=answer)).json()["task"]
        assert "blue" in done["artifacts"][0]["parts"][0]["text"]
        failed = (await http.post("/assistant/message:send", json=sent("fail please"))).json()["task"]
        assert failed["status"]["state"] == "TASK_STATE_FAILED"
        assert failed["status"]["message"]["parts"][0]["text"].startswith("PROVIDER_ERROR")
        body = sent("once only", contextId=f"ctx-{uuid.uuid4().hex}")
        first, again = [(await http.post("/assistant/message:send", json=body)).json()["task"] for _ in range(2)]
        assert first["id"] == again["id"], "the same message is the same task"
        for length, status, kept in (("0", 200, False), ("3", 200, True), ("-1", 400, False), ("x", 400, False)):
            read = await http.get(f"/assistant/tasks/{first['id']}?historyLength={length}")
            assert (read.status_code, "history" in read.json()) == (status, kept)
        short = {**sent("hello"), "configuration": {"historyLength": 0}}
        assert "history" not in (await http.post("/assistant/message:send", json=short)).json()["task"]
        later = {**sent("publish it now"), "configuration": {"returnImmediately": True}}
        assert (await http.post("/assistant/message:send", json=later)).json()["task"]["status"]["state"] in (
            "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING",
        )  # fmt: skip


def sent(text: str, **ids: str) -> dict[str, Any]:
    said = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": [{"text": text}], **ids}
    return {"message": said}


@pytest.mark.requirement("PX-5")
async def test_a_hostile_agent_gets_errors_of_the_protocol(dialect_server: ServerProcess) -> None:
    async with httpx2.AsyncClient(base_url=f"{dialect_server.url}/a2a", timeout=60) as http:
        push_config = {"taskPushNotificationConfig": {"url": "http://x"}}
        for body, reason in (
            ({}, "INVALID_PARAMS"),
            ({"message": {}}, "INVALID_PARAMS"),
            ({"message": {"messageId": "1", "role": "ROLE_USER", "parts": []}}, "INVALID_PARAMS"),
            ({"message": {"messageId": "1", "role": "ROLE_AGENT", "parts": [{"text": "x"}]}}, "INVALID_PARAMS"),
            ({"message": {**sent("x")["message"], "parts": [{"url": "http://x/y"}]}}, "CONTENT_TYPE_NOT_SUPPORTED"),
            ({"message": {**sent("x")["message"], "parts": [{"data": [1]}]}}, "CONTENT_TYPE_NOT_SUPPORTED"),
            (sent("x", contextId="a/b"), "INVALID_PARAMS"),
            (sent("x", taskId="run_nowhere"), "TASK_NOT_FOUND"),
            ({**sent("x"), "configuration": push_config}, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        ):
            answer = await http.post("/assistant/message:send", json=body)
            assert answer.json()["error"]["details"][0]["reason"] == reason, (body, answer.text)
        wrong = await http.post("/assistant/message:send", content=b"{")
        assert wrong.status_code == 400
        large = await http.post("/assistant/message:send", content=b'{"a":"' + b"x" * (5 * 1024 * 1024) + b'"}')
        assert large.status_code == 413
        assert (await http.post("/nobody/message:send", json=sent("x"))).status_code == 404
        assert (await http.get("/assistant/tasks?pageSize=5000")).status_code == 400
        listed = await http.get("/assistant/tasks?statusTimestampAfter=2026-01-01T00:00:00Z")
        assert listed.json()["error"]["details"][0]["reason"] == "UNSUPPORTED_OPERATION"
        push = await http.get("/assistant/tasks/x/pushNotificationConfigs")
        assert push.json()["error"]["details"][0]["reason"] == "PUSH_NOTIFICATION_NOT_SUPPORTED"
        for method, code in (("NoSuch", -32601), ("CreateTaskPushNotificationConfig", -32003), ("GetTask", -32001)):
            answer = await http.post("/assistant", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": {}})
            assert answer.json()["error"]["code"] == code
        old = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {}}
        assert (await http.post("/assistant", json=old)).json()["error"]["code"] == -32009
        version = await http.post("/assistant/message:send", json=sent("x"), headers={"a2a-version": "7.0"})
        assert version.json()["error"]["details"][0]["reason"] == "VERSION_NOT_SUPPORTED"


@pytest.mark.requirement("PX-3")
async def test_a_task_outlives_the_server_and_clients_of_0_3_are_served_where_that_is_set(tmp_path: Path) -> None:
    variables = {"HOLDFAST_A2A_V03": "true"}
    workspace = make_workspace(tmp_path / "workspace")
    server = await asyncio.to_thread(ServerProcess.start, tmp_path / "data", None, workspace, variables)
    try:
        async with httpx2.AsyncClient(timeout=60) as http:
            said = {
                "kind": "message",
                "messageId": "1",
                "role": "user",
                "parts": [{"kind": "text", "text": "publish it"}],
            }
            body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": said}}
            waits = (await http.post(f"{server.url}/a2a/assistant", json=body)).json()["result"]
            assert (waits["kind"], waits["status"]["state"]) == ("task", "input-required")
        server.kill()
        server = await asyncio.to_thread(server.again)
        async with httpx.AsyncClient(timeout=60, verify=False) as http:
            card = await A2ACardResolver(http, server.url).get_agent_card()
            assert card.name == "echo", "the agent that answers when nobody is named"
            assert list(card.default_input_modes) == ["text/plain", "application/json"], "it has no model"
            client = await client_of(http, server.url, "assistant", "JSONRPC", streaming=False)
            (done,) = await all_of(client.send_message(message("approve", task_id=waits["id"])))
            assert done.task.artifacts[0].parts[0].text == "It has been published."
        await _speak_0_3(server.url, tmp_path / "go")
        async with httpx2.AsyncClient(timeout=60) as http:
            said["parts"] = [{"kind": "text", "text": "good day"}]
            stream = body | {"method": "message/stream", "params": {"message": {**said, "messageId": "2"}}}
            frames = (await http.post(f"{server.url}/a2a/assistant", json=stream)).text
            assert '"kind":"artifact-update"' in frames and '"final":true' in frames and '"state":"completed"' in frames
    finally:
        server.stop()


async def _client_of_0_3(http: httpx.AsyncClient, url: str, agent: str) -> Any:
    """The SDK's own client for servers of 0.3: it takes the card's interface of that version."""
    card = await A2ACardResolver(http, f"{url}/a2a/{agent}").get_agent_card()
    for one in [one for one in card.supported_interfaces if not one.protocol_version.startswith("0.3")]:
        card.supported_interfaces.remove(one)
    config = ClientConfig(httpx_client=http, streaming=True, supported_protocol_bindings=["JSONRPC"])
    return ClientFactory(config).create(card)


async def _speak_0_3(url: str, go: Path) -> None:
    async with httpx.AsyncClient(timeout=60) as http:
        client = await _client_of_0_3(http, url, "assistant")
        events = await all_of(client.send_message(message("calculate it")))
        assert states_of(events)[-1] == "TASK_STATE_COMPLETED" and output_of(events).startswith("That makes")
        read = await client.get_task(pb.GetTaskRequest(id=events[0].task.id))
        assert read.artifacts[0].parts[0].text == output_of(events)
        holder = await _client_of_0_3(http, url, "holder")
        assert states_of(await left_and_subscribed_to(holder, go))[-1] == "TASK_STATE_COMPLETED"
        waits = (await all_of(client.send_message(message("publish it now"))))[-1].status_update
        assert waits.status.state == pb.TASK_STATE_INPUT_REQUIRED
        cancelled = await client.cancel_task(pb.CancelTaskRequest(id=waits.task_id))
        assert cancelled.status.state == pb.TASK_STATE_CANCELED
        with pytest.raises(TaskNotFoundError):
            await client.get_task(pb.GetTaskRequest(id="run_nowhere"))
