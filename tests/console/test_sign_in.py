"""Signing in to a server with keys: the page never holds the key, a revoked one ends the session, and a key that may
manage all tenants looks at one after the other."""

from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from tests.console.pages import open_page
from tests.server import ServerProcess

SECRET = "hf_a_key_of_the_console_tests_0123456789"


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with keys, whose first one is `SECRET`."""
    folder = tmp_path_factory.mktemp("keyed")
    first = folder / "first-key"
    first.write_text(SECRET)
    variables = {"HOLDFAST_AUTH": "keys", "HOLDFAST_ADMIN_KEY_FILE": str(first)}
    server = ServerProcess.start(folder / "data", variables=variables)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def admin(keyed: ServerProcess) -> Iterator[httpx2.Client]:
    headers = {"authorization": f"Bearer {SECRET}"}
    with httpx2.Client(base_url=keyed.url, headers=headers, timeout=30) as client:
        yield client


@pytest.mark.requirement("PX-6", "S22")
def test_a_person_signs_in_with_a_key_works_and_is_out_when_it_is_revoked(
    browser: Browser, keyed: ServerProcess, admin: httpx2.Client
) -> None:
    with open_page(browser, keyed.url) as console:
        page = console.page
        page.goto(keyed.url)
        page.get_by_label("API key").fill("hf_wrong_wrong_wrong_wrong_wrong_wrong_wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_text("This key is not valid")).to_be_visible()
        made = admin.post("/api/keys", json={"name": "operator", "roles": ["operator"]}).json()
        page.get_by_label("API key").fill(made["key"])
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
        assert made["key"] not in kept and "holdfast_" not in kept
        page.reload()
        expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
        run = admin.post("/api/runs", json={"agent": "assistant", "input": "publish this"}).json()
        console.visit("inbox")
        expect(page.get_by_role("region", name="Details")).to_contain_text("publish this")
        page.keyboard.press("a")
        expect(page.get_by_text("Nothing waits for you")).to_be_visible()
        admin.get(f"/api/runs/{run['id']}/stream")
        console.visit("runs")
        expect(page.get_by_label("Status")).to_be_visible()
        expect(page.get_by_label("Tenant")).to_have_count(0)
        assert console.violations() == []
        admin.delete(f"/api/keys/{made['id']}")
        console.visit("workspace")
        expect(page.get_by_label("API key")).to_be_visible()


@pytest.mark.requirement("PX-6")
def test_who_may_manage_all_tenants_looks_at_one_after_the_other(
    browser: Browser, keyed: ServerProcess, admin: httpx2.Client
) -> None:
    made = admin.post("/api/keys", json={"name": "theirs", "roles": ["member"], "tenant": "acme"}).json()
    theirs = {"authorization": f"Bearer {made['key']}"}
    body = {"agent": "echo", "input": "only of acme"}
    run = httpx2.post(f"{keyed.url}/api/runs?wait=20", json=body, headers=theirs, timeout=30).json()
    with open_page(browser, keyed.url) as console:
        page = console.page
        console.visit("runs")
        page.get_by_label("API key").fill(SECRET)
        page.get_by_role("button", name="Sign in").click()
        tenant = page.get_by_label("Tenant")
        expect(tenant).to_have_value("default")
        row = page.locator(f'[data-run="{run["id"]}"]')
        expect(row).to_have_count(0)
        tenant.select_option("acme")
        expect(row).to_be_visible()
        expect(tenant).to_have_value("acme")
        assert "tenant=acme" in page.url
        row.click()
        expect(page.get_by_role("region", name="Conversation")).to_contain_text("only of acme")
        assert console.violations() == []
