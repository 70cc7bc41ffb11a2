"""The other pages of the console: home, playground, workspace, evaluations, memory, operation."""

from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from tests.console.pages import ConsolePage, open_page
from tests.console.test_runs_and_inbox import submit
from tests.server import ServerProcess

PAGES = {
    "home": "Home",
    "runs": "Runs",
    "inbox": "Inbox",
    "playground": "Playground",
    "workspace": "Workspace",
    "evals": "Evals",
    "memory": "Memory",
    "operate": "Operate",
    "operate/schedules": "Operate",
    "operate/webhooks": "Operate",
    "operate/extensions": "Operate",
    "operate/keys": "Operate",
    "operate/ledger": "Operate",
    "operate/retention": "Operate",
    "operate/doctor": "Operate",
    "runs?by=thread": "Runs",
}


@pytest.mark.requirement("PX-6")
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_every_page_is_accessible_in_both_themes_and_on_a_small_screen(
    browser: Browser, console_server: ServerProcess, api: httpx2.Client, axe: Path, scheme: str, width: int
) -> None:
    submit(api, "something to look at")
    with open_page(browser, console_server.url, width=width) as console:
        console.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        for route, heading in PAGES.items():
            console.visit(route)
            console.heading(heading)
            expect(console.page.get_by_text("Loading…")).to_have_count(0)
            assert console.serious_issues(axe) == [], route
            overflow = console.page.evaluate("document.documentElement.scrollWidth - innerWidth")
            assert overflow <= 0, f"{route} is {overflow} px too wide"
        assert console.page.evaluate("document.documentElement.dataset.theme") == scheme
        console.assert_clean()


@pytest.mark.requirement("PX-6")
def test_home_shows_what_goes_on_and_workspace_who_uses_what(console: ConsolePage, api: httpx2.Client) -> None:
    submit(api, "count me")
    console.visit("home")
    page = console.page
    expect(page.get_by_role("img", name="Runs: completed")).to_be_visible()
    expect(page.locator(".tile").filter(has_text="Runs per minute")).to_be_visible()
    expect(page.get_by_role("region", name="Latest runs")).to_contain_text("count me")
    console.visit("workspace")
    expect(page.get_by_text("The files have no mistakes.")).to_be_visible()
    page.locator('[data-node="agent assistant"]').click()
    expect(page.get_by_role("region", name="Compiled document")).to_contain_text('"backend": "native"')
    expect(page.locator('[data-node="workflow ship"]')).to_be_visible()


@pytest.mark.requirement("PX-6")
def test_two_agents_answer_side_by_side_and_an_answer_is_kept_as_a_case(
    console: ConsolePage, api: httpx2.Client
) -> None:
    console.visit("playground?agent=staged")
    page = console.page
    console.button("Compare").click()
    page.locator("#agent2").select_option("echo")
    page.get_by_role("textbox", name="Message").fill("side by side")
    page.keyboard.press("Enter")
    lanes = page.get_by_role("region", name="Conversation")
    expect(lanes.filter(has_text="You said side by side").first).to_be_visible()
    expect(page.get_by_role("main").get_by_text("completed", exact=True)).to_have_count(2)
    console.button("Keep as eval case").first.click()
    expect(page.get_by_text("Kept as a case of the dataset playground.")).to_be_visible()
    (case,) = api.get("/api/datasets/playground/cases").json()["items"]
    assert case["input"] == "side by side"
    console.visit("evals")
    page.get_by_label("Agent").select_option("echo")
    page.get_by_label("Evaluators").fill("brief:1")
    console.button("Evaluate").click()
    table = page.get_by_role("region", name="Evaluations")
    expect(table.get_by_text("completed")).to_be_visible()
    page.get_by_label("against the latest").check()
    console.button("Evaluate").click()
    expect(table.get_by_text("0% against 100%")).to_be_visible()
    plot = page.get_by_role("img", name="Scores of evaluations")
    expect(plot).to_have_attribute(
        "aria-label", "Scores of evaluations: brief 100% at last, brief, baseline 100% at last"
    )


def test_keys_and_the_palette_lead_everywhere(console: ConsolePage) -> None:
    console.visit("home")
    console.heading("Home")
    page = console.page
    page.keyboard.press("g")
    page.keyboard.press("w")
    console.heading("Workspace")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Command").fill("failed")
    page.keyboard.press("Enter")
    console.heading("Runs")
    expect(page.get_by_label("Status")).to_have_value("failed")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()


def test_an_address_that_cannot_be_decoded_or_found_says_so(console: ConsolePage) -> None:
    console.visit("runs/%E0%A4%A")
    page = console.page
    expect(page.get_by_role("alert")).to_contain_text("There is no such run. Check the id. RUN_NOT_FOUND")
    page.keyboard.press("g")
    page.keyboard.press("w")
    console.heading("Workspace")
    console.errors.clear()  # the browser notes the 404
