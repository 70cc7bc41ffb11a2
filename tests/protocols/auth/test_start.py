"""What keeps a server from starting: settings that would let strangers in, and routes that nobody guards."""

from pathlib import Path

import pytest
from fastapi import APIRouter, FastAPI, Request, Response
from pydantic import BaseModel

from app.core.errors import HoldfastError
from app.core.settings import Settings, SettingsError
from app.protocols.auth.permissions import NEEDS, OPEN, guard
from app.protocols.http.caller import Caller, authorise


@pytest.mark.requirement("S1")
@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"HOST": "0.0.0.0"}, "HOLDFAST_HOST"),
        ({"HOST": "0.0.0.0", "AUTH": "disabled"}, "HOLDFAST_HOST"),
        ({"AUTH": ""}, "HOLDFAST_AUTH"),
        ({"AUTH": "none"}, "HOLDFAST_AUTH"),
        ({"AUTH": "disabled,keys"}, "HOLDFAST_AUTH"),
        ({"AUTH": "keys,basic"}, "HOLDFAST_AUTH"),
        ({"AUTH": "jwt"}, "HOLDFAST_JWT_ISSUERS"),
        ({"AUTH": "header"}, "HOLDFAST_TRUSTED_PROXIES"),
        ({"AUTH": "header", "TRUSTED_PROXIES": "proxy.internal"}, "HOLDFAST_TRUSTED_PROXIES"),
        ({"AUTH": "header", "TRUSTED_PROXIES": "10.0.0.1/8"}, "HOLDFAST_TRUSTED_PROXIES"),
        ({"TRUSTED_PROXIES": "10.0.0.1"}, "HOLDFAST_TRUSTED_PROXIES"),
        ({"ADMIN_KEY_FILE": "admin.key"}, "HOLDFAST_ADMIN_KEY_FILE"),
        ({"AUTH": "keys", "JWT_ISSUERS": "issuers.json"}, "HOLDFAST_JWT_ISSUERS"),
        ({"CORS_ORIGINS": "*"}, "HOLDFAST_CORS_ORIGINS"),
        ({"CORS_ORIGINS": "https://*.example.org"}, "HOLDFAST_CORS_ORIGINS"),
        ({"CORS_ORIGINS": "https://example.org/"}, "HOLDFAST_CORS_ORIGINS"),
        ({"CORS_ORIGINS": "example.org"}, "HOLDFAST_CORS_ORIGINS"),
    ],
    ids=str,
)
def test_settings_that_would_let_strangers_in_stop_the_start(environ: dict[str, str], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        Settings.load({f"HOLDFAST_{name}": value for name, value in environ.items()})


@pytest.mark.requirement("S1")
@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"HOST": "0.0.0.0", "AUTH": "keys"},
        {"HOST": "::", "AUTH": "keys, jwt", "JWT_ISSUERS": "issuers.json"},
        {"HOST": "10.1.1.1", "AUTH": "header,keys", "TRUSTED_PROXIES": "10.0.0.0/8,::1"},
        {"CORS_ORIGINS": "https://example.org, http://[::1]:3000"},
    ],
    ids=str,
)
def test_settings_that_say_who_may_call_are_taken(environ: dict[str, str]) -> None:
    Settings.load({f"HOLDFAST_{name}": value for name, value in environ.items()})


class Body(BaseModel):
    name: str


async def not_in_the_table(_caller: Caller) -> None: ...


async def nobody_asks(_request: Request) -> Response:
    raise AssertionError


async def read_by_the_framework(_caller: Caller, _body: Body) -> None: ...


@pytest.mark.requirement("S5", "S10")
@pytest.mark.parametrize(
    ("method", "path", "endpoint", "message"),
    [
        ("GET", "/api/secrets", not_in_the_table, "GET /api/secrets has no one permission"),
        ("PUT", "/api/runs/{id}", not_in_the_table, "PUT /api/runs/{} has no one permission"),
        ("GET", "/api/runs/{id}", nobody_asks, "does not ask who calls"),
        ("POST", "/api/runs", read_by_the_framework, "lets the framework read its body"),
    ],
)
def test_a_route_that_nobody_guards_stops_the_start(method: str, path: str, endpoint: object, message: str) -> None:
    router = APIRouter()
    router.add_api_route(path, endpoint, methods=[method])  # type: ignore[arg-type]  # any of the three
    with pytest.raises(HoldfastError, match="ROUTE_UNGUARDED") as caught:
        guard(router.routes, authorise)
    assert message in caught.value.failure.message


@pytest.mark.requirement("S5")
def test_a_plain_route_and_a_websocket_need_a_permission_too() -> None:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.add_route("/api/raw", nobody_asks)
    app.add_api_websocket_route("/api/other", nobody_asks)
    with pytest.raises(HoldfastError) as caught:
        guard(app.routes, authorise)
    assert "GET /api/raw" in caught.value.failure.message
    assert "WS /api/other" in caught.value.failure.message


def test_only_health_readiness_and_the_front_page_are_open() -> None:
    assert {route for route, needs in NEEDS.items() if needs == OPEN} == {
        "GET /",
        "GET /console",
        "GET /console/{}",
        "GET /healthz",
        "GET /readyz",
    }


def test_the_workspace_of_the_defaults_needs_no_key(tmp_path: Path) -> None:
    settings = Settings.load({}, data_dir=tmp_path)
    assert settings.auth_modes == frozenset()
