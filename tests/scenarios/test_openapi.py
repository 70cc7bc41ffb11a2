"""Schemathesis over the whole OpenAPI document against the real server: no 500, and every answer as documented.

Twice: with whatever it makes up, and with ids of things that exist, so that the good answers are checked too.
"""

from collections.abc import Iterator
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
from tests.server import ServerProcess
from tests.tools.generate import ROOT

DOCUMENT: Final = json.loads((ROOT / "openapi/openapi.json").read_bytes())
OPERATIONS: Final = sorted(
    f"{method.upper()} {path}" for path, item in DOCUMENT["paths"].items() for method in item if method != "parameters"
)
ENDLESS: Final = ("/api/threads/{thread_id}/stream",)
"""Streams that end only with their client: read by their own tests."""
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


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = ServerProcess.start(tmp_path_factory.mktemp("openapi"))
    try:
        yield server.url
    finally:
        server.stop()


@pytest.fixture(scope="module")
def existing(url: str) -> dict[str, str]:
    """One of each thing that an address can name."""
    with httpx2.Client(base_url=url, timeout=30, verify=False) as client:
        run = client.post("/api/runs?wait=20", json={"agent": "assistant", "input": "please calculate"}).json()
        waiting = client.post("/api/runs?wait=20", json={"agent": "assistant", "input": "publish it now"}).json()
        large = client.post("/api/runs?wait=20", json={"agent": "echo", "input": "x" * 40_000}).json()
        queued = client.get(f"/api/runs/{large['id']}/events?limit=1").json()["items"][0]
        file = client.post("/api/files?name=a.txt", content=b"content").json()
    return {
        "run_id": run["id"],
        "thread_id": large["threadId"],
        "interrupt_id": waiting["waitingOn"][0],
        "file_id": file["id"],
        "sha256": queued["payload"]["input"]["$blob"]["sha256"],
    }


@pytest.fixture(scope="module")
def schema() -> Any:
    made = schemathesis.openapi.from_dict(DOCUMENT)
    made.config.generation = GenerationConfig(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
    return made


def _check(schema: Any, url: str, operation: str, names: dict[str, str]) -> None:
    method, _, path = operation.partition(" ")
    found = schema[path][method]

    @QUICK
    @given(case=found.as_strategy())
    def holds(case: Any) -> None:
        known = {name: names[name] for name in case.path_parameters or {} if name in names}
        case.path_parameters = {**(case.path_parameters or {}), **known}
        if case.query and "wait" in case.query:
            case.query["wait"] = 1
        response = case.call(base_url=url, timeout=20)
        case.validate_response(response, checks=CHECKS)

    holds()


@pytest.mark.requirement("CARD-4", "S10", "SH-22")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_no_answer_to_made_up_requests_breaks_the_document(schema: Any, url: str, operation: str) -> None:
    _check(schema, url, operation, {})


@pytest.mark.requirement("CARD-4", "SH-22")
@pytest.mark.parametrize("operation", [o for o in OPERATIONS if "_id}" in o and not o.endswith(ENDLESS)])
def test_no_answer_about_what_exists_breaks_the_document(
    schema: Any, url: str, existing: dict[str, str], operation: str
) -> None:
    if operation.startswith("DELETE"):
        pytest.skip("what others look at stays")
    _check(schema, url, operation, existing)
