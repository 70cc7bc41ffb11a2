"""Feedback, gates, datasets, samples and evaluations through a real server, on both databases."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.core import json
from app.core.settings import Settings
from app.evals.cases import Case
from app.evals.sampling import sample
from tests.clients import submit
from tests.evals.judged import agent, write
from tests.server import InProcessServer, in_process
from tests.store_equals_replay import assert_tables_equal_replay


@pytest.fixture
async def server(settings: Settings, tmp_path: Path) -> AsyncIterator[InProcessServer]:
    root = write(
        tmp_path,
        agent("clerk", "[{evaluator: polite}, {evaluator: friendly, minScore: 0.5, mode: blocking, sample: 0.000001}]"),
        agent("plain", "[]"),
    )
    async with in_process(settings.model_copy(update={"workspace": root})) as started:
        yield started
        await assert_tables_equal_replay(started.holdfast.store)


@pytest.fixture
async def client(server: InProcessServer) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.url, timeout=30) as made:
        yield made


async def done(client: httpx2.AsyncClient, evaluation_id: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while True:
            found: dict[str, Any] = (await client.get(f"/api/evals/{evaluation_id}")).json()
            if found["status"] != "running":
                return found
            await asyncio.sleep(0.02)  # over HTTP there is no event to await that would not be the thing tested


async def post(client: httpx2.AsyncClient, path: str, body: Any, status: int = 200, **more: Any) -> dict[str, Any]:
    answer = await client.post(path, json=body, **more)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.smoke
@pytest.mark.requirement("HK-20", "HK-21", "HK-22", "HK-33")
async def test_runs_become_a_dataset_that_an_agent_is_evaluated_on(client: httpx2.AsyncClient) -> None:
    runs = [await submit(client, "clerk", text, wait=25, labels={"team": team}) for text, team in (
        ("hello, my card is 4111 1111 1111 1111", "a"), ("be rude", "b"), ("look", "a"), ("good day", "b"),
    )]  # fmt: skip
    await submit(client, "plain", "not this one", wait=25)

    # Feedback: an event of the thread, once, and a filter.
    liked = runs[0]
    body = {"score": 1, "label": "helpful", "comment": "thanks"}
    for _ in range(2):
        given = await post(client, f"/api/runs/{liked['id']}/feedback", body, 201, headers={"Idempotency-Key": "k"})
    assert (given["score"], given["label"], given["by"]) == (1, "helpful", "user:local")
    events = (await client.get(f"/api/threads/{liked['threadId']}/events")).json()["items"]
    said = [event for event in events if event["type"] == "runtime.feedback.recorded"]
    assert [(event["runId"], event["payload"]["runId"]) for event in said] == [(None, liked["id"])]
    assert (await client.get(f"/api/runs/{liked['id']}")).json() == liked
    assert (await client.get(f"/api/runs/{liked['id']}/feedback")).json()["items"] == [given]

    # Gates on request: what is recorded is answered as it is.
    report = await post(client, f"/api/runs/{runs[1]['id']}/gates", {"mode": "shadow"})
    assert report["passRate"] == 0.0 and report["results"][0]["gate"] == "polite"
    assert await post(client, f"/api/runs/{runs[1]['id']}/gates", {"mode": "shadow"}) == report
    blocking = await post(client, f"/api/runs/{runs[0]['id']}/gates", {"mode": "blocking"})
    assert (blocking["passRate"], blocking["results"][0]["score"]) == (1.0, pytest.approx(0.9))
    for run in runs:
        await post(client, f"/api/runs/{run['id']}/gates", {"mode": "shadow"})
    rates = (await client.get("/api/gates", params={"agent": "clerk"})).json()["items"]
    assert {(rate["gate"], rate["mode"], rate["evaluated"], rate["passed"]) for rate in rates} == {
        ("friendly", "blocking", 1, 1), ("polite", "shadow", 4, 3),
    }  # fmt: skip

    shown = await client.get("/api/gates/report", params={"agent": "clerk"})
    assert shown.headers["content-type"] == "text/html; charset=utf-8" and "sandbox" in str(shown.headers)
    assert "<td>polite</td>" in shown.text and "75.0%" in shown.text and "<script" not in shown.text
    metrics = (await client.get("/metrics")).text
    assert 'holdfast_gate_verdicts_total{gate="polite",mode="shadow",outcome="passed"} 3' in metrics

    # Collecting: by agent, label, status, score and feedback; with redaction and provenance.
    made = await post(client, "/api/datasets", {"name": "talks", "collect": {"agent": "clerk"}}, 201)
    assert (made["version"], made["cases"], made["source"]) == (1, 4, "collected")
    cases = (await client.get("/api/datasets/talks/cases")).json()["items"]
    by_run = {case["source"]["runId"]: case for case in cases}
    assert set(by_run) == {run["id"] for run in runs}
    first = by_run[liked["id"]]
    assert "4111" not in json.dumps(first).decode() and "[REDACTED:card]" in first["input"]
    last = next(event for event in events if event["seq"] == first["source"]["seq"])
    assert (last["type"], last["hash"]) == ("runtime.request.completed", first["source"]["digest"])
    for asked, count in (
        ({"labels": {"team": "a"}}, 2),
        ({"agent": "clerk", "score": {"name": "polite", "atLeast": 1}}, 3),
        ({"agent": "clerk", "score": {"name": "polite", "atMost": 0}}, 1),
        ({"feedback": {"label": "x"}}, None),
        ({"feedback": {"name": "helpful", "atLeast": 0.5}}, 1),
    ):
        answer = await client.post("/api/datasets", json={"name": "part", "collect": asked})
        assert answer.status_code == (400 if count is None else 201), answer.text
        assert count is None or answer.json()["cases"] == count
    empty = await client.post("/api/datasets", json={"name": "part", "collect": {"status": "failed"}})
    assert empty.json()["error"]["code"] == "DATASET_INVALID"

    # Sampling: the same seed gives the same sample, in proportion.
    wanted = {"size": 2, "seed": 7, "by": "labels.team"}
    taken = await post(client, "/api/datasets/talks/sample", wanted)
    assert taken == await post(client, "/api/datasets/talks/sample", wanted)
    assert [(it["value"], it["of"], it["taken"]) for it in taken["strata"]] == [("a", 2, 1), ("b", 2, 1)]
    of_runs = await post(
        client, "/api/datasets/chosen/sample", {"runIds": [run["id"] for run in runs[:2]], "saveAs": "chosen"}
    )
    assert of_runs["size"] == 2 and of_runs["dataset"]["source"] == "sampled"

    # An evaluation, once more from what did not change, and against another model.
    started = await post(client, "/api/evals", {"dataset": "talks", "agent": "clerk", "gates": {"polite": 0.7}}, 202)
    ended = await done(client, started["id"])
    assert (ended["passed"], ended["scores"]["polite"]["mean"]) == (True, 0.75)
    again = await post(
        client, "/api/evals", {"dataset": "talks", "agent": "clerk", "gates": {"polite": 0.8, "own": 0.5}}, 202
    )
    repeated = await done(client, again["id"])
    assert repeated["progress"] == {"done": 4, "total": 4, "cached": 4} and not repeated["passed"]
    other = await post(
        client,
        "/api/evals",
        {"dataset": "talks", "agent": "clerk", "modelPlan": "spare", "gates": {"polite": 1}, "baseline": "latest"},
        202,
    )
    better = await done(client, other["id"])
    assert better["baseline"] == again["id"] and better["progress"]["cached"] == 0
    assert better["scores"]["polite"]["baseline"] == {
        "mean": 0.75, "difference": 0.25, "cases": 4, "better": 1, "worse": 0,
    }  # fmt: skip
    results = (await client.get(f"/api/evals/{other['id']}/results")).json()
    assert {case["output"] for case in results["cases"]} == {"The spare model says please."}
    page = (await client.get(f"/api/evals/{other['id']}/report")).text
    assert "<svg" in page and "passed" in page and "http://" not in page and "<script" not in page
    listed = (await client.get("/api/evals")).json()["items"]
    assert [one["id"] for one in listed] == [other["id"], again["id"], started["id"]]


@pytest.mark.requirement("HK-21")
async def test_a_sample_of_stored_cases_is_the_one_that_seed_and_ids_give(client: httpx2.AsyncClient) -> None:
    """What the two databases have in common is the expected sample, which is drawn without one."""
    made = [Case(f"c{number}", "x", metadata={"kind": "abc"[number % 7 % 3]}) for number in range(431)]
    cases = [{"id": case.id, "input": case.input, "metadata": dict(case.metadata)} for case in made]
    await post(client, "/api/datasets", {"name": "many", "cases": cases}, 201)
    for seed, by in ((0, None), (7, None), (7, "metadata.kind")):
        asked = {"seed": seed} | ({"by": by} if by else {})
        taken = await post(client, "/api/datasets/many/sample", asked)
        expected = sample(made, 200, seed, by)
        assert (taken["size"], taken["of"]) == (200, 431)
        assert [case["id"] for case in taken["cases"]] == [case.id for case in expected.cases]
        for stratum in taken["strata"]:
            assert abs(stratum["taken"] - stratum["of"] * 200 / 431) < 1


@pytest.mark.requirement("HK-20")
async def test_versions_are_numbered_and_never_change(client: httpx2.AsyncClient) -> None:
    cases = [{"id": f"c{number}", "input": "hello", "expected": "Yes, please: hello"} for number in range(3)]
    made = await asyncio.gather(
        *(post(client, "/api/datasets", {"name": "d", "cases": cases[: number + 1]}, 201) for number in range(3))
    )
    assert sorted(one["version"] for one in made) == [1, 2, 3]
    for one in made:
        shown = (await client.get("/api/datasets/d", params={"version": one["version"]})).json()
        assert shown == one
        lines = await client.get("/api/datasets/d/export", params={"version": one["version"]})
        assert len(lines.text.splitlines()) == one["cases"]
    missing = await client.get("/api/datasets/d", params={"version": 9})
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "DATASET_NOT_FOUND")


@pytest.mark.parametrize(
    ("path", "body", "code"),
    [
        ("/api/datasets", {"name": "d", "cases": []}, "DATASET_INVALID"),
        ("/api/datasets", {"name": "d", "cases": [{"id": "a"}]}, "DATASET_INVALID"),
        ("/api/datasets", {"name": "d", "cases": [{"input": "a", "other": 1}]}, "DATASET_INVALID"),
        ("/api/datasets", {"name": "d", "cases": [{"id": "a", "input": "x"}] * 2}, "DATASET_INVALID"),
        ("/api/datasets", {"name": "d"}, "INVALID_REQUEST"),
        ("/api/datasets", {"name": "d", "collect": {}, "redact": ["nose"]}, "DATASET_INVALID"),
        ("/api/datasets/none/sample", {}, "DATASET_NOT_FOUND"),
        ("/api/datasets/none/sample", {"runIds": ["run_x"]}, "RUN_NOT_FOUND"),
        ("/api/evals", {"dataset": "none", "agent": "clerk"}, "DATASET_NOT_FOUND"),
        ("/api/runs/run_x/feedback", {"score": 1}, "RUN_NOT_FOUND"),
        ("/api/runs/run_x/gates", {"mode": "shadow"}, "RUN_NOT_FOUND"),
    ],
)
async def test_what_cannot_be_done_is_refused(tmp_path: Path, path: str, body: dict[str, Any], code: str) -> None:
    root = write(tmp_path, agent("clerk", "[{evaluator: polite}]"))
    settings = Settings(data_dir=tmp_path / "data", workspace=root)
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url) as client:
        answer = await client.post(path, json=body)
    assert answer.status_code >= 400 and answer.json()["error"]["code"] == code, answer.text


async def test_refusals_of_an_evaluation_name_what_is_missing(client: httpx2.AsyncClient) -> None:
    await post(client, "/api/datasets", {"name": "d", "cases": [{"input": "hello"}]}, 201)
    for body, code in (
        ({"agent": "nobody"}, "AGENT_NOT_FOUND"),
        ({"agent": "plain"}, "EVALUATOR_NOT_FOUND"),
        ({"agent": "plain", "gates": {"nothing": 1}}, "EVALUATOR_NOT_FOUND"),
        ({"agent": "clerk", "modelPlan": "nothing"}, "MODEL_NOT_FOUND"),
        ({"agent": "clerk", "baseline": "eval_x"}, "EVALUATION_NOT_FOUND"),
    ):
        answer = await client.post("/api/evals", json={"dataset": "d", **body})
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, code), answer.text
    run = await submit(client, "clerk", "look", wait=0)
    early = await client.post(f"/api/runs/{run['id']}/feedback", json={"score": 2})
    assert early.status_code == 400
