"""Runs, one run and the inbox in a real browser, on a real server."""

from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import expect

from tests.console.pages import ConsolePage
from tests.console.workspace import HOSTILE


def submit(api: httpx2.Client, text: str, agent: str = "staged", wait: int | None = 20, **more: Any) -> dict[str, Any]:
    body = {"agent": agent, "input": text, **more}
    made: dict[str, Any] = api.post("/api/runs", params={"wait": wait} if wait else {}, json=body).json()
    return made


@pytest.mark.requirement("PX-6")
def test_a_new_run_appears_in_the_list_without_a_reload_and_filters_are_part_of_the_address(
    console: ConsolePage, api: httpx2.Client, axe: Path
) -> None:
    console.visit("runs")
    console.heading("Runs")
    page = console.page
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    run = submit(api, "a needle in the list", labels={"team": "blue"})
    row = page.locator(f'[data-run="{run["id"]}"]')
    expect(row).to_be_visible()
    expect(row).to_contain_text("completed")
    assert console.serious_issues(axe) == []
    other = page.locator(f'[data-run="{submit(api, "hay")["id"]}"]')
    expect(other).to_be_visible()
    page.get_by_label("Text of input").fill("NEEDLE")
    page.wait_for_url("**text=NEEDLE**")
    expect(other).to_have_count(0)
    expect(row).to_be_visible()
    page.get_by_label("Label").fill("team:blue")
    page.wait_for_url("**team%3Ablue**")
    page.reload()
    expect(row).to_be_visible()
    expect(page.get_by_label("Text of input")).to_have_value("NEEDLE")


@pytest.mark.requirement("PX-6", "SH-23")
def test_an_approval_is_decided_with_one_key_and_the_run_goes_on(
    console: ConsolePage, api: httpx2.Client, axe: Path
) -> None:
    first = submit(api, "publish the first text", "assistant")
    (asked,) = [one for one in api.get("/api/interrupts?status=open").json()["items"] if one["runId"] == first["id"]]
    api.post(f"/api/interrupts/{asked['id']}/answer", json={"decision": "deny"})
    console.visit("inbox")
    console.heading("Inbox")
    run = submit(api, "publish the second text", "assistant")
    page = console.page
    details = page.get_by_role("region", name="Details")
    expect(details.get_by_text("assistant publish the second text")).to_be_visible()
    expect(details.get_by_label("Arguments")).to_contain_text("publish the second text")
    expect(page.get_by_role("region", name="What changed")).to_contain_text('- "text": "publish the first text"')
    assert console.serious_issues(axe) == []
    page.keyboard.press("a")
    expect(page.get_by_text("Nothing waits for you")).to_be_visible()
    ended = api.get(f"/api/runs/{run['id']}/stream").text
    assert "runtime.request.completed" in ended and "It has been published." in ended


@pytest.mark.requirement("PX-6")
def test_a_run_is_shown_while_it_streams_and_as_it_stood_before(
    console: ConsolePage, api: httpx2.Client, axe: Path
) -> None:
    console.visit("runs")
    console.heading("Runs")  # the page is loaded before the run begins, which ends by itself
    run = submit(api, "answer slowly", wait=None)
    console.visit(f"runs/{run['id']}")
    page = console.page
    conversation = page.get_by_role("region", name="Conversation")
    expect(conversation).to_contain_text("piece 3")
    expect(page.get_by_role("status").filter(has_text="Live")).to_have_count(2)
    expect(page.get_by_role("main").get_by_text("completed", exact=True)).to_be_visible()
    expect(conversation).to_contain_text("piece 39")
    page.get_by_label("As of event").focus()
    events = api.get(f"/api/runs/{run['id']}/events", params={"limit": 1000}).json()["items"]
    deltas = [event for event in events if event["type"] == "runtime.adapter.event"]
    page.evaluate("seq => { location.hash += `?at=${seq}` }", deltas[5]["seq"])
    expect(conversation).to_contain_text(deltas[5]["payload"]["event"]["text"].strip())
    expect(conversation).not_to_contain_text("piece 39")
    page.get_by_role("button", name="Back to now").click()
    expect(conversation).to_contain_text("piece 39")
    page.get_by_role("link", name="Timeline").click()
    expect(page.get_by_role("list", name="Timeline")).to_contain_text("staged")
    assert console.serious_issues(axe) == []
    page.get_by_role("link", name="Events", exact=True).click()
    page.get_by_label("Search events").fill("request.completed")
    expect(page.get_by_text(f"1 of {len(events)} events")).to_be_visible()


@pytest.mark.requirement("S22")
def test_markup_in_what_models_tools_threads_and_files_say_stays_text(console: ConsolePage, api: httpx2.Client) -> None:
    thread = api.post("/api/threads", json={"title": HOSTILE}).json()
    run = submit(api, f"hostile {HOSTILE}", threadId=thread["id"])
    tool = submit(api, "hostile tool", threadId=thread["id"])
    api.post("/api/files", params={"name": HOSTILE}, content=b"x")
    page = console.page
    console.visit(f"runs/{run['id']}")
    conversation = page.get_by_role("region", name="Conversation")
    expect(conversation.locator(".bubble .text").last).to_have_text(HOSTILE)
    console.visit(f"runs/{tool['id']}")
    expect(conversation.locator(".bubble .text").last).to_contain_text(HOSTILE[:20])
    conversation.locator("summary").click()
    expect(page.get_by_role("region", name="Result of echo")).to_contain_text("<script>")
    for route in ("runs", f"runs/{tool['id']}/events", f"runs/{tool['id']}/timeline", "inbox"):
        console.visit(route)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert page.evaluate("window.hacked") is None
    assert page.locator("main b").count() == 0
