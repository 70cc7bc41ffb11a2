"""Traces: one span a run, model call, tool call and wait, made from the log; the trace goes on to whoever is called."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from app.core import tracing
from app.core.settings import Settings
from app.core.tracing import Trace, accepted, call_key, span_id
from app.events.envelope import GENESIS, Event
from app.protocols.telemetry.otlp import open_tracer
from app.protocols.telemetry.spans import MAX_CONTENT, Spans
from app.workspace.trace_fields import TRACED
from tests.collector import Collector, collecting
from tests.server import in_process

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def _event(seq: int, type: str, payload: bytes, *, run: str = "run_1", at: int = 0) -> Event:
    return Event(f"evt_{seq}", "default", "thr_1", run, seq, seq, type, "system", at, payload, None, GENESIS, GENESIS)


def _spans(*events: Event) -> dict[str, Any]:
    """The spans of a story, by name."""
    exporter = InMemorySpanExporter()
    tracer, ids, provider = open_tracer(exporter)
    spans = Spans(tracer, ids)
    spans.committed(events)
    provider.shutdown()
    assert spans.open_runs == 0
    return {span.name: span for span in exporter.get_finished_spans()}


STORY = (
    (b'{"agent":"helper","input":"secret question"}', "runtime.request.queued", 1000),
    (b'{"messageId":"m1","providerModel":"gpt-9"}', "runtime.model.requested", 1010),
    (b'{"messageId":"m1","model":"main","provider":"openai","text":"secret","toolCalls":[],"finishReason":"tool_use",'
     b'"usage":{"inputTokens":7,"outputTokens":3},"firstTokenMs":40}', "runtime.model.completed", 1110),
    (b'{"callId":"c1","tool":"add","arguments":{"a":"secret"},"effect":"readonly"}', "runtime.tool.invoked", 1120),
    (b'{"callId":"c1","tool":"add","ok":false,"error":{"code":"TOOL_FAILED","message":"secret"}}',
     "runtime.tool.resulted", 1150),
    (b'{"interruptId":"i1","kind":"approval","title":"?"}', "runtime.interrupt.raised", 1200),
    (b'{"interruptId":"i1","answer":{},"answeredBy":"user:x"}', "runtime.interrupt.resolved", 1900),
    (b'{"output":"secret"}', "runtime.request.completed", 2000),
)  # fmt: skip


def _story(first: bytes = STORY[0][0]) -> list[Event]:
    lines = [(first, *STORY[0][1:]), *STORY[1:]]
    return [_event(seq, type, payload, at=at) for seq, (payload, type, at) in enumerate(lines, start=1)]


@pytest.mark.requirement("HK-12")
def test_a_run_is_one_trace_with_a_span_for_each_of_its_steps() -> None:
    spans = _spans(*_story())
    assert set(spans) == {"invoke_agent helper", "chat gpt-9", "execute_tool add", "wait approval"}
    root = spans.pop("invoke_agent helper")
    assert (root.parent, root.start_time, root.end_time) == (None, 1_000_000_000, 2_000_000_000)
    assert {span.context.trace_id for span in spans.values()} == {root.context.trace_id}
    assert {span.parent.span_id for span in spans.values()} == {root.context.span_id}
    assert (spans["chat gpt-9"].start_time, spans["chat gpt-9"].end_time) == (1_010_000_000, 1_110_000_000)


@pytest.mark.requirement("HK-12")
def test_spans_speak_the_genai_conventions() -> None:
    spans = _spans(*_story())
    assert (
        dict(spans["invoke_agent helper"].attributes).items()
        >= {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "helper",
            "gen_ai.conversation.id": "thr_1",
        }.items()
    )
    assert (
        dict(spans["chat gpt-9"].attributes).items()
        >= {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-9",
            "gen_ai.usage.input_tokens": 7,
            "gen_ai.usage.output_tokens": 3,
        }.items()
    )
    assert (
        dict(spans["execute_tool add"].attributes).items()
        >= {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "add",
            "gen_ai.tool.call.id": "c1",
            "error.type": "TOOL_FAILED",
        }.items()
    )


@pytest.mark.requirement("G21")
def test_a_trace_holds_no_contents() -> None:
    exported = " ".join(span.to_json() for span in _spans(*_story()).values())
    assert "secret" not in exported


@pytest.mark.requirement("HK-32", "OS-I3")
def test_a_trace_shows_the_fields_that_the_workspace_permits_and_no_others() -> None:
    exporter = InMemorySpanExporter()
    tracer, ids, provider = open_tracer(exporter)
    permitted: list[str] = ["input", "arguments"]
    Spans(tracer, ids, lambda: permitted).committed(_story())
    provider.shutdown()
    spans = {span.name: dict(span.attributes or {}) for span in exporter.get_finished_spans()}
    assert spans["invoke_agent helper"]["holdfast.input"] == "secret question"
    assert spans["execute_tool add"]["holdfast.arguments"] == '{"a":"secret"}'
    shown = {name for attributes in spans.values() for name, value in attributes.items() if "secret" in str(value)}
    assert shown == {"holdfast.input", "holdfast.arguments"}


@pytest.mark.requirement("HK-32")
def test_a_permitted_field_is_cut_and_follows_the_workspace() -> None:
    exporter = InMemorySpanExporter()
    tracer, ids, provider = open_tracer(exporter)
    permitted: list[str] = []
    spans = Spans(tracer, ids, lambda: permitted)
    permitted.append("input")  # a reload
    spans.committed(_story(b'{"agent":"helper","input":"%s"}' % (b"x" * 100_000)))
    provider.shutdown()
    (root,) = [span for span in exporter.get_finished_spans() if span.name == "invoke_agent helper"]
    assert dict(root.attributes or {})["holdfast.input"] == "x" * MAX_CONTENT


def test_every_event_of_a_span_may_be_permitted() -> None:
    folded = {*Spans(*open_tracer(InMemorySpanExporter())[:2])._folds, "runtime.request.queued"}
    assert folded == {payload.type for payload in TRACED}


def test_a_callers_trace_is_gone_on_with_and_its_decision_not_to_sample_is_kept() -> None:
    first = b'{"agent":"helper","traceContext":{"traceparent":"%s","tracestate":"a=b"}}' % PARENT.encode()
    root = _spans(*_story(first))["invoke_agent helper"]
    assert f"{root.context.trace_id:032x}" == PARENT.split("-")[1]
    assert (f"{root.parent.span_id:016x}", root.context.trace_state.to_header()) == (PARENT.split("-")[2], "a=b")
    assert _spans(*_story(first.replace(b"-01", b"-00"))) == {}


def test_a_subagents_run_hangs_below_the_call_that_asked_for_it() -> None:
    story = _story()
    child = [
        _event(20, "runtime.request.queued", b'{"agent":"sub","parentRunId":"run_1","callId":"c1"}', run="run_2"),
        _event(21, "runtime.request.completed", b'{"output":"x"}', run="run_2", at=5),
    ]
    spans = _spans(*story[:4], *child, *story[4:])
    assert spans["invoke_agent sub"].parent.span_id == spans["execute_tool add"].context.span_id
    assert spans["invoke_agent sub"].context.trace_id == spans["invoke_agent helper"].context.trace_id


def test_a_run_that_began_before_this_process_is_traced_from_its_first_event_seen() -> None:
    spans = _spans(*_story()[3:])
    assert set(spans) == {"invoke_agent run", "execute_tool add", "wait approval"}


def test_an_event_that_cannot_be_traced_does_not_reach_the_writer() -> None:
    tracer, ids, _ = open_tracer(InMemorySpanExporter())
    Spans(tracer, ids).committed([_event(1, "runtime.model.completed", b"{}")])


# -- what comes in and what goes on ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parent", "kept"),
    [
        (PARENT, PARENT),
        (PARENT.replace("00-", "01-", 1) + "-more", PARENT),
        (PARENT.upper(), None),
        ("ff" + PARENT[2:], None),
        (f"00-{'0' * 32}-00f067aa0ba902b7-01", None),
        (f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01", None),
        ("", None),
        ("x" * 10_000, None),
    ],
)
def test_only_a_well_formed_parent_is_taken(parent: str, kept: str | None) -> None:
    assert accepted({"traceparent": parent}) == (None if kept is None else {"traceparent": kept})


def test_a_state_that_is_no_header_is_left_out() -> None:
    assert accepted({"traceparent": PARENT, "tracestate": "a=b"}) == {"traceparent": PARENT, "tracestate": "a=b"}
    assert accepted({"traceparent": PARENT, "tracestate": "a=b\r\nx: y"}) == {"traceparent": PARENT}
    assert accepted({"traceparent": PARENT, "tracestate": "a" * 513}) == {"traceparent": PARENT}


def test_without_spans_of_our_own_a_callers_trace_goes_on_unchanged() -> None:
    trace = Trace.of_run("run_1", {"traceparent": PARENT}, exported=False)
    token = tracing.current.set(trace)
    try:
        with tracing.step("anything"):
            assert tracing.outgoing() == {"traceparent": PARENT}
    finally:
        tracing.current.reset(token)
    assert tracing.outgoing() == {}


def test_with_spans_of_our_own_a_step_passes_on_its_own() -> None:
    token = tracing.current.set(Trace.of_run("run_1", {"traceparent": PARENT}, exported=True))
    try:
        with tracing.step(call_key("run_1", "c1")):
            inside = tracing.outgoing()["traceparent"]
        outside = tracing.outgoing()["traceparent"]
    finally:
        tracing.current.reset(token)
    assert inside == f"00-{PARENT.split('-')[1]}-{span_id('run_1/c1')}-01"
    assert outside.split("-")[2] == span_id("run_1")


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


WORKSPACE = """
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: traced, description: One tool that calls out.}
spec:
  defaultAgent: caller
  outgoing: {private: ["127.0.0.1:%(port)s"]}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: script, description: Calls the tool and answers.}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true, tools: true}
  script:
    rules:
      - match: {afterTool: outside}
        reply: {text: done}
    default: {toolCalls: [{name: outside, args: {}}]}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: outside, description: Asks somebody else.}
spec:
  kind: http
  effect: readonly
  http: {method: POST, url: "http://127.0.0.1:%(port)s/tool", body: json}
  input: {type: object, properties: {}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: caller, description: Uses the tool.}
spec: {model: script, instructions: Use the tool., tools: [outside]}
"""


@pytest.mark.requirement("HK-12")
async def test_a_server_with_traces_on_sends_them_and_passes_the_trace_to_the_tool_s_server(
    collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = collector.server_address[1]
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    (tmp_path / "space").mkdir()
    (tmp_path / "space" / "runtime.yaml").write_text(WORKSPACE % {"port": port})
    settings = Settings(data_dir=tmp_path / "data", workspace=tmp_path / "space", traces="otlp")
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url) as client:
        run = (await client.post("/api/runs?wait=20", json={"agent": "caller", "input": "go"})).json()
        assert (run["status"], run["output"]) == ("completed", "done"), run
    spans = collector.spans()
    tool = next(span for span in spans if span.name == "execute_tool outside")
    assert {span.name for span in spans} >= {"invoke_agent caller", "chat script", "execute_tool outside"}
    heard = collector.parents[0]
    assert heard == f"00-{tool.trace_id.hex()}-{tool.span_id.hex()}-01"
