"""Every route of ours, from the application: a parameter or a field that it does not declare is refused by name."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from app.protocols.auth.permissions import OPEN, needs_of, template
from app.protocols.http.errors import is_session_path
from tests.protocols.auth.auth_server import open_auth_server

LENIENT = ("/v1/", "/langgraph/", "/mcp", "/agui/", "/a2a/", "/.well-known/")
"""Interfaces of others, as is the codex-manager sessions API: their clients may send more than we know."""


def _is_lenient(path: str) -> bool:
    return path.startswith(LENIENT) or is_session_path(path) or path in {"/api", "/api/health", "/api/skills"}


def _address(route: APIRoute) -> str:
    return template(route.path).replace("{}", "none")


def _issues(answer: httpx2.Response) -> dict[str, str]:
    return {issue["path"]: issue["message"] for issue in answer.json()["error"]["issues"]}


@pytest.mark.requirement("S10")
async def test_no_route_of_ours_takes_a_parameter_that_it_does_not_declare(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        client = await server.caller("system")
        walked = 0
        for route in server.app.routes:
            if not isinstance(route, APIRoute) or needs_of(route) == OPEN or _is_lenient(route.path):
                continue
            for method in (route.methods or set()) - {"HEAD"}:
                answer = await client.request(method, _address(route), params={"wiat": "10", "x" * 100: "1"})
                assert (answer.status_code, answer.json()["error"]["code"]) == (400, "UNKNOWN_PARAMETER"), route.path
                assert set(_issues(answer)) == {"/query/wiat", "/query/*"}
                walked += 1
        assert walked > 45


@pytest.mark.requirement("S10")
async def test_no_route_of_ours_takes_a_field_that_it_does_not_declare(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        client = await server.caller("system")
        for route in server.app.routes:
            if not isinstance(route, APIRoute) or needs_of(route) == OPEN or _is_lenient(route.path):
                continue
            if route.path in ("/api/files", "/api/datasets/{name}/import", "/api/interrupts/{interrupt_id}/answer"):
                continue  # the bytes are the file; the interrupt's kind says what its answer has
            for method in (route.methods or set()) - {"HEAD"}:
                answer = await client.request(method, _address(route), json={"unheard": 1})
                assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST"), route.path
                empty = await client.request(method, _address(route), json={})
                assert "must be empty" not in empty.text


async def test_who_misspells_a_name_learns_the_nearest(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, auth="disabled") as server:
        client = server.client()
        for address, meant in (("/api/runs?statsu=queued", "status"), ("/api/runs?threadID=x", "threadId")):
            assert f"`{meant}`" in next(iter(_issues(await client.get(address)).values()))
        waited = await client.post("/api/runs?wiat=10", json={"agent": "echo", "input": "x"})
        assert _issues(waited) == {"/query/wiat": "is not known here; did you mean `wait`?"}
        body = {"agent": "echo", "input": "x", "thraedId": "t"}
        assert _issues(await client.post("/api/runs", json=body)) == {
            "/thraedId": "is not known here; did you mean `threadId`?"
        }
        limits = {"agent": "echo", "input": "x", "limits": {"tokns": 5}}
        assert _issues(await client.post("/api/runs", json=limits)) == {
            "/limits/tokns": "is not known here; did you mean `tokens`?"
        }
        assert not (await client.get("/api/runs")).json()["items"]


async def test_clients_of_other_interfaces_may_send_more(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, auth="disabled") as server:
        client = server.client()
        assert (await client.get("/v1/models?api-version=2024")).status_code == 200
        assert (await client.get("/api/sessions?page=1")).status_code == 200
        assert (await client.post("/api/sessions?x=1", json={"unheard": 1})).status_code < 300
        chat = {"model": "echo", "messages": [{"role": "user", "content": "hi"}], "unheard": 1}
        assert (await client.post("/v1/chat/completions?api-version=1", json=chat)).status_code == 200
        assert (await client.get("/healthz?verbose")).status_code == 200


async def test_no_route_is_worked_on_in_a_thread(tmp_path: Path) -> None:
    """The framework calls whatever is not a coroutine in a thread, for every request."""

    def called(dependant: Dependant) -> Iterator[object]:
        yield dependant.call
        for inner in dependant.dependencies:
            yield from called(inner)

    async with open_auth_server(tmp_path) as server:
        routes = [route for route in server.app.routes if isinstance(route, APIRoute)]
        assert len(routes) > 100
        for route in routes:
            assert [call for call in called(route.dependant) if not inspect.iscoroutinefunction(call)] == [], route.path
