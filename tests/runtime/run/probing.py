"""A workspace for a backend that does what a test wants, on the real runtime: `Probe`, next to `native`."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from app.backends.contract import Backend, Context, Result, Resume
from app.backends.kinds.native import NativeBackend
from app.core.principal import LOCAL
from app.events.envelope import Event
from app.views.interrupt import Interrupt
from app.views.run import Run
from app.wiring.runtime import Holdfast
from tests.runs import payloads, waiting

WORKSPACE: Final = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: probing}
spec: {defaultAgent: probe}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true, tools: true, parallelTools: true}
  script:
    rules:
      - {match: {afterTool: note}, reply: {text: noted}}
      - {match: {contains: note it}, reply: {toolCalls: [{name: note, args: {what: that}}]}}
      - {match: {contains: use yours}, reply: {toolCalls: [{name: theirs, args: {n: 1}}]}}
    default: {text: "about {{ input }}"}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: probe, description: Does what a test wants.}
spec: {backend: probe, model: script, tools: [note, publish], subagents: [helper], config: {probe: {word: hello}}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: helper, description: Helps.}
spec: {backend: native, model: script, tools: [note, publish]}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: note, description: Keeps a note.}
spec:
  kind: python
  entry: witness:note
  effect: unsafe
  input: {type: object, properties: {what: {type: string}}, required: [what]}
  output: {type: object}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: publish}
spec:
  kind: python
  entry: witness:publish
  effect: unsafe
  approval: always
  input: {type: object, properties: {at: {type: string}}, required: [at]}
"""
WITNESS: Final = '''
import asyncio
from pathlib import Path

FILE = Path({path!r})

async def note(what: str) -> dict:
    """Takes a moment, and leaves a line for every time it acts."""
    await asyncio.sleep(0.05)
    with FILE.open("a") as lines:
        lines.write(what + "\\n")
    return {{"kept": what, "of": {{"deep": [1, 2]}}}}

def publish(at: str, ctx) -> str:
    made = ctx.save_artifact("page.txt", "text/plain", at.encode())
    with FILE.open("a") as lines:
        lines.write("published " + at + "\\n")
    return f"{{made.name}} {{made.version}}"
'''

Act = Callable[[Context], Awaitable[Result]]


class Probe:
    """A backend that does what a test wants."""

    kind = "probe"
    resume: Resume = "replay"

    def __init__(self, act: Act) -> None:
        self._act = act

    async def run(self, ctx: Context) -> Result:
        return await self._act(ctx)


def with_native(probe: Backend) -> dict[str, Backend]:
    return {"probe": probe, "native": NativeBackend()}


def write(folder: Path, more: str = "") -> Path:
    """The workspace, with more documents if a test wants them."""
    root = folder / "workspace"
    root.mkdir()
    (root / "workspace.yaml").write_text(WORKSPACE + more)
    (root / "witness.py").write_text(WITNESS.format(path=str(folder / "effects")))
    return root


def effects(folder: Path) -> list[str]:
    found = folder / "effects"
    return found.read_text().splitlines() if found.exists() else []


def signals(events: list[Event], phase: str) -> list[dict[str, Any]]:
    return [it["event"] for it in payloads(events, "adapter.event") if it["event"]["phase"] == phase]


async def answer(holdfast: Holdfast, interrupt_id: str, given: dict[str, Any]) -> None:
    assert isinstance(await holdfast.interrupts.answer(LOCAL, interrupt_id, given), Interrupt)


async def open_interrupts(holdfast: Holdfast, run: Run) -> list[Interrupt]:
    await waiting(holdfast, run)
    await holdfast.executor.idle()
    return await holdfast.store.reader.interrupts(
        "default", thread_id=run.thread_id, status="open", after="", limit=100
    )
