"""A run that is entered again sends its model what it sent the first time, word for word."""

import shutil
from pathlib import Path
from typing import Final

import pytest

from app.core.principal import LOCAL
from app.core.resources import shipped
from app.core.settings import Settings
from app.runtime.intake.submission import Submission
from app.views.interrupt import Interrupt
from app.views.run import Run
from app.wiring.runtime import open_holdfast
from tests.faults.listening import PAUSES, Listener

SECRET: Final = "sk-" + "a1B2" * 8
TOOLS: Final = '''
def look(what: str) -> dict:
    """Gives its fields in no order, and once a thing that must not be stored."""
    if what == "broken":
        raise ValueError("no")
    return {{"z": 1, "a": {{"y": 2.0, "b": "{secret}" if what == "secret" else "plain"}}, "m": [3, None]}}
'''
DOCUMENTS: Final = """
apiVersion: holdfast/v1
kind: Tool
metadata: {name: look}
spec: {kind: python, entry: "looking:look", effect: readonly}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true, tools: true}
  script:
    rules:
      - {match: {afterTool: publish}, reply: {text: "published"}}
      - {match: {afterTool: look}, reply: {toolCalls: [{name: publish, args: {title: t, text: "x"}}]}}
    default: {toolCalls: [{name: look, args: {what: "{{ input }}"}}]}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: looker}
spec: {model: script, tools: [look, publish]}
"""


@pytest.mark.requirement("G4", "G5", "G21")
@pytest.mark.parametrize("what", ["plain", "secret", "broken"])
async def test_a_resumed_run_sees_of_a_tool_s_result_what_the_first_one_saw(
    settings: Settings, tmp_path: Path, what: str
) -> None:
    root = tmp_path / "workspace"
    shutil.copytree(shipped("workspaces") / "demo", root)
    (root / "looking.py").write_text(TOOLS.format(secret=SECRET))
    (root / "agents" / "looker.yaml").write_text(DOCUMENTS)
    async with open_holdfast(settings.model_copy(update={"workspace": root})) as holdfast:
        listener = Listener(holdfast.store.hub)
        run = await holdfast.service.submit(LOCAL, Submission("looker", what))
        assert isinstance(run, Run)
        await listener.until([run.id], PAUSES)
        yes = await holdfast.interrupts.answer(LOCAL, listener.interrupt(run.id), {"decision": "approve"})
        assert isinstance(yes, Interrupt)
        await listener.until([run.id])
        over = await holdfast.store.reader.run("default", run.id)
        assert over is not None and (over.error, over.output) == (None, "published")
        recorded = b"".join(event.payload_bytes for event in listener.events[run.id])
        assert SECRET.encode() not in recorded
