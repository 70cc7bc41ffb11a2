"""What a person gives in the browser: answers to questions, files, two workspaces to compare; and what foreign names
and desktop notifications look like."""

from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import expect

from tests.console.pages import ConsolePage
from tests.console.test_runs_and_inbox import submit
from tests.console.workspace import HOSTILE

_NOTICES = """
window.notices = [];
window.Notification = class {
  static permission = "granted";
  static requestPermission = async () => "granted";
  constructor(title, options) { this.title = title; window.notices.push([title, options.body]); }
};
Object.defineProperty(document, "hidden", {get: () => true});
"""
"""A headless browser has no desktop: it notes what would have appeared there, for a page that nobody looks at."""


@pytest.mark.requirement("PX-6", "HK-25")
def test_a_question_is_answered_in_the_inbox(console: ConsolePage, api: httpx2.Client) -> None:
    run = submit(api, "which size, please")
    console.visit(f"inbox/{run['waitingOn'][0]}")
    page = console.page
    page.get_by_label("Which size?").select_option("M")
    page.get_by_label("Why?").fill("it fits")
    console.button("Answer").click()
    expect(page.get_by_text("Answered.")).to_be_visible()
    ended = api.get(f"/api/runs/{run['id']}/stream").text
    assert "runtime.request.completed" in ended
    output = api.get(f"/api/runs/{run['id']}").json()["output"]
    assert '"size":"M"' in output.replace(" ", "") and "it fits" in output


@pytest.mark.requirement("PX-6", "S22")
def test_a_file_with_a_hostile_name_is_attached_and_named_as_text(
    console: ConsolePage, api: httpx2.Client, tmp_path: Path
) -> None:
    console.visit("playground?agent=staged")
    page = console.page
    name = "<img src=x onerror=window.hacked=1>.txt"
    given = tmp_path / name
    given.write_text("what is inside")
    page.get_by_label("Attach").set_input_files(given)
    expect(console.button(f"Remove {name}")).to_be_visible()
    page.get_by_role("textbox", name="Message").fill("read this")
    page.keyboard.press("Enter")
    conversation = page.get_by_role("region", name="Conversation").first
    expect(conversation.get_by_role("link", name=name)).to_be_visible()
    expect(page.get_by_role("main").get_by_text("completed", exact=True)).to_be_visible()
    (file,) = [one for one in api.get("/api/files").json()["items"] if one["name"] == name]
    assert api.get(f"/api/files/{file['id']}/content").text == "what is inside"
    page.get_by_role("link", name="open run").click()
    expect(conversation.get_by_role("link", name=name)).to_be_visible()
    assert page.evaluate("window.hacked") is None


@pytest.mark.requirement("S22")
def test_a_hostile_title_of_a_thread_is_text_in_lists_in_its_run_and_in_filters(
    console: ConsolePage, api: httpx2.Client
) -> None:
    thread = api.post("/api/threads", json={"title": HOSTILE}).json()
    run = submit(api, "in a thread with a title", threadId=thread["id"])
    page = console.page
    console.visit("runs?by=thread")
    title = page.get_by_role("row").filter(has_text=thread["id"]).get_by_role("link")
    expect(title).to_contain_text(HOSTILE)
    title.click()
    expect(page.locator(f'[data-run="{run["id"]}"]')).to_be_visible()
    expect(page.get_by_role("search")).to_contain_text(HOSTILE)
    console.visit(f"runs/{run['id']}")
    expect(page.get_by_role("region", name="Facts")).to_contain_text(HOSTILE)
    assert page.evaluate("window.hacked") is None
    assert page.locator("main b").count() == 0


@pytest.mark.requirement("PX-6")
def test_a_notification_names_what_waits_and_not_its_arguments(console: ConsolePage, api: httpx2.Client) -> None:
    page = console.page
    page.add_init_script(_NOTICES)
    console.visit("home")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    run = submit(api, "publish the secret of the harbour", "assistant")
    page.wait_for_function("() => window.notices.length > 0")
    assert page.evaluate("window.notices") == [["Holdfast needs a decision", "approval: publish"]]
    api.post(f"/api/runs/{run['id']}/cancel")


@pytest.mark.requirement("PX-6")
def test_two_workspaces_are_compared_document_by_document_and_line_by_line(
    console: ConsolePage, api: httpx2.Client, workspace: Path
) -> None:
    before = api.get("/api/workspace").json()["digest"]
    newcomer = "apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: newcomer}\nspec: {backend: echo}\n"
    (workspace / "newcomer.yaml").write_text(newcomer)
    reloaded = api.post("/api/workspace/reload")
    assert reloaded.status_code == 200, reloaded.text
    after = reloaded.json()["digest"]
    console.visit("workspace")
    comparison = console.page.get_by_role("region", name="Comparison")
    comparison.get_by_label("From").select_option(before)
    comparison.get_by_label("To").select_option(after)
    expect(comparison.get_by_role("list", name="Changed documents")).to_contain_text("newcomer")
    expect(comparison.get_by_role("region", name="Changes")).to_contain_text("+metadata: {name: newcomer}")
    comparison.get_by_label("From").select_option(after)
    expect(comparison.get_by_text("These two are the same.")).to_be_visible()
