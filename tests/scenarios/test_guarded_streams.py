"""What a model streams in pieces: nothing that is redacted leaves or is stored, wherever it is cut, on any protocol."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from json import JSONDecoder
from typing import Any, Final

import httpx2
import pytest
from websockets.asyncio.client import connect

from app.core import json
from app.core.settings import Settings
from app.policy.redaction import LogRedaction
from tests import sse
from tests.scenarios.guarded import KNOWN_SECRET, make_guarded_workspace
from tests.server import ServerProcess

SECRETS: Final = (
    KNOWN_SECRET,
    "sk-proj-" + "aB3x" * 8,
    "AKIAIOSFODNN7EXAMPLE",
    "ghp_" + "a1B2c3" * 6,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC\n-----END RSA PRIVATE KEY-----",
)
PERSONAL: Final = (
    "4111 1111 1111 1111",
    "DE89 3704 0044 0532 0130 00",
    "joe.bloggs@example.com",
    "+49 30 1234567",
    "123-45-6789",
    "00:1B:44:11:3A:B7",
    "project apollo",
)
PLAIN: Final = (
    "Sure, ask me: risk-free, 2,500 items (v1.2.3) by 12:30 on 2024-11-17 \u2014 \u4f60\u597d, stra\u00dfe \U0001f600 "
)


@pytest.fixture(scope="module")
def guarded(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    workspace = make_guarded_workspace(tmp_path_factory.mktemp("guarded") / "workspace")
    variables = {"SCENARIO_SECRET": KNOWN_SECRET}
    server = ServerProcess.start(settings.data_dir, settings.database_url, workspace, variables)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
async def client(guarded: ServerProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=guarded.url, timeout=60) as client:
        yield client


async def _chat(client: httpx2.AsyncClient, agent: str, text: str) -> tuple[str, str, bytes]:
    """The streamed text, the thread, and all that came over the wire."""
    body = {"model": agent, "stream": True, "messages": [{"role": "user", "content": text}]}
    async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        assert answer.status_code == 200
        raw = b"".join([chunk async for chunk in answer.aiter_bytes()])
    lines = [line.removeprefix(b"data: ") for line in raw.split(b"\n\n") if line.startswith(b"data: {")]
    chunks: list[Any] = [json.loads(line) for line in lines]
    deltas = [choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"]]
    return "".join(deltas), answer.headers["x-holdfast-thread-id"], raw


def _said(payloads: list[dict[str, Any]]) -> str:
    return "".join(p["event"]["text"] for p in payloads if p.get("event", {}).get("phase") == "agent.output.delta")


async def _everywhere(client: httpx2.AsyncClient, guarded: ServerProcess, agent: str, given: str, want: str) -> None:
    secret_pieces = [piece for piece in (*SECRETS, *PERSONAL) if piece in given and piece not in want]
    text, thread_id, raw = await _chat(client, agent, given)
    assert text == want
    items = (await client.get(f"/api/threads/{thread_id}/events", params={"limit": 1000})).json()["items"]
    out = [e for e in items if e["type"] not in ("runtime.request.queued", "runtime.model.requested")]
    run_id = items[0]["runId"] or items[1]["runId"]
    frames = await sse.read(client, f"/api/runs/{run_id}/stream")
    over_sse = [frame.data for frame in frames if isinstance(frame.data, dict) and "payload" in frame.data]
    assert _said([event["payload"] for event in out]) == want
    assert _said([data["payload"] for data in over_sse]) == want
    asked = ("runtime.request.queued", "runtime.model.requested")
    shown = [data for data in over_sse if data.get("type") not in asked]
    for piece in secret_pieces:
        escaped = json.dumps(piece)[1:-1]
        assert escaped not in raw and escaped not in json.dumps(out) and escaped not in json.dumps(shown)


def _redacted(text: str) -> str:
    for piece, label in zip(
        PERSONAL, ("card", "iban", "email", "phone", "national_id", "mac", "codename"), strict=True
    ):
        text = text.replace(piece, f"[REDACTED:{label}]")
    return LogRedaction(known=[KNOWN_SECRET]).text(text)


SECRET_TEXT: Final = PLAIN + ", ".join(SECRETS) + " and done."
ALL_TEXT: Final = PLAIN + ", ".join((*PERSONAL, *SECRETS)) + " and done."


@pytest.mark.requirement("G21", "HK-18")
@pytest.mark.parametrize("pad", [0, 3, 7, 11])
async def test_secrets_cut_anywhere_leave_on_no_protocol(
    client: httpx2.AsyncClient, guarded: ServerProcess, pad: int
) -> None:
    given = "." * pad + SECRET_TEXT
    await _everywhere(client, guarded, "plain16", given, LogRedaction(known=[KNOWN_SECRET]).text(given))


@pytest.mark.requirement("HK-17", "HK-18")
@pytest.mark.parametrize("pad", [0, 5, 9, 14])
async def test_personal_data_cut_anywhere_leaves_on_no_protocol(
    client: httpx2.AsyncClient, guarded: ServerProcess, pad: int
) -> None:
    given = "." * pad + ALL_TEXT
    await _everywhere(client, guarded, "redacts16", given, _redacted(given))


@pytest.mark.requirement("G21", "HK-18")
@pytest.mark.parametrize(("agent", "text"), [("plain_pieces", SECRET_TEXT), ("redacts_pieces", ALL_TEXT)])
async def test_text_that_arrives_letter_by_letter_is_redacted_the_same(
    client: httpx2.AsyncClient, guarded: ServerProcess, agent: str, text: str
) -> None:
    want = _redacted(text) if agent == "redacts_pieces" else LogRedaction(known=[KNOWN_SECRET]).text(text)
    await _everywhere(client, guarded, agent, text, want)


@pytest.mark.requirement("HK-18")
@pytest.mark.parametrize("agent", ["plain", "plain_pieces", "redacts", "redacts_pieces"])
async def test_text_without_anything_to_find_arrives_unchanged(
    client: httpx2.AsyncClient, guarded: ServerProcess, agent: str
) -> None:
    await _everywhere(client, guarded, agent, PLAIN * 2, PLAIN * 2)


async def _live(client: httpx2.AsyncClient, guarded: ServerProcess, agent: str, given: str) -> tuple[str, str]:
    """The frames of a websocket and of server-sent events that are open before the run begins, as they came."""
    thread_id = (await client.post("/api/threads", json={})).json()["id"]

    async def over_socket() -> str:
        got: list[str] = []
        while not got or '"runtime.request.completed"' not in got[-1]:
            got.append(str(await socket.recv()))
        return "".join(got)

    async with connect(f"{guarded.stream_url}?threadId={thread_id}&afterSeq=0") as socket:
        reading = asyncio.create_task(over_socket())
        body = {"agent": agent, "input": given, "threadId": thread_id}
        run = (await client.post("/api/runs", json=body)).json()
        async with asyncio.timeout(30):
            frames, got = await asyncio.gather(sse.read(client, f"/api/runs/{run['id']}/stream"), reading)
    return got, "".join(json.dumps(frame.data).decode() for frame in frames)


async def _responses(client: httpx2.AsyncClient, agent: str, given: str) -> tuple[str, str]:
    body = {"model": agent, "stream": True, "input": given}
    async with client.stream("POST", "/v1/responses", json=body) as answer:
        assert answer.status_code == 200
        raw = b"".join([chunk async for chunk in answer.aiter_bytes()]).decode()
    events = [json.loads(line.removeprefix("data: ")) for line in raw.splitlines() if line.startswith("data: {")]
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta"), raw


def _frames(text: str) -> list[dict[str, Any]]:
    """The events of a stream, without those that contain what was asked."""
    asked = ("runtime.request.queued", "runtime.model.requested", "runtime.transcript.upserted")
    found, decoder, at = [], JSONDecoder(), 0
    while at < len(text):
        frame, at = decoder.raw_decode(text, at)
        if isinstance(frame, dict) and "payload" in frame and frame.get("type") not in asked:
            found.append(frame)
    return found


async def _every_cut(client: httpx2.AsyncClient, guarded: ServerProcess, pads: Iterable[int]) -> int:
    """The model speaks in pieces of sixteen characters: with sixteen paddings there is a cut at every place."""
    tried = 0
    for pad in pads:
        given = "." * pad + ALL_TEXT
        want = _redacted(given)
        live, over_sse = await _live(client, guarded, "redacts16", given)
        for frames in (_frames(live), _frames(over_sse)):
            assert _said([f["payload"] for f in frames if f["type"] == "runtime.adapter.event"]) == want, pad
            for piece in (*SECRETS, *PERSONAL):
                assert json.dumps(piece)[1:-1] not in json.dumps(frames), (pad, piece)
        text, raw = await _responses(client, "redacts16", given)
        assert text == want, pad
        assert not [piece for piece in (*SECRETS, *PERSONAL) if json.dumps(piece)[1:-1].decode() in raw], pad
        await _everywhere(client, guarded, "redacts16", given, want)
        secrets = "." * pad + SECRET_TEXT
        await _everywhere(client, guarded, "plain16", secrets, LogRedaction(known=[KNOWN_SECRET]).text(secrets))
        tried += 1
    return tried


@pytest.mark.requirement("G21", "HK-18")
async def test_live_streams_of_every_protocol_get_the_same(client: httpx2.AsyncClient, guarded: ServerProcess) -> None:
    assert await _every_cut(client, guarded, [2]) == 1


@pytest.mark.faults
@pytest.mark.timeout(600)
@pytest.mark.requirement("G21", "HK-18")
async def test_a_cut_at_every_place_lets_nothing_leave(client: httpx2.AsyncClient, guarded: ServerProcess) -> None:
    assert await _every_cut(client, guarded, range(16)) == 16
