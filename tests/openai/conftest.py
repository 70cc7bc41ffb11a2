"""A real server with agents for OpenAI clients, shared by the scenarios: each uses threads of its own."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import openai
import pytest

from tests.scenarios.proof import assert_replay_equals_tables
from tests.server import ServerProcess

RUNTIME = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: clients}
spec:
  defaultAgent: helper
"""
MODEL = """\
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  retry: {attempts: 2, initialDelaySeconds: 0.01, midStream: restart}
  capabilities:
    streaming: true
    tools: true
    parallelTools: true
    structuredOutput: true
    input: [text, image, file]
  script:
    rules:
      - match: {contains: weather, turn: 1}
        reply:
          text: Let me look.
          chunkSize: 4
          toolCalls:
            - {name: weather, args: {city: Oslo}}
            - {name: weather, args: {city: Rome}}
      - match: {afterTool: weather}
        reply: {text: "The tool said: {{ toolResult }}", chunkSize: 5}
      - match: {contains: publish, turn: 1}
        reply: {toolCalls: [{name: publish, args: {text: news}}]}
      - match: {afterTool: publish}
        reply: {text: Published.}
      - match: {contains: what time, turn: 1}
        reply: {text: Looking at the clock., toolCalls: [{name: clock, args: {}}]}
      - match: {afterTool: clock}
        reply: {text: It is late., chunkSize: 3}
      - match: {contains: delegate, turn: 1}
        reply: {toolCalls: [{name: closed, args: {input: count this}}], usage: {inputTokens: 100, outputTokens: 20}}
      - match: {contains: have it printed, turn: 1}
        reply: {toolCalls: [{name: helper, args: {input: publish it}}]}
      - match: {afterTool: helper}
        reply: {text: Printed.}
      - match: {afterTool: closed}
        reply: {text: "They say: {{ toolResult }}", usage: {inputTokens: 200, outputTokens: 30}}
      - match: {contains: fail please}
        fail: {status: 400, message: no}
      - match: {contains: cut off}
        reply: {text: The whole answer., chunkSize: 4}
        fail: {kind: midStream, times: 1, afterChunks: 2}
      - match: {contains: endlessly}
        reply: {text: ENDLESS, chunkSize: 2, chunkDelaySeconds: 0.5}
      - match: {contains: slowly}
        reply: {chunks: [One, Two, Three, Four, Five, Six, Seven, Eight], chunkDelaySeconds: 0.1}
      - match: {contains: as json}
        reply: {text: '{"city": "Oslo", "degrees": 3}', chunkSize: 6}
      - match: {contains: too long}
        reply: {text: It goes on and, finishReason: max_tokens}
      - match: {system: speak like a pirate}
        reply: {text: "Arr: {{ input }}"}
    default: {text: "You said: {{ input }}", chunkSize: 6, usage: {inputTokens: 11, outputTokens: 7}}
""".replace("ENDLESS", "on" * 1000)  # takes minutes: for runs that are to be cancelled
EXPOSED = """\
apiVersion: holdfast/v1
kind: Model
metadata: {name: small}
spec: {provider: scripted, model: script, expose: true}
"""
AGENTS = """\
apiVersion: holdfast/v1
kind: Agent
metadata: {name: helper, description: Helps.}
spec:
  model: script
  instructions: You help.
  tools: [clock, publish]
  clientTools: true
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: closed, description: Works for others.}
spec:
  model: script
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: assistant, description: The one of the guide.}
spec:
  model: script
  clientTools: true
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: chief}
spec:
  model: script
  subagents: [closed, {agent: helper, tools: [clock, publish]}]
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: echo}
spec: {backend: echo}
"""
TOOLS = """\
apiVersion: holdfast/v1
kind: Tool
metadata: {name: clock}
spec: {kind: builtin}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: publish, description: Publishes a text.}
spec:
  kind: python
  entry: publishing:publish
  effect: unsafe
  approval: always
  input: {type: object, required: [text], properties: {text: {type: string}}}
"""


def write_workspace(folder: Path) -> Path:
    models = (("models/script", MODEL), ("models/small", EXPOSED))
    for name, text in (("runtime", RUNTIME), *models, ("agents/all", AGENTS), ("tools/all", TOOLS)):
        path = folder / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "publishing.py").write_text("def publish(text: str) -> str:\n    return text\n")
    return folder


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("openai")
    server = ServerProcess.start(folder / "data", workspace=write_workspace(folder / "workspace"))
    try:
        yield server
        with asyncio.Runner() as runner:
            runner.run(assert_replay_equals_tables(server.url))
    finally:
        server.stop()


@pytest.fixture
async def client(server: ServerProcess) -> AsyncIterator[openai.AsyncOpenAI]:
    """As its users make it, with its own retries."""
    http = httpx2.AsyncClient(timeout=30, verify=False)
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="any", http_client=http) as client:
        yield client


@pytest.fixture
async def api(server: ServerProcess) -> AsyncIterator[httpx2.AsyncClient]:
    """Our own side of the same runs."""
    async with httpx2.AsyncClient(base_url=server.url, timeout=30, verify=False) as client:
        yield client
