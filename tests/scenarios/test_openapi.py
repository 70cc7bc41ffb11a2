"""Schemathesis over the whole OpenAPI document against the real server: no 500, and every answer as documented.

With whatever it makes up, with ids of things that exist, so that the good answers are checked too, and without a key.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import GenerationConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from app.core import json
from scripts.generate import ROOT
from tests.server import ServerProcess

DOCUMENT: Final = json.loads((ROOT / "openapi/openapi.json").read_bytes())
OPERATIONS: Final = sorted(
    f"{method.upper()} {path}" for path, item in DOCUMENT["paths"].items() for method in item if method != "parameters"
)
ENDLESS: Final = (
    "/api/threads/{thread_id}/stream",
    "/api/threads/{thread_id}/ui/stream",
    "/langgraph/threads/{thread_id}/stream",
)
"""Streams that end only with their client: read by their own tests."""
NAMING: Final = [
    operation
    for operation in OPERATIONS
    if "_id}" in operation and not operation.endswith(ENDLESS) and not operation.startswith("DELETE")
]
"""Operations on something that exists, and stays for the others."""
OPEN: Final = ("/healthz", "/readyz")
SECRET: Final = frozenset({"authorization", "x-api-key"})
CHECKS: Final = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
QUICK: Final = settings(
    max_examples=6,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@dataclass(frozen=True, slots=True)
class Place:
    url: str
    key: str

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A server that asks for keys, and the first of them."""
    folder = tmp_path_factory.mktemp("openapi")
    key = folder / "admin.key"
    asks = {"HOLDFAST_AUTH": "keys", "HOLDFAST_ADMIN_KEY_FILE": str(key), "HOLDFAST_RATE_PER_KEY": "0"}
    server = ServerProcess.start(folder / "data", variables=asks)
    try:
        yield Place(server.url, key.read_text().strip())
    finally:
        server.stop()


@pytest.fixture(scope="module")
def existing(place: Place) -> dict[str, str]:
    """One of each thing that an address can name."""
    with httpx2.Client(base_url=place.url, headers=place.headers, timeout=30, verify=False) as client:
        run = client.post("/api/runs?wait=20", json={"agent": "assistant", "input": "please calculate"}).json()
        waiting = client.post("/api/runs?wait=20", json={"agent": "assistant", "input": "publish it now"}).json()
        large = client.post("/api/runs?wait=20", json={"agent": "echo", "input": "x" * 40_000}).json()
        queued = client.get(f"/api/runs/{large['id']}/events?limit=1").json()["items"][0]
        file = client.post("/api/files?name=a.txt", content=b"content").json()
        turn, decided = (
            client.post("/api/runs?wait=20", json={"agent": "assistant", "input": "publish it now"}).json()
            for _ in range(2)
        )
    return {
        "run_id": run["id"],
        "thread_id": large["threadId"],
        "interrupt_id": waiting["waitingOn"][0],
        "file_id": file["id"],
        "session_id": turn["threadId"],
        "turn_id": turn["id"],
        "approval_id": decided["waitingOn"][0],
        "sha256": queued["payload"]["input"]["$blob"]["sha256"],
    }


@pytest.fixture(scope="module")
def schema() -> Any:
    made = schemathesis.openapi.from_dict(DOCUMENT)
    made.config.generation = GenerationConfig(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
    return made


def _check(schema: Any, place: Place, operation: str, names: dict[str, str]) -> None:
    method, _, path = operation.partition(" ")
    found = schema[path][method]

    @QUICK
    @given(case=found.as_strategy())
    def holds(case: Any) -> None:
        known = {name: names[name] for name in case.path_parameters or {} if name in names}
        case.path_parameters = {**(case.path_parameters or {}), **known}
        if case.query and "wait" in case.query:
            case.query["wait"] = 1
        response = case.call(base_url=place.url, headers=place.headers, timeout=20)
        # 501 is how clients of codex-manager are answered where there is no such fact; only there, and documented.
        refused = response.status_code == 501 and "501" in DOCUMENT["paths"][path][method.lower()]["responses"]
        case.validate_response(response, checks=[one for one in CHECKS if not (refused and one is not_a_server_error)])

    holds()


@pytest.mark.requirement("CARD-4", "S10", "SH-22")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_answer_to_made_up_requests_breaks_the_document(schema: Any, place: Place, operation: str) -> None:
    _check(schema, place, operation, {})


@pytest.mark.requirement("S5", "S6")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_without_credentials_only_probes_are_answered(schema: Any, place: Place, operation: str) -> None:
    method, _, path = operation.partition(" ")

    @settings(QUICK, max_examples=1)
    @given(case=schema[path][method].as_strategy(generation_mode=GenerationMode.POSITIVE))
    def holds(case: Any) -> None:
        case.headers = {name: value for name, value in (case.headers or {}).items() if name.lower() not in SECRET}
        response = case.call(base_url=place.url, timeout=20)
        case.validate_response(response, checks=CHECKS)
        assert response.status_code == (200 if path in OPEN else 401)

    holds()


@pytest.mark.requirement("CARD-4", "SH-22")
@pytest.mark.parametrize("operation", NAMING)
def test_no_answer_about_what_exists_breaks_the_document(
    schema: Any, place: Place, existing: dict[str, str], operation: str
) -> None:
    _check(schema, place, operation, existing)
