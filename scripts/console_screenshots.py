"""Pictures of the console from the real program: `python -m scripts.console_screenshots` writes them to docs/pictures.

A server with the workspace of the console's tests does real runs; each page is taken light and dark.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
from playwright.sync_api import sync_playwright

from tests.console.pages import launch, open_page
from tests.console.workspace import make_workspace
from tests.server import ROOT, ServerProcess

PICTURES: Final = ROOT / "docs/pictures"
ASKED: Final = (
    ("assistant", "calculate six times seven"),
    ("assistant", "what time is it"),
    ("echo", "hello"),
    ("assistant", "research the harbour"),
    ("team", "say hello to the world"),
    ("assistant", "fail please"),
    ("staged", "summarise the report of this week"),
    ("assistant", "remember that the tide turns at noon"),
)
SETTLE_MS: Final = 1500


def take() -> None:
    with tempfile.TemporaryDirectory() as folder, _serving(Path(folder)) as server, sync_playwright() as playwright:
        browser = launch(playwright)
        pages = _fill(server.url)
        for scheme in ("light", "dark"):
            with open_page(browser, server.url, width=1360, height=850) as console:
                console.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
                for name, route in pages.items():
                    console.visit(route)
                    console.page.wait_for_timeout(SETTLE_MS)
                    console.page.screenshot(path=PICTURES / f"console-{name}-{scheme}.png")
        browser.close()


@contextmanager
def _serving(folder: Path) -> Iterator[ServerProcess]:
    server = ServerProcess.start(folder / "data", workspace=make_workspace(folder / "workspace"))
    try:
        yield server
    finally:
        server.stop()


def _fill(url: str) -> dict[str, str]:
    """Runs to look at; the route of each picture."""
    with httpx2.Client(base_url=url, timeout=30) as api:

        def run(**body: Any) -> dict[str, Any]:
            made: dict[str, Any] = api.post("/api/runs", params={"wait": 20}, json=body).json()
            return made

        for agent, text in ASKED:
            run(agent=agent, input=text)
        first = run(agent="assistant", input="publish that the harbour is open")
        api.post(f"/api/interrupts/{first['waitingOn'][0]}/answer", json={"decision": "approve"})
        shown = run(agent="assistant", input="ask the researcher about the harbour")
        ship = run(workflow="ship", input={"goal": "the winter timetable"})
        waiting = run(agent="assistant", input="publish that the harbour is closed")
    return {
        "home": "home?range=15m",
        "runs": "runs",
        "run": f"runs/{shown['id']}",
        "graph": f"runs/{ship['id']}/graph",
        "inbox": f"inbox/{waiting['waitingOn'][0]}",
        "workspace": "workspace",
    }


if __name__ == "__main__":
    take()
