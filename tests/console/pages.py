"""A browser on the console: real Chromium, and what it complains about.

Leaves to others: servers and workspaces (`tests.console.conftest`).
"""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Playwright, expect

ARGUMENTS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WAIT_MS: Final = 20_000
"""Two cores run everything at once; what is there sooner is not waited for."""
_WATCH: Final = """
window.violations = [];
addEventListener('securitypolicyviolation', (event) => {
  violations.push(event.violatedDirective + ' ' + event.blockedURI);
});
"""


def launch(playwright: Playwright) -> Browser:
    """Without a browser there is no test of the console: `make test` installs one."""
    program = shutil.which("chromium")
    assert program is not None, "chromium is not on the PATH; `make chromium` installs it"
    return playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS), headless=True)


@dataclass(slots=True)
class ConsolePage:
    """One tab. `errors` has what the page threw or logged as an error; it must stay empty."""

    page: Page
    url: str
    errors: list[str] = field(default_factory=list)

    def visit(self, route: str = "") -> None:
        address = f"{self.url}/console/#/{route}"
        if self.page.url.startswith(f"{self.url}/console/"):
            self.page.evaluate("address => { location.href = address }", address)
        else:
            self.page.goto(address)

    def heading(self, name: str) -> None:
        expect(self.page.get_by_role("heading", level=1, name=name)).to_be_visible()

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name)

    def violations(self) -> list[str]:
        found: list[str] = self.page.evaluate("window.violations")
        return found

    def serious_issues(self, axe: Path) -> list[str]:
        """What axe-core finds that would keep somebody out."""
        self.page.evaluate(axe.read_text(encoding="utf-8"))
        found: dict[str, Any] = self.page.evaluate("axe.run({resultTypes: ['violations']})")
        return [
            f"{one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes'][:3]]}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]

    def assert_clean(self) -> None:
        assert self.errors == []
        assert self.violations() == []


@contextlib.contextmanager
def open_page(browser: Browser, url: str, width: int = 1280, height: int = 860) -> Iterator[ConsolePage]:
    """A tab with nothing stored; a dialog or a download of somebody else's making would fail it."""
    context = browser.new_context(viewport={"width": width, "height": height}, locale="en-GB", timezone_id="UTC")
    context.set_default_timeout(WAIT_MS)
    context.add_init_script(_WATCH)
    opened = ConsolePage(context.new_page(), url)

    def logged(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            opened.errors.append(message.text)

    opened.page.on("console", logged)
    opened.page.on("pageerror", lambda error: opened.errors.append(str(error)))
    opened.page.on("dialog", lambda dialog: opened.errors.append(f"dialog: {dialog.message}"))
    try:
        yield opened
    finally:
        context.close()
