"""The console in a real browser: `python -m bench.console [--quick]` prints JSON.

A run of 10,000 events and a list of 100,000 runs: first paint, frames per second while scrolling, memory of the page.
The runs of the list are copies of one real run in the database, because only reading them is measured.
"""

import argparse
import contextlib
import json
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import httpx2
from playwright.sync_api import CDPSession, Page, sync_playwright

from tests.console.pages import launch, open_page
from tests.server import ServerProcess

GOALS = {
    "runs.first_row_s": 1.0,
    "run.first_row_s": 1.0,
    "runs.frames_per_s": 50,
    "run.frames_per_s": 50,
    "runs.possible_frames_per_s": 50,
    "run.possible_frames_per_s": 50,
}
_WORKSPACE = """
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: runtime}
spec: {defaultAgent: talker}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: talker}
spec:
  provider: scripted
  model: talker
  script:
    rules: [{match: {contains: at length}, reply: {text: "%s", chunkSize: 4, chunkDelaySeconds: 0.0005}}]
    default: {text: "A short answer to {{ input }}"}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: talker}
spec: {model: talker, instructions: Talk.}
"""
_WATCH = """
new MutationObserver((_, observer) => {
  if (!document.querySelector(".run-row, .event-row")) return;
  observer.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.firstRowMs = performance.now(); }));
}).observe(document, {childList: true, subtree: true});
"""
"""Notes when the frame with the first row has been painted, in the time of the page: from the navigation on."""
_SCROLL = """async () => {
  const box = document.querySelector(".virtual");
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  box.scrollTop = 0;
  await frame();
  const begun = performance.now();
  let frames = 0;
  while (performance.now() - begun < 3000) { box.scrollTop += 400; await frame(); frames += 1; }
  return {frames, pixels_passed: box.scrollTop};
}"""
SETTLE_MS = 4000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    events, runs = (1000, 10_000) if quick else (10_000, 100_000)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps({"bench": "console", "goals": GOALS, **measure(Path(folder), events, runs)}))


def measure(folder: Path, events: int, runs: int) -> dict[str, Any]:
    workspace = folder / "workspace"
    workspace.mkdir()
    (workspace / "all.yaml").write_text(_WORKSPACE % ("word" * events))
    server = ServerProcess.start(folder / "data", workspace=workspace)
    copied = httpx2.post(f"{server.url}/api/runs?wait=20", json={"input": "What is new today?"}, timeout=60).json()
    made = httpx2.post(f"{server.url}/api/runs?wait=110", json={"input": "talk at length"}, timeout=120).json()
    recorded = made["lastSeq"]
    server.stop()
    copy_runs(folder / "data/holdfast.db", copied["id"], runs)
    server = ServerProcess.start(folder / "data", workspace=workspace)
    try:
        with sync_playwright() as playwright:
            browser = launch(playwright)
            found = {"events": recorded, "listed_runs": runs}
            for name, route, row in (("runs", "runs", ".run-row"), ("run", f"runs/{made['id']}/events", ".event-row")):
                with open_page(browser, server.url) as console:
                    found[name] = look(console.page, f"{server.url}/console/#/{route}", row)
            browser.close()
        return found
    finally:
        server.stop()


def look(page: Page, address: str, row: str) -> dict[str, Any]:
    """Wall time says what somebody sees on this machine now; CPU time of the page's thread what the page needs, however
    busy the machine is."""
    page.context.add_init_script(_WATCH)
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(address)
    page.wait_for_selector(row)
    page.wait_for_function("() => window.firstRowMs !== undefined")
    first, loading = page.evaluate("window.firstRowMs"), measured(session)
    page.wait_for_timeout(SETTLE_MS)
    before = measured(session)
    scrolled = page.evaluate(_SCROLL)
    after = measured(session)
    session.send("HeapProfiler.collectGarbage")
    settled = measured(session)
    frame_ms = (after["TaskDuration"] - before["TaskDuration"]) * 1000 / scrolled["frames"]
    return {
        "first_row_s": round(first / 1000, 2),
        "first_row_cpu_s": round(loading["TaskDuration"], 2),
        "frames_per_s": round(scrolled["frames"] / 3),
        "frame_cpu_ms": round(frame_ms, 1),
        "possible_frames_per_s": round(1000 / frame_ms),
        "pixels_passed": round(scrolled["pixels_passed"]),
        "heap_mb": round(settled["JSHeapUsedSize"] / 1e6, 1),
        "dom_nodes": int(settled["Nodes"]),
    }


def measured(session: CDPSession) -> dict[str, float]:
    return {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}


def copy_runs(database: Path, run_id: str, count: int) -> None:
    with contextlib.closing(sqlite3.connect(database)) as connection, connection:
        cursor = connection.execute("SELECT * FROM runs WHERE id = ?", (run_id,))
        names = [column[0] for column in cursor.description]
        first = dict(zip(names, cursor.fetchone(), strict=True))
        marks = ", ".join("?" for _ in names)
        rows = (
            tuple((first | {"id": f"{first['id']}_{number}", "created_at": first["created_at"] - number * 10}).values())
            for number in range(1, count)
        )
        connection.executemany(f"INSERT INTO runs ({', '.join(names)}) VALUES ({marks})", rows)


if __name__ == "__main__":
    main()
