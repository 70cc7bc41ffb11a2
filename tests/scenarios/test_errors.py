"""What a stranger sends: every mistake has a stable code, and no answer repeats what was sent."""

import httpx2
import pytest

SUBMITTED = "Zq7-never-say-this-back"
JSON = {"content-type": "application/json"}


def _assert_error(answer: httpx2.Response, status: int, code: str) -> None:
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json().keys() == {"error"}
    assert answer.json()["error"].keys() >= {"code", "message", "remedy"}
    assert SUBMITTED not in answer.text


def _deep(levels: int) -> str:
    return "[" * levels + f'"{SUBMITTED}"' + "]" * levels


@pytest.mark.requirement("S10")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "JSON_INVALID"),
        (b"{", "JSON_INVALID"),
        (b'{"agent":"echo","input":"Zq7-never-say-this-back"', "JSON_INVALID"),
        (b'{"agent":"echo","input":{"x":NaN,"y":"Zq7-never-say-this-back"}}', "JSON_INVALID"),
        (b'{"agent":"echo","input":{"x":Infinity}}', "JSON_INVALID"),
        (b'{"agent":"echo","input":{"x":-Infinity}}', "JSON_INVALID"),
        (b'{"agent":"echo","input":{"x":1e999}}', "JSON_INVALID"),
        (b'{"agent":"echo","input":"Zq7-never-say-this-back\\ud800"}', "JSON_INVALID"),
        (b'{"agent":"echo","input":"\xff\xfe"}', "JSON_INVALID"),
        (b'\xef\xbb\xbf{"agent":"echo","input":"x"}', "JSON_INVALID"),
        (b'{"agent":"echo","input":"x","input":"Zq7-never-say-this-back"}', "JSON_DUPLICATE_KEY"),
        (b'{"agent":"echo","input":{"a":{"b":1,"b":"Zq7-never-say-this-back"}}}', "JSON_DUPLICATE_KEY"),
        (b'{"agent":"echo","input":"Zq7-never-say-this-back\\u0000"}', "JSON_NUL"),
        (b'{"agent":"echo","input":{"k\\u0000":1}}', "JSON_NUL"),
        (b'{"agent":"echo","input":{"x":18446744073709551616}}', "JSON_NUMBER_RANGE"),
        (b'{"agent":"echo","input":{"x":-9223372036854775809}}', "JSON_NUMBER_RANGE"),
        (b'{"agent":"echo","input":{"x":' + _deep(31).encode() + b"}}", "JSON_TOO_DEEP"),
        (b'{"agent":"echo","input":{"x":' + _deep(50_000).encode() + b"}}", "JSON_TOO_DEEP"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_is_not_strict_json_is_refused_with_its_reason(
    client: httpx2.AsyncClient, body: bytes, code: str
) -> None:
    _assert_error(await client.post("/api/runs", content=body, headers=JSON), 400, code)


@pytest.mark.requirement("S10")
@pytest.mark.parametrize(
    "value",
    [2**64 - 1, -(2**63), 1.5e300, "\u2028\U0001f600 \x7f", {"x": [[], {}, None, True]}],
    ids=["largest", "smallest", "float", "unicode", "nested"],
)
async def test_unusual_but_strict_values_come_back_as_they_were(client: httpx2.AsyncClient, value: object) -> None:
    body = {"agent": "echo", "input": {"value": value}}
    run = (await client.post("/api/runs", params={"wait": 30}, json=body)).json()
    assert (run["status"], run["input"]) == ("completed", body["input"])


@pytest.mark.requirement("S10")
@pytest.mark.parametrize(
    ("body", "path"),
    [
        ([], "/"),
        (SUBMITTED, "/"),
        ({"agent": "echo"}, "/input"),
        ({"agent": "", "input": "x"}, "/agent"),
        ({"agent": 5, "input": "x"}, "/agent"),
        ({"agent": "echo", "input": "x", "busy": SUBMITTED}, "/busy"),
        ({"agent": "echo", "input": "x", "threadId": ""}, "/threadId"),
        ({"agent": "echo", "input": "x", "threadId": SUBMITTED * 20}, "/threadId"),
        ({"agent": "echo", "input": "x", "labels": {"a": {"b": SUBMITTED}}}, "/labels/a"),
        ({"agent": "echo", "input": "x", "unknown": SUBMITTED}, "/unknown"),
    ],
    ids=str,
)
async def test_a_wrong_field_is_named_by_its_place(client: httpx2.AsyncClient, body: object, path: str) -> None:
    answer = await client.post("/api/runs", json=body)
    _assert_error(answer, 400, "INVALID_REQUEST")
    assert path in {issue["path"] for issue in answer.json()["error"]["issues"]}


@pytest.mark.requirement("S10")
async def test_an_input_of_no_accepted_kind_is_refused_without_being_repeated(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/api/runs", json={"agent": "echo", "input": [SUBMITTED, 1]})
    _assert_error(answer, 400, "INVALID_REQUEST")


async def test_a_body_over_the_limit_is_413(client: httpx2.AsyncClient) -> None:
    body = b'{"decision":"' + SUBMITTED.encode() * 60_000 + b'"}'
    answer = await client.post("/api/interrupts/int_1/answer", content=body, headers=JSON)
    _assert_error(answer, 413, "BODY_TOO_LARGE")


@pytest.mark.parametrize("path", ["/api/nothing", f"/{SUBMITTED}", "/api/stream"])
async def test_a_path_that_is_not_there_is_404(client: httpx2.AsyncClient, path: str) -> None:
    _assert_error(await client.get(path), 404, "NOT_FOUND")


@pytest.mark.parametrize(("method", "path"), [("PUT", "/api/runs"), ("DELETE", "/healthz"), ("PUT", "/api/runs/x")])
async def test_a_method_that_is_not_there_is_405(client: httpx2.AsyncClient, method: str, path: str) -> None:
    answer = await client.request(method, path)
    _assert_error(answer, 405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"]


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", f"/api/runs/{SUBMITTED}", "RUN_NOT_FOUND"),
        ("GET", f"/api/runs/{SUBMITTED}/events", "RUN_NOT_FOUND"),
        ("POST", f"/api/runs/{SUBMITTED}/cancel", "RUN_NOT_FOUND"),
        ("GET", f"/api/threads/{SUBMITTED}", "THREAD_NOT_FOUND"),
        ("GET", f"/api/threads/{SUBMITTED}/events", "THREAD_NOT_FOUND"),
        ("GET", f"/api/threads/{SUBMITTED}/export", "THREAD_NOT_FOUND"),
    ],
)
async def test_an_id_that_is_not_there_is_404(client: httpx2.AsyncClient, method: str, path: str, code: str) -> None:
    _assert_error(await client.request(method, path), 404, code)


@pytest.mark.requirement("S10")
@pytest.mark.parametrize("path", ["/api/runs/%00", "/api/threads/a%00b", "/api/threads?after=%00", "/api/runs/%00/x/y"])
async def test_nul_in_an_address_is_refused(client: httpx2.AsyncClient, path: str) -> None:
    _assert_error(await client.get(path), 400, "INVALID_REQUEST")


@pytest.mark.parametrize(
    "query", [f"limit={SUBMITTED}", "limit=0", "limit=1001", f"after={SUBMITTED}", "type=" + SUBMITTED * 10]
)
async def test_a_wrong_parameter_is_refused_by_name(client: httpx2.AsyncClient, query: str) -> None:
    run = (await client.post("/api/runs", json={"agent": "echo", "input": "x"})).json()
    answer = await client.get(f"/api/runs/{run['id']}/events?{query}")
    _assert_error(answer, 400, "INVALID_REQUEST")
    assert answer.json()["error"]["issues"][0]["path"].endswith(query.partition("=")[0])


async def test_an_unknown_export_format_is_refused(client: httpx2.AsyncClient) -> None:
    run = (await client.post("/api/runs", json={"agent": "echo", "input": "x"})).json()
    answer = await client.get(f"/api/threads/{run['threadId']}/export", params={"format": SUBMITTED})
    _assert_error(answer, 400, "INVALID_REQUEST")


@pytest.mark.parametrize("key", ["", "k" * 201])
async def test_an_idempotency_key_of_no_sensible_length_is_refused(client: httpx2.AsyncClient, key: str) -> None:
    body = {"agent": "echo", "input": "x"}
    answer = await client.post("/api/runs", json=body, headers={"idempotency-key": key})
    _assert_error(answer, 400, "INVALID_REQUEST")
