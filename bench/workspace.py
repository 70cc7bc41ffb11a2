"""Compiles 1,000 agents with 3,000 tools, then changes one file: `python -m bench.workspace`.

Prints one JSON line: seconds cold and after a change, their ratio, and the memory that compiling added.
CPU seconds are given next to wall seconds, which mean little on a machine that others use as well.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from app.core import json
from app.wiring.kinds import kind_catalog
from app.workspace.compile import CompileCache, compile
from app.workspace.compiled import Compiled
from app.workspace.files import WorkspaceFiles, read_folder

AGENTS = 1_000
TOOLS = 3_000
CHANGES = 9

RUNTIME = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: bench}
spec: {defaultAgent: agent-0}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: main}
spec: {provider: scripted, model: script}
"""
TOOL = """\
apiVersion: holdfast/v1
kind: Tool
metadata:
  name: tool-{n}
  description: Looks up the orders of customer group {n}.
spec:
  kind: builtin
  entry: echo
  effect: readonly
  timeoutSeconds: 20
  approval: args.amount_{n} > 1000
  input:
    type: object
    properties:
      customer_{n}: {{type: string, minLength: 1, maxLength: 80}}
      amount_{n}: {{type: integer, minimum: 0}}
      status: {{enum: [open, paid, late]}}
    required: [customer_{n}]
  output:
    type: object
    properties:
      orders_{n}: {{type: array, items: {{type: string}}}}
  rules:
    - check: "args.customer_{n} != ''"
      message: name a customer
"""
AGENT = """\
apiVersion: holdfast/v1
kind: Agent
metadata:
  name: agent-{n}
  description: Serves customer group {n}.
spec:
  model: main
  instructions: You serve customer group {n}. Be brief{mark}.
  tools: [tool-{a}, tool-{b}, tool-{c}, tool-{d}]
  subagents: [{sub}]
  maxTurns: 12
  limits: {{tokens: 100000, toolCalls: 20}}
"""


def agent(n: int, mark: str = "") -> str:
    sub = f"agent-{n + 1}" if n % 5 and n + 1 < AGENTS else ""
    a, b, c, d = ((n * 3 + step * 701) % TOOLS for step in range(4))
    return AGENT.format(n=n, a=a, b=b, c=c, d=d, sub=sub, mark=mark)


def write(root: Path) -> None:
    for folder in ("agents", "tools"):
        (root / folder).mkdir()
    (root / "runtime.yaml").write_text(RUNTIME)
    for n in range(AGENTS):
        (root / "agents" / f"{n}.yaml").write_text(agent(n))
    for n in range(TOOLS):
        (root / "tools" / f"{n}.yaml").write_text(TOOL.format(n=n))


def compiled(files: WorkspaceFiles, cache: CompileCache) -> Compiled:
    result = compile(files, kind_catalog(), cache=cache)
    assert isinstance(result, Compiled), result.as_text()
    return result


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write(root)
        # Files that were written this moment are read again by design; a real workspace has settled.
        time.sleep(2.1)
        before = peak_mb()
        cache = CompileCache()
        start, cpu = time.perf_counter(), time.process_time()
        files = read_folder(root)
        read = time.perf_counter() - start
        compiled(files, cache)
        cold, cold_cpu = time.perf_counter() - start, time.process_time() - cpu
        after = peak_mb()
        warm, warm_cpu = [], []
        for change in range(CHANGES):
            (root / "agents" / f"{change}.yaml").write_text(agent(change, mark=f", {change}"))
            start, cpu = time.perf_counter(), time.process_time()
            files = read_folder(root, files)
            compiled(files, cache)
            warm.append(time.perf_counter() - start)
            warm_cpu.append(time.process_time() - cpu)
    figures = {
        "agents": AGENTS,
        "tools": TOOLS,
        "coldSeconds": round(cold, 3),
        "coldCpuSeconds": round(cold_cpu, 3),
        "readSeconds": round(read, 3),
        "changeSeconds": round(median(warm), 4),
        "changeSecondsMax": round(max(warm), 4),
        "changeCpuSeconds": round(median(warm_cpu), 4),
        "ratio": round(median(warm) / cold, 4),
        "memoryMb": round(after - before, 1),
        "peakMb": round(after, 1),
    }
    sys.stdout.write(json.dumps(figures).decode() + "\n")


if __name__ == "__main__":
    main()
