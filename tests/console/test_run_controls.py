"""What can be done with a run in the browser: steer, fork, rerun, follow a workflow, verify; and a server that dies."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from tests.console.pages import ConsolePage, open_page
from tests.console.test_runs_and_inbox import submit
from tests.console.workspace import SLOW_PIECES, make_workspace
from tests.server import ServerProcess


@pytest.mark.requirement("PX-6", "SH-23")
def test_a_run_is_steered_forked_and_run_again(console: ConsolePage, api: httpx2.Client) -> None:
    run = submit(api, "answer without end", wait=None)
    console.visit(f"runs/{run['id']}")
    page = console.page
    console.button("Steer").click()
    page.get_by_label("Message").fill("and be brief")
    console.button("Send").click()
    conversation = page.get_by_role("region", name="Conversation")
    expect(conversation).to_contain_text("command steer: and be brief")
    console.button("Cancel").click()
    expect(page.get_by_role("main").get_by_text("cancelled", exact=True)).to_be_visible()
    console.button("Rerun").click()
    page.wait_for_url(lambda address: run["id"] not in address)
    expect(page.get_by_text("Rerun of")).to_be_visible()
    console.button("Cancel").click()
    expect(page.get_by_role("main").get_by_text("cancelled", exact=True)).to_be_visible()
    ended = submit(api, "fork me")
    console.visit(f"runs/{ended['id']}")
    console.button("Undo plan").click()
    expect(page.get_by_text("nothing that can be undone")).to_be_visible()
    console.button("Close").click()
    console.button("Fork").click()
    console.heading("Playground")
    page.get_by_role("textbox", name="Message").fill("after the fork")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Conversation").first).to_contain_text("You said after the fork")


@pytest.mark.requirement("PX-6")
def test_the_graph_of_a_workflow_shows_its_nodes_as_they_stand_and_as_they_stood(
    console: ConsolePage, api: httpx2.Client
) -> None:
    made = api.post("/api/runs", json={"workflow": "ship", "input": {"goal": "it"}}, params={"wait": 20}).json()
    console.visit(f"runs/{made['id']}/graph")
    page = console.page
    expect(page.locator('[data-node="write"][data-state="completed"]')).to_be_visible()
    expect(page.locator('[data-node="tell"][data-state="pending"]')).to_be_visible()
    (asked,) = [one for one in api.get("/api/interrupts?status=open").json()["items"] if one["runId"] == made["id"]]
    api.post(f"/api/interrupts/{asked['id']}/answer", json={"decision": "approve"})
    expect(page.locator('[data-node="tell"][data-state="completed"]')).to_be_visible()
    first = api.get(f"/api/runs/{made['id']}/events", params={"limit": 1}).json()["items"][0]["seq"]
    page.evaluate("seq => { location.hash += `?at=${seq}` }", first)
    expect(page.locator('[data-node="write"][data-state="pending"]')).to_be_visible()


@pytest.mark.requirement("PX-1", "PX-6")
def test_a_page_survives_the_death_of_the_server_and_what_was_cut_off_is_decided(
    browser: Browser, tmp_path: Path
) -> None:
    """One server and one death for all of it: starting servers is what takes long."""
    workspace = make_workspace(tmp_path / "workspace")
    server = ServerProcess.start(tmp_path / "data", workspace=workspace)
    port = int(server.url.rpartition(":")[2])
    try:
        with open_page(browser, server.url) as console:
            page = console.page
            cut = httpx2.post(f"{server.url}/api/runs", json={"agent": "staged", "input": "transfer it"}).json()
            console.visit(f"runs/{cut['id']}")
            expect(page.locator("summary").filter(has_text="transfer")).to_contain_text("running")
            run = httpx2.post(f"{server.url}/api/runs", json={"agent": "staged", "input": "answer slowly"}).json()
            console.visit(f"runs/{run['id']}")
            conversation = page.get_by_role("region", name="Conversation")
            expect(conversation).to_contain_text("piece 1")
            server.kill()
            expect(page.get_by_text("Reconnecting…").first).to_be_visible()
            server = ServerProcess.start(tmp_path / "data", workspace=workspace, port=port)
            expect(page.get_by_role("main").get_by_text("completed", exact=True)).to_be_visible(timeout=60_000)
            _assert_shows_the_log(console, server.url, run)
            broken = _tamper(tmp_path / "data/holdfast.db", run["id"])
            console.button("Verify the log").click()
            expect(page.get_by_text(f"Chain broken at event {broken}")).to_be_visible()
            console.visit("inbox")
            page.get_by_label("It did happen; its output was").fill("sent, says the bank")
            console.button("Use this output").click()
            expect(page.get_by_text("Nothing waits for you")).to_be_visible()
            httpx2.get(f"{server.url}/api/runs/{cut['id']}/stream", timeout=60)
            ended = httpx2.get(f"{server.url}/api/runs/{cut['id']}").json()
            assert (ended["status"], ended["output"]) == ("completed", "The transfer: sent, says the bank")
            assert console.violations() == []
    finally:
        if server.is_running:
            server.stop()


def _assert_shows_the_log(console: ConsolePage, url: str, run: dict[str, Any]) -> None:
    """Exactly what is stored: the whole answer, every event once, the head of the chain."""
    page = console.page
    events = httpx2.get(f"{url}/api/runs/{run['id']}/events", params={"limit": 1000}).json()["items"]
    answers = [event for event in events if event["type"] == "runtime.model.completed"]
    text = answers[-1]["payload"]["text"]
    expect(page.get_by_role("region", name="Conversation").locator(".bubble:not(.user) .text").last).to_have_text(text)
    assert text.count("piece") == SLOW_PIECES
    expect(page.get_by_text(f"{len(events)} events")).to_be_visible()
    page.get_by_role("link", name="Events", exact=True).click()
    expect(page.locator(".event-row").first).to_be_visible()
    shown = page.evaluate("[...document.querySelectorAll('.event-row')].map((row) => Number(row.dataset.seq))")
    assert shown == sorted(set(shown)), "an event is shown twice"
    console.button("Verify the log").click()
    expect(page.get_by_text("Chain intact")).to_be_visible()
    verified = page.get_by_title("Head hash").inner_text()
    thread = httpx2.get(f"{url}/api/threads/{run['threadId']}/events", params={"limit": 1000}).json()["items"]
    assert verified in [f"{event['seq']}:{event['hash']}" for event in thread if event["seq"] >= events[-1]["seq"]]


def _tamper(database: Path, run_id: str) -> int:
    """Changes one letter of what was asked, in the file. Returns the event's `seq`."""
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        found = connection.execute(
            "SELECT thread_key, seq, payload FROM events WHERE run_id = ? ORDER BY seq", (run_id,)
        )
        thread, seq, payload = next(row for row in found if b"answer slowly" in bytes(row[2]))
        changed = bytes(payload).replace(b"answer slowly", b"answer slowlY")
        connection.execute("UPDATE events SET payload = ? WHERE thread_key = ? AND seq = ?", (changed, thread, seq))
    return int(seq)
