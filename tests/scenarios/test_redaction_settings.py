"""`redaction` of a workspace: personal data in prompts and traces, reasoning, and what traces and sinks may contain."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from app.core import json
from app.core.settings import Settings
from tests.collector import Collector, collecting
from tests.scenarios.guarded import document
from tests.server import in_process

MAIL: Final = "bob@example.com"
HIDDEN: Final = "[REDACTED:email]"
SEEN: Final = {"contains": MAIL}


def _model(name: str, *rules: dict[str, Any], **default: Any) -> str:
    script = {"rules": list(rules), "default": default}
    return document("Model", name, {"provider": "scripted", "model": name, "script": script})


def _workspace(folder: Path, redaction: dict[str, Any]) -> Path:
    """Every model of it says whether it was sent the address: the agent's, a rule's and an evaluator's."""
    spec = {
        "defaultAgent": "clerk",
        "redaction": {**redaction, "traceFields": ["input", "output"]},
        "telemetry": {"sinks": [{"kind": "stdout"}]},
    }
    gate = {"evaluator": "seen", "mode": "blocking", "minScore": 0.1}
    agent = {"model": "thinker", "guardrails": {"input": ["seen"]}, "gates": [gate]}
    documents = (
        document("Runtime", "runtime", spec),
        _model("thinker", text="{{ input }}", reasoning="because of {{ input }}", usage={"reasoningTokens": 7}),
        _model("rule", {"match": SEEN, "reply": {"text": '{"triggered": true}'}}, text='{"triggered": false}'),
        _model(
            "judge",
            {"match": SEEN, "reply": {"text": '{"score": 0.5, "reason": "seen"}'}},
            text='{"score": 1, "reason": "hidden"}',
        ),
        document("Guardrail", "seen", {"kind": "model", "model": "rule", "action": "flag", "config": {"rule": "x"}}),
        document("Evaluator", "seen", {"kind": "model_judge", "model": "judge", "config": {"rubric": "x"}}),
        document("Agent", "clerk", agent),
        document("Agent", "talker", {"model": "thinker"}),
    )
    folder.mkdir()
    (folder / "all.yaml").write_text("".join(documents))
    return folder


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector


def _traced(collector: Collector) -> dict[str, set[str]]:
    """The permitted fields of all spans, and every other text of them."""
    found: dict[str, set[str]] = {}
    for body in collector.bodies["/v1/traces"]:
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    for attribute in span.attributes:
                        found.setdefault(attribute.key, set()).add(attribute.value.string_value)
    return found


def _text(events: list[dict[str, Any]]) -> str:
    """All that was recorded of a run but its request."""
    return str([event["payload"] for event in events if event["type"] != "runtime.request.queued"])


@pytest.mark.requirement("HK-32")
@pytest.mark.parametrize(
    ("pii", "reasoning"), [("none", "none"), ("prompts", "metadata"), ("traces", "full"), ("both", "metadata")]
)
async def test_what_a_workspace_redacts_is_seen_by_nobody_it_is_kept_from(
    settings: Settings,
    tmp_path: Path,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    pii: str,
    reasoning: str,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_address[1]}")
    root = _workspace(tmp_path / "workspace", {"pii": pii, "reasoning": reasoning})
    chosen = settings.model_copy(update={"workspace": root, "traces": "otlp"})
    async with in_process(chosen) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:

        async def ran(agent: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
            run = (await client.post("/api/runs?wait=20", json={"agent": agent, "input": f"write to {MAIL}"})).json()
            assert run["status"] == "completed", run
            return run, (await client.get(f"/api/runs/{run['id']}/events?limit=500")).json()["items"]

        judged, events = await ran("clerk")
        talked, said = await ran("talker")
        stream = (await client.get(f"/api/runs/{talked['id']}/stream")).text
        metrics = (await client.get("/metrics")).text

    in_prompts, in_traces = pii in ("prompts", "both"), pii in ("traces", "both")
    # The model repeats what it was sent; the rule and the evaluator say whether they saw the address.
    assert judged["output"] == talked["output"] == f"write to {HIDDEN if in_prompts else MAIL}"
    assert bool([event for event in events if event["type"] == "runtime.guardrail.triggered"]) is not in_prompts
    (verdict,) = [event["payload"] for event in events if event["type"] == "runtime.gate.evaluated"]
    assert verdict["score"] == (1 if in_prompts else 0.5)
    assert (MAIL in _text(said)) is not in_prompts
    assert f"write to {MAIL}" in str(said[0]["payload"]), "the request itself is in the log as it was sent"

    # Reasoning: its words, and how many tokens it took.
    assert ("because of" in _text(said)) is ("because of" in stream) is (reasoning == "none")
    (completed,) = [event["payload"] for event in said if event["type"] == "runtime.model.completed"]
    assert completed["usage"].get("reasoningTokens") == (None if reasoning == "full" else 7)

    # Traces and sinks get the permitted fields and nothing else, metrics no content at all.
    fields = _traced(collector)
    assert fields["holdfast.input"] == {f"write to {HIDDEN if in_traces else MAIL}"}
    assert fields["holdfast.output"] == {f"write to {HIDDEN if in_prompts or in_traces else MAIL}"}
    assert {name for name in fields if name.startswith("holdfast.")} & {"holdfast.text", "holdfast.messages"} == set()
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines() if line.startswith('{"')]
    assert {name for line in lines for name in line.get("payload", ())} == {"input", "output"}
    assert (MAIL in str(lines)) is not in_traces
    assert MAIL not in metrics and "because of" not in metrics
    others = [
        text for name, texts in fields.items() if name not in ("holdfast.input", "holdfast.output") for text in texts
    ]
    assert MAIL not in str(others)


@pytest.mark.requirement("HK-32")
async def test_without_permitted_fields_neither_traces_nor_sinks_have_content(
    tmp_path: Path,
    migrated_file: Path,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_address[1]}")
    root = _workspace(tmp_path / "workspace", {})
    text = (root / "all.yaml").read_text().replace('"input",\n        "output"\n', "")
    (root / "all.yaml").write_text(text)
    assert '"traceFields": []' in text or '"traceFields": [\n' in text
    settings = Settings(data_dir=tmp_path / "data", workspace=root, traces="otlp")
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        answer = await client.post("/api/runs?wait=20", json={"agent": "talker", "input": f"write to {MAIL}"})
        assert answer.json()["output"] == f"write to {MAIL}"
    fields = _traced(collector)
    assert not {"holdfast.input", "holdfast.output"} & fields.keys() and MAIL not in str(fields)
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines() if line.startswith('{"')]
    assert lines and not [line for line in lines if "payload" in line]
