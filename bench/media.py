"""What large media cost in memory: `python -m bench.media` prints one JSON object.

A server in a process of its own; each figure is how far its peak of resident memory rises above what it had before.
A file of 200 MiB goes up and comes down; a picture of 30 MiB goes through a run to a provider over HTTP, and one of
10 MiB, made by a provider, comes back and is fetched.
"""

import argparse
import base64
import http.client
import os
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from app.core import json
from tests.server import ServerProcess

MIB = 1024 * 1024
FILE, PART, MADE = 200 * MIB, 30 * MIB, 10 * MIB
GOALS_MB = {"upload": 20, "download": 20, "part to a model": 100}
_PIECE = os.urandom(MIB)
_AGENTS = """
apiVersion: holdfast/v1
kind: Model
metadata: {{name: far}}
spec:
  provider: openai
  model: far
  baseUrl: {url}
  capabilities: {{streaming: false, input: [text, image], output: [text, image]}}
  limits: {{contextTokens: 100000000}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {{name: viewer}}
spec: {{model: far}}
---
apiVersion: holdfast/v1
kind: Runtime
metadata: {{name: media}}
spec: {{defaultAgent: viewer, outgoing: {{private: [127.0.0.1]}}}}
"""


class _Provider(BaseHTTPRequestHandler):
    """Reads what it is sent; draws when it is asked to."""

    def do_POST(self) -> None:
        left, drawn = int(self.headers["content-length"]), False
        while left:
            piece = self.rfile.read(min(left, MIB))
            left -= len(piece)
            drawn = drawn or b"draw" in piece
        message: dict[str, object] = {"role": "assistant", "content": "Seen."}
        if drawn:
            url = "data:image/png;base64," + base64.b64encode(_PIECE * (MADE // MIB)).decode()
            message["images"] = [{"type": "image_url", "image_url": {"url": url}}]
        body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


class _Peak:
    """The peak of a process since it was last asked, in MB."""

    def __init__(self, pid: int) -> None:
        self._status, self._clear = Path(f"/proc/{pid}/status"), Path(f"/proc/{pid}/clear_refs")

    def begin(self) -> float:
        self._clear.write_text("5")
        return self._read("VmRSS")

    def end(self) -> float:
        return self._read("VmHWM")

    def _read(self, name: str) -> float:
        (line,) = [line for line in self._status.read_text().splitlines() if line.startswith(name)]
        return int(line.split()[1]) / 1000


class _Client:
    def __init__(self, url: str) -> None:
        self._host = url.removeprefix("http://")

    def ask(self, method: str, path: str, body: bytes | Iterator[bytes] | None = None, **headers: str) -> bytes:
        connection = http.client.HTTPConnection(self._host, timeout=300)
        connection.request(method, path, body, {key.replace("_", "-"): value for key, value in headers.items()})
        answer = connection.getresponse()
        kept = b""
        while piece := answer.read(MIB):
            kept = kept or piece
        assert answer.status < 300, (path, answer.status, kept[:300])
        connection.close()
        return kept

    def upload(self, size: int, name: str) -> str:
        pieces = (_PIECE for _ in range(size // MIB))
        made = self.ask("POST", f"/api/files?name={name}", pieces, content_type="image/png")
        return str(json.loads(made)["id"])

    def run(self, given: object) -> dict[str, object]:
        body = json.dumps({"agent": "viewer", "input": given})
        run: dict[str, object] = json.loads(
            self.ask("POST", "/api/runs?wait=120", body, content_type="application/json")
        )
        assert run["status"] == "completed", run
        return run


def measure(folder: Path) -> dict[str, float]:
    provider = ThreadingHTTPServer(("127.0.0.1", 0), _Provider)
    threading.Thread(target=provider.serve_forever, daemon=True).start()
    workspace = folder / "workspace"
    workspace.mkdir()
    (workspace / "all.yaml").write_text(_AGENTS.format(url=f"http://127.0.0.1:{provider.server_port}"))
    server = ServerProcess.start(folder / "data", None, workspace)
    found: dict[str, float] = {}
    try:
        client, peak = _Client(server.url), _Peak(server.pid)
        client.run("hello")
        before = peak.begin()
        large = client.upload(FILE, "large.bin")
        found["upload"] = peak.end() - before
        before = peak.begin()
        client.ask("GET", f"/api/files/{large}/content")
        found["download"] = peak.end() - before
        picture = client.upload(PART, "picture.png")
        before = peak.begin()
        client.run([{"type": "text", "text": "look"}, {"type": "image", "fileId": picture}])
        found["part to a model"] = peak.end() - before
        before = peak.begin()
        client.run("draw")
        found["picture of a model"] = peak.end() - before
    finally:
        server.stop()
        provider.shutdown()
    return {name: round(value, 1) for name, value in found.items()}


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        found = measure(Path(folder))
    print(json.dumps({"megabytesAbove": found, "goals": GOALS_MB}).decode())


if __name__ == "__main__":
    main()
