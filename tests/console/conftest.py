"""One browser and one server for all tests of the console."""

from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.console.pages import WAIT_MS, ConsolePage, launch, open_page
from tests.console.workspace import make_workspace
from tests.npm_packages import installed
from tests.server import ServerProcess


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Not for longer than this package: while it is open, its driver's loop is the one that runs in this thread, and no
    test of asyncio could run."""
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        started = launch(playwright)
        yield started
        started.close()


@pytest.fixture(scope="package")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the shared server: a test may add files, and leaves the ones that others use."""
    return make_workspace(tmp_path_factory.mktemp("console") / "workspace")


@pytest.fixture(scope="package")
def console_server(tmp_path_factory: pytest.TempPathFactory, workspace: Path) -> Iterator[ServerProcess]:
    server = ServerProcess.start(tmp_path_factory.mktemp("console-data"), workspace=workspace)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def api(console_server: ServerProcess) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=console_server.url, timeout=20) as client:
        yield client


@pytest.fixture
def console(browser: Browser, console_server: ServerProcess) -> Iterator[ConsolePage]:
    """A tab of its own; at the end it must not have complained about anything."""
    with open_page(browser, console_server.url) as opened:
        yield opened
        opened.assert_clean()


@pytest.fixture(scope="session")
def axe() -> Path:
    return installed() / "node_modules/axe-core/axe.min.js"
