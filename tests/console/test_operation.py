"""Operating in the browser, with real data: jobs, schedules, webhooks, extensions, memory, retention, the doctor."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import pytest
from playwright.sync_api import expect

from tests.console.pages import ConsolePage
from tests.console.test_runs_and_inbox import submit

_DELIVERED = """async (webhook) => {
  const listed = await (await fetch(`/api/webhooks/${webhook}/deliveries`)).json();
  return listed.items.some((one) => one.status === "delivered");
}"""
"""The page lists what was sent when it is asked, and a webhook is sent to after its run has ended."""


@contextmanager
def receiver() -> Iterator[tuple[str, list[bytes], threading.Semaphore]]:
    """Takes deliveries of webhooks: its address, what it got, and a semaphore that each of them releases."""
    got: list[bytes] = []
    arrived = threading.Semaphore(0)

    class Taker(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["content-length"])))
            arrived.release()
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/hook", got, arrived
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.requirement("PX-6")
def test_a_webhook_is_made_its_deliveries_are_shown_and_one_is_repeated(
    console: ConsolePage, api: httpx2.Client
) -> None:
    page = console.page
    with receiver() as (url, got, arrived):
        console.visit("operate/webhooks")
        page.get_by_label("Address").fill("https://elsewhere.example.net/hook")
        page.get_by_label("Events").fill("runtime.request.complete")
        console.button("Create a webhook").click()
        expect(page.get_by_text("/events/0 webhooks are not sent events of this type")).to_be_visible()
        assert "`issues`" not in page.inner_text("body")
        console.errors.clear()  # the browser notes each refusal
        page.get_by_label("Address").fill(url)
        page.get_by_label("Events").fill("runtime.request.completed")
        console.button("Create a webhook").click()
        expect(page.get_by_text("shown only now")).to_be_visible()
        console.button("I have kept it").click()
        submit(api, "deliver this")
        assert arrived.acquire(timeout=30)
        made = next(one["id"] for one in api.get("/api/webhooks").json()["items"] if one["url"] == url)
        page.wait_for_function(_DELIVERED, arg=made)  # an empty list does not look again by itself
        console.button("Deliveries").click()
        deliveries = page.get_by_role("region", name="Deliveries")
        expect(deliveries).to_contain_text("runtime.request.completed")
        expect(deliveries.get_by_text("delivered", exact=True)).to_have_count(1)
        deliveries.get_by_role("button", name="Deliver again").click()
        expect(page.get_by_text("Sent again.")).to_be_visible()
        expect(deliveries.get_by_text("delivered", exact=True)).to_have_count(1)
        assert arrived.acquire(timeout=30) and got[0] == got[1]
        console.button("Switch off").click()
        expect(page.get_by_text("off", exact=True)).to_be_visible()
        console.button("Delete").click()
        expect(page.get_by_text("No webhooks yet")).to_be_visible()


@pytest.mark.requirement("PX-6")
def test_a_schedule_shows_its_next_firings_runs_now_and_pauses(console: ConsolePage, api: httpx2.Client) -> None:
    far = {"name": "far", "spec": {"at": "2091-06-01T12:00:00Z", "run": {"agent": "echo"}}}
    assert api.post("/api/schedules", json=far).status_code == 201
    console.visit("operate/schedules")
    page = console.page
    expect(page.get_by_role("row").filter(has_text="far").locator("td").nth(2)).to_contain_text("2091")
    assert api.delete("/api/schedules/far").status_code == 204
    row = page.get_by_role("row").filter(has_text="nightly")
    expect(row).to_contain_text("30 3 * * *")
    expect(row.locator("td").first).to_contain_text("echo the nightly report")
    expect(row.locator("td").nth(2).locator("time").first).to_contain_text("in ")
    row.get_by_role("button", name="Pause").click()
    expect(row).to_contain_text("paused")
    row.get_by_role("button", name="Resume").click()
    expect(row).to_contain_text("active")
    row.get_by_role("button", name="Run now").click()
    expect(page.get_by_text("Submitted.")).to_be_visible()
    console.visit("runs?text=the+nightly+report")
    expect(page.locator(".run-row").first).to_contain_text("the nightly report")


@pytest.mark.requirement("PX-6")
def test_jobs_extensions_and_the_ledger_show_what_there_is(console: ConsolePage, api: httpx2.Client) -> None:
    job = {"agent": "echo", "input": "a job to look at", "priority": "background", "attempts": 3}
    api.post("/api/runs", params={"wait": 20}, json=job)
    console.visit("operate/jobs")
    page = console.page
    row = page.get_by_role("row").filter(has_text="a job to look at")
    expect(row).to_contain_text("1 of 3")
    expect(row).to_contain_text("background")
    console.visit("operate/extensions")
    expect(page.get_by_role("row").filter(has_text="Watcher of the harbour")).to_contain_text("1.0.0")
    console.visit("operate/ledger")
    page.get_by_role("row").filter(has_text="workspace.loaded").first.get_by_role("button").click()
    expect(page.get_by_role("region", name="Entry", exact=True).first).to_contain_text('"digest"')


@pytest.mark.requirement("PX-6")
def test_the_doctor_and_the_rules_of_retention_are_shown(console: ConsolePage) -> None:
    console.visit("operate/doctor")
    page = console.page
    for about in ("settings", "database", "migrations", "workspace", "disk", "sandbox"):
        expect(page.get_by_role("region", name="Doctor").get_by_role("cell", name=about, exact=True)).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="migrations")).to_contain_text("up to date")
    console.visit("operate/retention")
    expect(page.locator('[data-kept="threads"]')).to_have_text("400 days")
    expect(page.locator('[data-kept="deltas"]')).to_have_text("30 days")


@pytest.mark.requirement("PX-6")
def test_memory_is_searched_its_origin_shown_and_forgotten(console: ConsolePage, api: httpx2.Client) -> None:
    for text in ("The harbour opens at nine.", "The tide turns at noon."):
        made = api.post("/api/memory/records", json={"memory": "facts", "agent": "staged", "text": text})
        assert made.status_code == 201, made.text
    console.visit("memory")
    page = console.page
    records = page.get_by_role("region", name="Records")
    expect(records).to_contain_text("The tide turns at noon.")
    page.get_by_role("searchbox", name="Search").fill("when does the harbour open")
    console.button("Search").last.click()
    expect(records.locator("tbody tr").first).to_contain_text("The harbour opens at nine.")
    records.get_by_role("button", name="The harbour opens at nine.").click()
    origin = page.get_by_role("region", name="Provenance")
    expect(origin).to_contain_text("facts")
    expect(origin).to_contain_text("user:local")
    records.locator("tbody tr").first.get_by_role("button", name="Forget").click()
    expect(records.get_by_role("cell", name="forgotten", exact=True)).to_be_visible()
    kept = api.get("/api/memory/records").json()["items"]
    assert "The harbour opens at nine." not in [one["text"] for one in kept]
