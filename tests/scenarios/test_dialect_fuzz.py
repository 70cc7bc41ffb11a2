"""Made-up requests to A2A and MCP, which no OpenAPI document describes: each gets an answer of its protocol."""

import asyncio
import contextlib
import json as plain_json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from app.core import json
from app.core.settings import Settings
from tests.server import in_process

pytestmark = pytest.mark.requirement("PX-5", "PX-3", "PX-10")
A2A_METHODS: Final = (
    "SendMessage", "GetTask", "ListTasks", "CancelTask", "SubscribeToTask", "GetExtendedAgentCard",
    "CreateTaskPushNotificationConfig", "GetTaskPushNotificationConfig", "ListTaskPushNotificationConfigs",
    "DeleteTaskPushNotificationConfig", "SendStreamingMessage", "message/send", "tasks/get", "nothing",
)  # fmt: skip
MCP_METHODS: Final = (
    "initialize", "ping", "tools/list", "tools/call", "resources/list", "resources/read", "resources/templates/list",
    "prompts/list", "prompts/get", "tasks/get", "tasks/update", "tasks/cancel", "server/discover", "nothing",
)  # fmt: skip
REST: Final = (
    "POST /a2a/echo/message:send", "POST /a2a/echo/message:stream", "GET /a2a/echo/tasks", "GET /a2a/echo/tasks/{id}",
    "POST /a2a/echo/tasks/{id}:cancel", "GET /a2a/echo/tasks/{id}:subscribe",
    "POST /a2a/echo/tasks/{id}/pushNotificationConfigs", "DELETE /a2a/echo/tasks/{id}/pushNotificationConfigs/{id}",
)  # fmt: skip
_TEXT: Final = st.text(max_size=20) | st.sampled_from(
    ["run_x", "0", "-1", "a/b", "holdfast://runs/", "agent_echo", "\ud800"]
)
_LEAF: Final = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | _TEXT
_ANY: Final = st.recursive(_LEAF, lambda one: st.lists(one, max_size=3) | st.dictionaries(_TEXT, one, max_size=3))
_NAMES: Final = (
    "message", "configuration", "id", "taskId", "contextId", "messageId", "role", "parts", "text", "data", "raw",
    "pageSize", "pageToken", "historyLength", "status", "name", "arguments", "uri", "cursor", "_meta", "requestState",
    "inputResponses", "protocolVersion", "capabilities", "progressToken", "pushNotificationConfig", "url", "token",
)  # fmt: skip
_FIELDS: Final = st.recursive(
    st.dictionaries(st.sampled_from(_NAMES), _ANY, max_size=5),
    lambda one: st.dictionaries(st.sampled_from(_NAMES), one | st.lists(one, max_size=2), max_size=4),
    max_leaves=8,
)
_GOOD: Final = st.just({"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "hello"}]})
PARAMS: Final = _FIELDS | _FIELDS.flatmap(lambda one: _GOOD.map(lambda said: {**one, "message": said})) | _ANY


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """One request: how it is sent, and whether JSON-RPC is spoken there."""
    kind = draw(st.sampled_from(("a2a", "rest", "mcp")))
    if kind == "rest":
        method, _, path = draw(st.sampled_from(REST)).partition(" ")
        task = draw(st.sampled_from(["run_x", "x" * 300, "%00", "...", "%2F", "ä"]))
        made: dict[str, Any] = {"method": method, "url": path.replace("{id}", task)}
        if method == "GET":
            return made | {"params": draw(st.dictionaries(st.sampled_from(_NAMES), st.text("0x-", max_size=9)))}
        return made | {"content": _written(draw(PARAMS))}
    names, url = (A2A_METHODS, "/a2a/echo") if kind == "a2a" else (MCP_METHODS, "/mcp")
    body = {"jsonrpc": "2.0", "id": draw(_LEAF), "method": draw(st.sampled_from(names)), "params": draw(PARAMS)}
    headers = {"accept": "application/json, text/event-stream"}
    if kind == "mcp" and draw(st.booleans()):
        headers["mcp-protocol-version"] = draw(st.sampled_from(["2025-11-25", "2026-07-28", "1999-01-01"]))
    return {"method": "POST", "url": url, "content": _written(body), "headers": headers}


def _written(value: Any) -> bytes:
    return plain_json.dumps(value).encode()  # ours refuses lone surrogates and large integers


async def answered(http: httpx2.AsyncClient, request: dict[str, Any]) -> None:
    async with asyncio.timeout(60), http.stream(**request) as answer:
        assert answer.status_code < 500, (request, await answer.aread())
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            await answer.aread()  # the agent's answers are short
            return
        raw = await answer.aread()
    if answer.status_code in (202, 307, 405) and not raw:  # 307: an address that ends with a slash
        return
    body = json.loads(raw)
    if request["url"] in ("/mcp", "/a2a/echo"):
        assert body["jsonrpc"] == "2.0" and ("result" in body) != ("error" in body), (request, body)
        assert "error" not in body or isinstance(body["error"]["code"], int), body
    elif answer.status_code >= 400:
        assert body["error"]["code"] == answer.status_code and body["error"]["details"][0]["reason"], (request, body)


@contextlib.asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[httpx2.AsyncClient]:
    made = Settings(data_dir=folder, a2a_v03=True, person_wait_seconds=1)
    async with in_process(made) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
        yield http


def _check(folder: Path, count: int) -> None:
    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()
        http = runner.run(stack.enter_async_context(serving(folder)))
        try:

            @examples(
                max_examples=count, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )  # fmt: skip
            @given(requests())
            def in_its_own_words(request: dict[str, Any]) -> None:
                runner.run(answered(http, request))

            in_its_own_words()
        finally:
            runner.run(stack.aclose())


def test_made_up_requests_get_answers_of_the_protocol(tmp_path: Path) -> None:
    _check(tmp_path, 80)


@pytest.mark.faults
def test_many_made_up_requests_get_answers_of_the_protocol(tmp_path: Path) -> None:
    _check(tmp_path, 1000)
