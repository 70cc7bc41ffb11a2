"""How long large messages hold the event loop: `python -m bench.large` prints one JSON object.

A server in a process of its own has a heartbeat on its loop. Each kind of message is sent a few times: 30 MB, and 4 MB
of text, which is the most that is accepted. Its figure is the longest time between two beats from the first byte to the
end of the answer, the median of the rounds. Whatever holds the interpreter counts, also in a thread.

On a machine that others use, a beat is also late because the process waits for a core. `cpuMs` is the most CPU that the
process has taken between two beats: what of the figure is its own, at most.
"""

import argparse
import asyncio
import base64
import http.client
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from app.core import json
from app.core.settings import Settings
from app.wiring.web import serving

MIB = 1024 * 1024
SIZE = 30_000_000
BEAT_SECONDS = 0.001
TEXT_SIZE = 4_000_000
GOAL_MS = 50.0
_MODEL = """
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true, tools: true, input: [text, image]}
  limits: {contextTokens: 100000000}
  script:
    rules:
      - match: {afterTool: produce}
        reply: {text: "There is a result."}
      - match: {contains: produce}
        reply: {toolCalls: [{name: produce, args: {}}]}
    default: {text: "I have read it."}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: reader}
spec: {model: script, tools: [produce]}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: produce, description: A large result.}
spec: {kind: python, entry: "produce:produce", effect: readonly}
---
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: large}
spec: {defaultAgent: reader}
"""
_TOOL = f"""
from holdfast import tool

@tool(effect="readonly")
def produce() -> str:
    \"\"\"A large result.\"\"\"
    return "a line of the result\\n" * ({SIZE} // 21)
"""
_HEADERS = {"content-type": "application/json"}

Send = Callable[[str], None]


def _serve(pipe: Connection, folder: str) -> None:
    asyncio.run(_serve_with_heartbeat(pipe, Path(folder)))


async def _serve_with_heartbeat(pipe: Connection, folder: Path) -> None:
    longest = longest_cpu = 0.0

    async def beat() -> None:
        nonlocal longest, longest_cpu
        last, last_cpu = time.perf_counter(), time.process_time()
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            now, cpu = time.perf_counter(), time.process_time()
            longest, last = max(longest, now - last), now
            longest_cpu, last_cpu = max(longest_cpu, cpu - last_cpu), cpu

    workspace = folder / "workspace"
    workspace.mkdir()
    (workspace / "all.yaml").write_text(_MODEL)
    (workspace / "produce.py").write_text(_TOOL)
    async with serving(Settings(data_dir=folder / "data", workspace=workspace)) as url:
        beating = asyncio.create_task(beat())
        pipe.send(url)
        while await asyncio.to_thread(pipe.recv):
            pipe.send((longest, longest_cpu))
            longest = longest_cpu = 0.0
        beating.cancel()


def _post(url: str, path: str, body: bytes, headers: dict[str, str] | None = None, status: int = 200) -> None:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=120)
    connection.request("POST", path, body, headers or _HEADERS)
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status == status, (path, answer.status, content[:200])
    connection.close()


def messages() -> dict[str, Send]:
    """Each kind of large message, ready to be sent: what a client does is not measured."""
    plain = "The quick brown fox jumps over the lazy dog. " * (SIZE // 45)
    accented = "Übergrößenträger, naïveté; ça va? " * (TEXT_SIZE // 41)
    lines = 'a line with "quotes" and a break\n' * (TEXT_SIZE // 37)
    image = "data:image/png;base64," + base64.b64encode(os.urandom(SIZE * 3 // 4)).decode()
    parts = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": image}}]

    def run(text: str, status: int = 200) -> Send:
        body = json.dumps({"agent": "reader", "input": text})
        return lambda url: _post(url, "/api/runs?wait=60", body, status=status)

    def chat(content: object) -> Send:
        body = json.dumps({"model": "reader", "messages": [{"role": "user", "content": content}]})
        return lambda url: _post(url, "/v1/chat/completions", body)

    binary = {"content-type": "application/octet-stream"}
    file = os.urandom(SIZE)
    return {
        "text that is refused": run(plain, 413),
        "run, ASCII": run(plain[:TEXT_SIZE]),
        "run, UTF-8": run(accented),
        "run, escapes": run(lines),
        "chat completion, text": chat(plain[:TEXT_SIZE]),
        "chat completion, image": chat(parts),
        "tool result": run("produce it"),
        "upload": lambda url: _post(url, "/api/files?name=x.bin", file, binary, 201),
    }


def measure(rounds: int, only: str = "") -> dict[str, dict[str, float]]:
    ours, theirs = multiprocessing.Pipe()
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        server = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, folder), daemon=True)
        server.start()
        url: str = ours.recv()

        def longest() -> tuple[float, float]:
            ours.send(True)
            held, cpu = ours.recv()
            return held * 1000, cpu * 1000

        for name, send in messages().items():
            if only not in name:
                continue
            blocked, cpu, took = [], [], []
            for _ in range(rounds):
                longest()
                began = time.perf_counter()
                send(url)
                took.append(time.perf_counter() - began)
                held = longest()
                blocked.append(held[0])
                cpu.append(held[1])
            found[name] = {
                "blockedMs": round(statistics.median(blocked), 1),
                "worstMs": round(max(blocked), 1),
                "cpuMs": round(statistics.median(cpu), 1),
                "seconds": round(statistics.median(took), 2),
            }
        ours.send(False)
        server.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.large")
    parser.add_argument("--quick", action="store_true", help="one round instead of three")
    parser.add_argument("--only", default="", help="the kinds of message whose name contains this")
    arguments = parser.parse_args()
    found = measure(1 if arguments.quick else 3, arguments.only)
    worst = max(one["blockedMs"] for one in found.values())
    goals = {"worstBlockedMs < 50": worst < GOAL_MS}
    cpu = max(one["cpuMs"] for one in found.values())
    figures = {"worstBlockedMs": worst, "worstCpuMs": cpu, "messages": found, "goals": goals}
    print(json.dumps({"bench": "large"} | figures).decode())


if __name__ == "__main__":
    main()
