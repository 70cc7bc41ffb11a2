"""Telemetry sinks of a real server: JSON lines on standard output, spans at a collector, and both under pressure."""

import asyncio
import signal
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.core import json
from app.core.settings import Settings
from app.events.observers import Observer
from app.protocols.telemetry import sinks
from app.protocols.telemetry.sinks import OTLP, STDOUT, SinkKind
from app.wiring import foundation, kinds
from app.workspace.catalog import Kinds
from tests.clients import submit
from tests.collector import collecting
from tests.faults.processes import flags, started
from tests.server import in_process
from tests.sse import frames

WORKSPACE = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: observed}
spec:
  defaultAgent: clerk
  telemetry: {sinks: [%s]}
  redaction: {traceFields: [input, arguments], pii: traces}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true, tools: true}
  script:
    rules: [{match: {afterTool: echo}, reply: {text: done}}]
    default: {toolCalls: [{name: echo, args: {text: "for anna@example.com"}}]}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: echo}
spec: {kind: builtin, effect: readonly}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: clerk}
spec: {model: script, tools: [echo]}
"""


def space(folder: Path, *declared: str) -> Path:
    (folder / "space").mkdir()
    (folder / "space" / "workspace.yaml").write_text(WORKSPACE % ", ".join(f"{{kind: {kind}}}" for kind in declared))
    return folder / "space"


@pytest.mark.requirement("HK-12", "SH-16")
async def test_a_server_prints_its_events_and_sends_their_spans_without_personal_data(
    settings: Settings, tmp_path: Path
) -> None:
    root = space(tmp_path, "stdout", "otlp")
    with collecting() as collector:
        variables = {"HOLDFAST_WORKSPACE": str(root), "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        if settings.secret_file is not None:
            variables["HOLDFAST_SECRET_FILE"] = str(settings.secret_file)
        async with started("app.main", "serve", "--port", "0", *flags(settings), variables=variables) as child:
            url = await child.line("listening on ")
            async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
                run = await submit(client, "clerk", "write to anna@example.com", wait=20)
                assert run["status"] == "completed", run
                stored = (await client.get(f"/api/runs/{run['id']}/events")).json()["items"]
                metrics = (await client.get("/metrics")).text
            lines: list[dict[str, Any]] = []
            while len(lines) < len(stored):
                line = json.loads(b'{"id":' + (await child.line('{"id":')).encode())
                lines += [line] if line["runId"] == run["id"] else []
            child.signal(signal.SIGTERM)
            assert await child.end() == 0, child.said
    assert [(it["id"], it["type"], it["seq"]) for it in lines] == [(it["id"], it["type"], it["seq"]) for it in stored]
    shown = [it["payload"] for it in lines if "payload" in it]
    assert shown == [{"input": "write to [REDACTED:email]"}, {"arguments": {"text": "for [REDACTED:email]"}}]
    assert 'holdfast_sink_dropped{sink="0-stdout"} 0' in metrics and 'sink="1-otlp"' in metrics
    spans = {span.name: span for span in collector.spans()}
    assert {"invoke_agent clerk", "chat script", "execute_tool echo"} <= set(spans)
    assert {span.trace_id for span in spans.values()} == {spans["invoke_agent clerk"].trace_id}
    attributes = {it.key: it.value.string_value for it in spans["invoke_agent clerk"].attributes}
    assert attributes["holdfast.input"] == "write to [REDACTED:email]"
    assert b"anna@example.com" not in b"".join(collector.bodies["/v1/traces"])


class Stuck:
    """A sink of a package that takes nothing until it is let go."""

    let_go = threading.Event()
    taken: list[Mapping[str, Any]]

    def __init__(self, _config: Mapping[str, Any]) -> None:
        Stuck.taken = []

    def send(self, events: Sequence[Mapping[str, Any]]) -> None:
        self.let_go.wait(20)
        self.taken += events


@pytest.mark.requirement("HK-29", "HK-12", "G13")
async def test_under_pressure_telemetry_is_dropped_and_neither_commands_nor_answers_are(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sink that hangs and a queue of 8: runs go on, a reader gets every event, a cancel is obeyed."""
    stuck = SinkKind(name="stuck", make=Stuck)
    for module in (kinds, foundation):
        monkeypatch.setattr(module, "sinks", lambda: Kinds([STDOUT, OTLP, stuck]))
    monkeypatch.setattr(sinks, "Observer", partial(Observer, size=8))
    Stuck.let_go.clear()
    observed = settings.model_copy(update={"workspace": space(tmp_path, "stuck")})
    async with in_process(observed) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        runs = await asyncio.gather(*(submit(client, "clerk", f"job {n}", wait=20) for n in range(5)))
        assert {run["status"] for run in runs} == {"completed"}
        for run in runs:
            stored = (await client.get(f"/api/runs/{run['id']}/events")).json()["items"]
            async with client.stream("GET", f"/api/runs/{run['id']}/stream") as answer:
                read = [frame.data["id"] async for frame in frames(answer) if frame.event != "end"]
            assert read == [event["id"] for event in stored]
        cancelled = await submit(client, "clerk", "one more")
        assert (await client.post(f"/api/runs/{cancelled['id']}/cancel")).status_code in (200, 202)
        metrics = (await client.get("/metrics")).text
        (dropped,) = [line for line in metrics.splitlines() if line.startswith('holdfast_sink_dropped{sink="0-stuck"')]
        assert float(dropped.split()[-1]) > 8 and "holdfast_readers_dropped_total 0" in metrics
        Stuck.let_go.set()
    assert Stuck.taken, "what fitted is delivered when the sink works again"
