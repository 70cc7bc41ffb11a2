"""The way past the framework: the same answers as through it."""

import contextlib
from collections.abc import Callable

import pytest
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Message

from app.core.errors import Failure
from app.core.principal import LOCAL
from app.protocols.auth.permissions import ANYBODY
from app.protocols.edge.shortcut import Shortcut
from app.protocols.http import errors
from app.protocols.http.caller import Caller
from app.protocols.http.errors import HttpProblem
from app.protocols.http.straight import straight, straight_handlers
from app.protocols.openai.errors import OpenAiRoute


def app_with(serve: Callable[[], Response]) -> FastAPI:
    router = APIRouter(prefix="/v1", route_class=OpenAiRoute)

    @router.post("/made/up")
    @straight
    async def made_up(request: Request, caller: Caller) -> Response:
        assert caller is LOCAL and request.url.path == "/v1/made/up"
        return serve()

    app = FastAPI(openapi_url=None)
    errors.install(app)
    app.router.routes += router.routes
    return app


async def asked(way: ASGIApp, method: str) -> tuple[int, bytes]:
    scope = {
        "type": "http", "method": method, "path": "/v1/made/up", "raw_path": b"/v1/made/up", "query_string": b"",
        "headers": [(b"host", b"here")], "scheme": "http", "server": ("here", 80), "root_path": "",
        "holdfast.principal": LOCAL,  # as the gate notes it
    }  # fmt: skip
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    with contextlib.suppress(RuntimeError):  # raised again behind the answer, for the server's log
        await way(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


async def both_ways(app: FastAPI, method: str = "POST") -> tuple[tuple[int, bytes], tuple[int, bytes]]:
    """What the shortcut answers, and what the framework does."""
    for route in app.routes:
        if isinstance(route, OpenAiRoute):
            route.holdfast_needs = ANYBODY  # type: ignore[attr-defined]  # as `guard` notes it
    return await asked(Shortcut(app, straight_handlers(app.routes)), method), await asked(app, method)


def refuse() -> Response:
    raise HttpProblem(Failure("THREAD_CLOSED", "the thread is closed"))


def break_down() -> Response:
    raise RuntimeError("nobody expected this")


@pytest.mark.parametrize("serve", [lambda: Response(b"fine"), refuse, break_down])
async def test_the_shortcut_answers_as_the_framework_does(serve: Callable[[], Response]) -> None:
    short, long = await both_ways(app_with(serve))
    assert short == long


async def test_another_method_goes_the_long_way() -> None:
    short, long = await both_ways(app_with(lambda: Response(b"fine")), "GET")
    assert short == long and short[0] == 405


def _wrong(problem: str, route: APIRoute) -> None:
    route.holdfast_needs = ANYBODY  # type: ignore[attr-defined]  # as `guard` notes it
    with pytest.raises(RuntimeError, match=problem):
        straight_handlers([route])


async def with_path(request: Request, caller: Caller, id: str) -> Response:
    return Response(b"")


async def with_query(request: Request, caller: Caller, stream: bool = False) -> Response:
    return Response(b"")


async def without_caller(request: Request) -> Response:
    return Response(b"")


async def fit(request: Request, caller: Caller) -> Response:
    return Response(b"")


def test_a_route_that_cannot_be_straight_is_refused_when_the_server_starts() -> None:
    assert straight_handlers([OpenAiRoute("/x", fit, methods=["POST"])]) == {}  # not declared
    for endpoint in (with_path, with_query, without_caller, fit):
        straight(endpoint)  # type: ignore[type-var]  # that is what is wrong with them
    _wrong("has parameters", OpenAiRoute("/x/{id}", with_path, methods=["POST"]))
    _wrong("has parameters", OpenAiRoute("/x", with_query, methods=["POST"]))
    _wrong("something else than its caller", OpenAiRoute("/x", without_caller, methods=["POST"]))
    _wrong("method is not POST", OpenAiRoute("/x", fit, methods=["GET"]))
    _wrong("does not answer failures", APIRoute("/x", fit, methods=["POST"]))
    with pytest.raises(RuntimeError, match="has no permission"):
        straight_handlers([OpenAiRoute("/x", fit, methods=["POST"])])
