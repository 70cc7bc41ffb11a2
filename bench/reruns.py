"""How many strict reruns succeed: `python -m bench.reruns` prints one JSON object.

Every example workspace is served by a process of its own, with a fake of the provider where it names a real one. Its
agents and workflows are run with every input that its scripted models know, and some that they do not. Each run that
ended is then run again from its replay token, strictly, with unchanged inputs: on the same workspace, with the folders
that its tools write to as they were before the run. A rerun succeeds if it ends as the run did.
"""

import argparse
import asyncio
import contextlib
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import httpx2
import yaml

from app.core import json
from tests.models.fakes.ollama import OllamaSpeaker
from tests.models.fakes.openai import OpenAiSpeaker
from tests.models.fakes.server import running
from tests.server import ServerProcess

EXAMPLES: Final = Path(__file__).parent.parent / "workspaces"
PLAIN: Final = ("hello", "please calculate", "publish it now", "What is the weather in Oslo?")
MIN_RUNS: Final = 200
_ADDRESSES: Final = {"https://api.openai.com/v1": "{url}/v1", "http://localhost:11434": "{url}"}
_ANSWERS: Final[dict[str, Any]] = {"approval": {"decision": "approve"}, "paused": {"decision": "resume"}}
_ROUNDS: Final = 20
"""Questions that one run may ask one after the other."""

Json = dict[str, Any]


class _Speaker(OpenAiSpeaker):
    key_header = ("content-type", "application/json")


class _LocalSpeaker(OllamaSpeaker):
    key_header = ("content-type", "application/json")


def examples() -> list[str]:
    """The folders that are workspaces; one only has defaults for others."""
    return sorted(folder.name for folder in EXAMPLES.iterdir() if (folder / "runtime.yaml").exists())


def _documents(folder: Path) -> Iterator[Json]:
    for path in sorted(folder.rglob("*.yaml")):
        with contextlib.suppress(yaml.YAMLError):
            yield from (document for document in yaml.safe_load_all(path.read_text()) if isinstance(document, dict))


def inputs(folder: Path) -> list[str]:
    """What the scripted models of a workspace listen for, and what they do not."""
    known: dict[str, None] = {}
    for document in _documents(folder):
        for rule in (document.get("spec") or {}).get("script", {}).get("rules", ()):
            said = (rule.get("match") or {}).get("contains")
            if isinstance(said, str):
                known[said] = None
    return [*known, *PLAIN]


@contextlib.asynccontextmanager
async def served(name: str, folder: Path) -> AsyncIterator[tuple[httpx2.AsyncClient, Path]]:
    """An example on a server of its own, and the folder that its tools write to."""
    workspace = folder / "workspace"
    shutil.copytree(EXAMPLES / name, workspace)
    speaker = _LocalSpeaker() if name == "local" else _Speaker()
    async with running(speaker) as provider:
        for path in workspace.rglob("*.yaml"):
            text = path.read_text()
            for address, fake in _ADDRESSES.items():
                text = text.replace(address, fake.format(url=provider.url))
            path.write_text(text)
        server = ServerProcess.start(folder / "data", None, workspace, {"OPENAI_API_KEY": "sk-none"})
        try:
            async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
                yield client, folder
        finally:
            server.stop()


async def _ended(client: httpx2.AsyncClient, run: Json) -> Json:
    """The run at its end; whatever it asks is answered in the same way each time."""
    for _ in range(_ROUNDS):
        for asked in run["waitingOn"]:
            await _answer(client, (await client.get(f"/api/interrupts/{asked}")).json())
        if run["status"] in ("completed", "failed", "cancelled"):
            return run
        async with client.stream("GET", f"/api/runs/{run['id']}/stream", params={"after": run["lastSeq"]}) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("event: end") or "runtime.interrupt.raised" in line:
                    break
        run = (await client.get(f"/api/runs/{run['id']}")).json()
    return run


async def _answer(client: httpx2.AsyncClient, asked: Json) -> None:
    answer = _ANSWERS.get(asked["kind"], {"output": "done"})
    if asked["kind"] == "question":
        answer = {"answers": {one["id"]: (one.get("options") or ["yes"])[0] for one in asked.get("questions") or ()}}
    given = await client.post(f"/api/interrupts/{asked['id']}/answer", json=answer)
    assert given.status_code == 200, (asked, given.text)


async def measure(name: str, limit: int | None = None) -> Json:
    """Of one workspace: the runs, the reruns that ended as they did, and what was different about the others."""
    found: Json = {"runs": 0, "succeeded": 0, "failed": []}
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        async with served(name, Path(folder)) as (client, root):
            agents = [item["name"] for item in (await client.get("/api/agents")).json()["items"]]
            flows = [item["name"] for item in (await client.get("/api/workflows")).json()["items"]]
            bodies: list[Json] = [{"agent": agent} for agent in agents] + [{"workflow": flow} for flow in flows]
            wanted = [body | {"input": said} for said in inputs(root / "workspace") for body in bodies]
            for body in wanted[:limit]:
                await _again(client, root / "workspace", body, found)
    return found


async def _again(client: httpx2.AsyncClient, world: Path, body: Json, found: Json) -> None:
    before = _files(world)
    answer = await client.post("/api/runs", params={"wait": 20}, json=body)
    if answer.status_code not in (200, 202):
        return  # not an input that this agent or workflow takes
    run = await _ended(client, answer.json())
    _restore(world, before)
    token = (await client.get(f"/api/runs/{run['id']}/replay-token")).json()["token"]
    found["runs"] += 1
    again = await client.post(f"/api/runs/{run['id']}/rerun", json={"token": token, "mode": "strict"})
    if again.status_code not in (200, 202):
        found["failed"].append({**body, "code": again.json()["error"]["code"]})
        return
    rerun = await _ended(client, again.json())
    _restore(world, before)
    same = (rerun["status"], _code(rerun)) == (run["status"], _code(run))
    if same and rerun["status"] in ("completed", "failed", "cancelled"):
        found["succeeded"] += 1
    else:
        found["failed"].append({**body, "was": [run["status"], _code(run)], "is": [rerun["status"], rerun["error"]]})


def _code(run: Json) -> str | None:
    return None if run["error"] is None else run["error"]["code"]


def _files(world: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in world.rglob("*") if path.is_file()}


def _restore(world: Path, before: dict[Path, bytes]) -> None:
    for path, content in _files(world).items():
        if path not in before:
            path.unlink()
        elif content != before[path]:
            path.write_bytes(before[path])


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workspace", action="append", help="Only these examples.")
    parser.add_argument("--limit", type=int, help="Runs per example.")
    chosen = parser.parse_args()
    figures: dict[str, Json] = {}
    for name in chosen.workspace or examples():
        figures[name] = await measure(name, chosen.limit)
        print(name, {**figures[name], "failed": figures[name]["failed"][:3]}, file=sys.stderr)
    totals = Counter({key: sum(one[key] for one in figures.values()) for key in ("runs", "succeeded")})
    share = round(100 * totals["succeeded"] / max(1, totals["runs"]), 2)
    print(json.dumps({"examples": figures, **totals, "percent": share, "goals": {"percent": 100}}).decode())
    return 0 if share == 100 else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
