"""The JavaScript package in a page of another origin, in a real browser: what Node's test of it does, there."""

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from app.core import json
from tests.scenarios.test_javascript_client import PACKAGE, SEEN
from tests.server import ServerProcess

PATIENCE_MS = 60_000


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        return


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[str]:
    """Where the page and the package are served: files, and nothing else."""
    handler = functools.partial(_Quiet, directory=str(PACKAGE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as files:
        serving = threading.Thread(target=files.serve_forever, daemon=True)
        serving.start()
        yield f"http://127.0.0.1:{files.server_port}"
        files.shutdown()
        serving.join()


def test_the_package_works_in_a_page_of_another_origin(browser: Browser, origin: str, tmp_path: Path) -> None:
    server = ServerProcess.start(tmp_path / "data", variables={"HOLDFAST_CORS_ORIGINS": origin})
    try:
        page = browser.new_page()
        page.goto(f"{origin}/package.json")
        page.evaluate("url => { window.process = { env: { BASE_URL: url } } }", server.url)
        with page.expect_console_message(lambda said: said.text.startswith("{"), timeout=PATIENCE_MS) as said:
            page.evaluate("() => { import('/test/scenario.js').catch((error) => console.log('{' + error.stack)) }")
        assert json.loads(said.value.text.encode()) == SEEN
        page.close()
    finally:
        server.stop()
