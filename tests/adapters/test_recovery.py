"""A call that the server died in, settled by a client of LangGraph with the code that the page of its clients shows."""

import re
from pathlib import Path
from typing import Any, Final

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.errors import UnprocessableEntityError

from app.core.settings import Settings
from app.events.catalog.tool import ToolInvoked
from tests.adapters.space import RULES, effects, write
from tests.faults import doomed
from tests.faults.doomed import Point, server
from tests.faults.test_run_kills import end_leases
from tests.server import ROOT

pytestmark = pytest.mark.requirement("SH-22", "G5")

ANSWERS: Final = {"done": 0, "undone": 1}
"""How often the tool acts in the end: a run is told what the call did, or it calls again."""

doomed.preload("app.backends.kinds.langgraph.session", "app.protocols.langgraph.router")


def _settle() -> Any:
    """The function as the page has it."""
    page = (ROOT / "docs" / "langgraph.md").read_text()
    (code,) = re.findall(r"^```python[^\n]*\n(async def settle.*?)^```$", page, re.MULTILINE | re.DOTALL)
    made: dict[str, Any] = {}
    exec(code, made)
    return made["settle"]


@pytest.mark.timeout(180)
async def test_a_client_settles_calls_that_were_cut_off_as_its_page_shows(settings: Settings, tmp_path: Path) -> None:
    root = write(tmp_path, {"clerk": ("native", "")}, RULES)
    for thread in ANSWERS:
        async with server(settings, root, Point("after", ToolInvoked.type, thread, 1)) as victim:
            async with get_client(url=f"{victim.url}/langgraph", api_key="any") as client:
                await client.threads.create(thread_id=thread)
                given: Any = {"messages": [{"role": "user", "content": f"note {thread}"}]}
                await client.runs.create(thread, "clerk", input=given)
            await victim.died(60)
        await end_leases(settings)
    assert effects(tmp_path) == []
    async with server(settings, root) as last, get_client(url=f"{last.url}/langgraph", api_key="any") as client:
        for thread, times in ANSWERS.items():
            before = len(effects(tmp_path))
            runs = await client.runs.list(thread)
            await client.runs.join(thread, runs[0]["run_id"])
            for wrong in (True, "retry", {"decision": "approve"}, {"decision": "retry", "more": 1}, {}):
                with pytest.raises(UnprocessableEntityError):
                    await client.runs.create(thread, "clerk", command={"resume": wrong})
            seen: list[Any] = []

            def look_up(call: Any, thread: str = thread, seen: list[Any] = seen) -> Any:
                seen.append(call)
                return {"kept": thread} if thread == "done" else None

            values = await _settle()(client, thread, "clerk", look_up)
            assert values["messages"][-1]["content"] == "noted", values
            assert [(call["name"], bool(call["id"]), "what" in call["args"]) for call in seen] == [("note", True, True)]
            assert len(effects(tmp_path)) - before == times, thread
            assert (await client.threads.get(thread))["status"] == "idle"
