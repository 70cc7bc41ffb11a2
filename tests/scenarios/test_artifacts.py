"""Artifacts through the front door: made by a tool, listed in versions, fetched in parts, compared."""

from pathlib import Path

import httpx2
import pytest

from app.core.settings import Settings
from tests.server import in_process

WORKSPACE = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: reports}
spec: {defaultAgent: echo}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: echo}
spec: {backend: echo}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: report}
spec: {kind: python, entry: "reports:report", effect: keyed}
"""
REPORTS = '''
def report(text: str, ctx) -> int:
    """Stores a report."""
    data = bytes([0, 255]) if text == "binary" else text.encode()
    return ctx.save_artifact("report.md", "text/markdown", data).version
'''


@pytest.mark.requirement("HK-10", "SH-13", "SH-4")
async def test_a_tools_artifacts_are_versions_that_can_be_listed_fetched_and_compared(
    settings: Settings, tmp_path: Path
) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "workspace.yaml").write_text(WORKSPACE)
    (root / "reports.py").write_text(REPORTS)
    settings = settings.model_copy(update={"workspace": root, "retention_deleted_days": 0})
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url) as client:
        thread = (await client.post("/api/threads", json={})).json()["id"]
        for number, text in enumerate(("one\ntwo\nthree\n", "one\n2\nthree\n", "binary"), 1):
            body = {"tool": "report", "input": {"text": text}, "threadId": thread}
            run = (await client.post("/api/runs", params={"wait": 30}, json=body)).json()
            assert (run["status"], run["output"]) == ("completed", number), run
        listed = (await client.get(f"/api/threads/{thread}/artifacts", params={"name": "report.md"})).json()["items"]
        assert [it["version"] for it in listed] == [1, 2, 3]
        assert [it.get("previous") for it in listed] == [None, listed[0]["id"], listed[1]["id"]]
        assert (await client.get(f"/api/threads/{thread}/artifacts", params={"name": "x"})).json()["items"] == []
        first, second, third = (f"/api/artifacts/{it['id']}" for it in listed)
        content = await client.get(f"{second}/content", headers={"range": "bytes=4-4"})
        assert (content.status_code, content.content) == (206, b"2")
        tag = (await client.get(f"{second}/content")).headers["etag"]
        assert (await client.get(f"{second}/content", headers={"if-none-match": tag})).status_code == 304
        diff = await client.get(f"{second}/diff")
        assert diff.headers["content-type"].startswith("text/x-diff")
        assert diff.text == ("--- report.md (1)\n+++ report.md (2)\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n")
        same = await client.get(f"{first}/diff", params={"against": listed[0]["id"]})
        assert (same.status_code, same.text) == (200, "")
        for path in (f"{first}/diff", f"{third}/diff"):
            refused = await client.get(path)
            assert (refused.status_code, refused.json()["error"]["code"]) == (404, "ARTIFACT_HAS_NO_DIFF")
        # They live as long as their thread.
        stored = server.holdfast.store
        assert await stored.reader.blob("default", thread, listed[0]["sha256"]) is not None
        assert (await client.delete(f"/api/threads/{thread}")).status_code == 204
        for path in (first, f"{first}/content", f"{second}/diff", f"/api/threads/{thread}/artifacts"):
            assert (await client.get(path)).status_code in (404, 410), path
        await stored.retention.purge()
        assert await stored.reader.blob("default", thread, listed[0]["sha256"]) is None
