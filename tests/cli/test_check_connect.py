"""`holdfast check --connect` against real servers on loopback: what is reached, what is not and why, and no secrets."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import typer
from typer.testing import CliRunner

from app.cli.check import check
from app.core import json
from app.models.kinds import anthropic, gemini, ollama, openai
from app.models.model_list import LISTS
from app.wiring import connections
from tests.workspace.building import GOOD, RUNTIME, document

KEY = "sk-this-key-must-never-be-printed"

app = typer.Typer()
app.command()(check)
runner = CliRunner()


class Provider(BaseHTTPRequestHandler):
    """Lists one model to whoever has the key; anything else is not found."""

    asked: ClassVar[list[tuple[str, str]]] = []

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        self.asked.append((self.command, self.path))
        known = self.headers.get("Authorization") == f"Bearer {KEY}"
        found = self.path.removeprefix("http://models.example") == "/v1/models"
        status = 200 if found and known else 401 if found else 404
        body = b'{"data": [{"id": "real-model"}]}' if status == 200 else b"{}"
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def port() -> Iterator[int]:
    Provider.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()
    thread.join()


def _workspace(root: Path, port: int, model: str = "real-model", **more: str) -> str:
    spec = f"provider: openai\nmodel: {model}\nbaseUrl: http://127.0.0.1:{port}/v1\napiKey: ${{env:API_KEY}}"
    contents = {**GOOD, "m.yaml": document("Model", "hosted", spec), **more}
    for path, text in contents.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return str(root)


def _tool(url: str) -> str:
    return document("Tool", "t", f"kind: http\nhttp: {{url: '{url}'}}\ninput: {{type: object}}\noutput: {{}}")


def test_provider_that_lists_the_model_is_reached(tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY", KEY)
    result = runner.invoke(app, [_workspace(tmp_path, port), "--connect"])
    assert result.exit_code == 0, result.output
    assert "ok      model hosted: 127.0.0.1 offers real-model" in result.output
    assert Provider.asked == [("GET", "/v1/models")]  # never a prompt
    assert KEY not in result.output


@pytest.mark.parametrize(
    ("key", "model", "words", "status"),
    [
        ("sk-a-wrong-key-that-is-secret", "real-model", "refuses the key (HTTP 401)", 1),
        (None, "real-model", "the environment variable API_KEY is not set", 1),
        (KEY, "misspelt", "misspelt is not one of them", 0),
    ],
    ids=["wrong-key", "no-key", "unknown-model"],
)
def test_provider_that_cannot_be_used_is_named_with_the_cause(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch, key: str | None, model: str, words: str, status: int
) -> None:
    monkeypatch.delenv("API_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("API_KEY", key)
    result = runner.invoke(app, [_workspace(tmp_path, port, model), "--connect", "--json"])
    report = json.loads(result.output)
    (found,) = report["connections"]
    assert (found["kind"], found["name"], found["ok"]) == ("model", "hosted", status == 0)
    assert words in found["message"] and result.exit_code == status
    assert key is None or key not in result.output


def test_http_host_mcp_server_and_dead_provider_are_tried(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", KEY)
    changes = {
        "runtime.yaml": RUNTIME + "  outgoing: {private: [127.0.0.1]}\n",
        "t.yaml": _tool(f"http://127.0.0.1:{port}/secret/path"),
        "d.yaml": document("Model", "dead", "provider: ollama\nmodel: x\nbaseUrl: http://127.0.0.1:1"),
        "s.yaml": document("McpServer", "gone", "command: [/no/such/program]\nconnectSeconds: 3"),
    }
    result = runner.invoke(app, [_workspace(tmp_path, port, **changes), "--connect"])
    assert result.exit_code == 1
    assert "ok      HTTP tool t: 127.0.0.1 answers (HTTP 404)" in result.output
    assert "failed  model dead: " in result.output
    assert "failed  MCP server gone: " in result.output
    assert "secret/path" not in result.output
    assert ("HEAD", "/") in Provider.asked


@pytest.mark.requirement("S11")
def test_private_address_that_is_not_allowed_says_where_to_allow_it(tmp_path: Path, port: int) -> None:
    workspace = _workspace(tmp_path, port, **{"m.yaml": "", "t.yaml": _tool(f"http://127.0.0.1:{port}/")})
    result = runner.invoke(app, [workspace, "--connect"])
    assert result.exit_code == 1
    assert "is not a public address" in result.output and "outgoing.private" in result.output
    assert Provider.asked == []


def test_place_that_never_answers_has_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("API_KEY", KEY)
        result = runner.invoke(app, [_workspace(tmp_path, silent.getsockname()[1]), "--connect"])
    assert result.exit_code == 1 and "failed  model hosted: " in result.output


def test_a_provider_behind_a_company_proxy_is_asked_through_it(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the server asks it: the proxy looks the host up, and only hosts that the workspace lists go through it."""
    monkeypatch.setenv("API_KEY", KEY)
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
    changes = {
        "runtime.yaml": RUNTIME + "  outgoing: {hosts: [listed.example]}\n",
        "m.yaml": document(
            "Model",
            "hosted",
            "provider: openai\nmodel: real-model\nbaseUrl: http://models.example/v1\napiKey: ${env:API_KEY}",
        ),
        "t.yaml": _tool("http://listed.example/secret/path"),
        "u.yaml": document(
            "Tool", "u", "kind: http\nhttp: {url: 'http://other.example/'}\ninput: {type: object}\noutput: {}"
        ),
    }
    result = runner.invoke(app, [_workspace(tmp_path, port, **changes), "--connect"])
    assert ("GET", "http://models.example/v1/models") in Provider.asked
    assert ("HEAD", "http://listed.example/") in Provider.asked
    assert "ok      HTTP tool t: listed.example answers" in result.output
    assert "failed  HTTP tool u: " in result.output and "is not an allowed host (ADDRESS_REFUSED)" in result.output
    assert not any("other.example" in path for _, path in Provider.asked)


def test_a_proxy_variable_that_is_no_url_is_one_line(
    tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "ftp://me:secret@proxy")
    result = runner.invoke(app, [_workspace(tmp_path, port), "--connect"])
    assert result.exit_code == 1
    assert "SETTINGS_INVALID: HTTP_PROXY is not an http or https URL" in result.output
    assert "secret" not in result.output


def test_nothing_is_tried_when_the_workspace_has_errors(tmp_path: Path, port: int) -> None:
    workspace = _workspace(tmp_path, port, **{"agents/helper.yaml": "a: ["})
    result = runner.invoke(app, [workspace, "--connect"])
    assert result.exit_code == 1 and "No connection was tried" in result.output
    assert Provider.asked == []


def test_addresses_are_those_that_the_providers_use() -> None:
    urls = {
        "openai": openai.OpenAi.default_url,
        "anthropic": anthropic.Anthropic.default_url,
        "gemini": gemini.Gemini.default_url,
        "ollama": ollama.Ollama.default_url,
    }
    assert {name: listing.default_url for name, listing in LISTS.items()} == urls
