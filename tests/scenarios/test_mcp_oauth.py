"""Logins to remote MCP servers through the real server, against a real authorization server."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from app.core import json
from app.core.settings import Settings
from app.wiring.checkup import examine
from app.wiring.connections import try_connections
from app.wiring.kinds import kind_catalog
from app.workspace.compile import compile
from app.workspace.compiled import Compiled
from app.workspace.files import read_folder
from tests.clients import submit
from tests.forks import holdfast_command
from tests.server import ROOT, InProcessServer, clean_environment, in_process
from tests.tools.servers.oauth_server import CLIENT, SECRET, OAuthServer, oauth_server

REDIRECT: Final = "http://127.0.0.1:1/callback"
CONTENT: Final = "content of a.txt"
DOCUMENTS: Final = """apiVersion: holdfast/v1
kind: Runtime
metadata: {{name: runtime}}
spec: {{defaultAgent: reader, env: [MCP_SECRET], outgoing: {{private: [127.0.0.1]}}}}
---
apiVersion: holdfast/v1
kind: McpServer
metadata: {{name: files}}
spec: {{url: "{url}/mcp", oauth: {{}}}}
---
apiVersion: holdfast/v1
kind: McpServer
metadata: {{name: robot}}
spec:
  url: {url}/mcp
  oauth: {{grant: clientCredentials, clientId: {client}, clientSecret: "${{env:MCP_SECRET}}", issuer: "{url}"}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {{name: read}}
spec: {{kind: mcp, effect: readonly, input: {schema}, mcp: {{server: files}}}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {{name: fetch}}
spec: {{kind: mcp, effect: readonly, input: {schema}, mcp: {{server: robot, tool: read}}}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {{name: reader}}
spec: {{model: script, tools: [read, fetch]}}
---
apiVersion: holdfast/v1
kind: Model
metadata: {{name: script}}
spec:
  provider: scripted
  model: script
  capabilities: {{tools: true}}
  script:
    rules:
      - {{match: {{equals: read, turn: 1}}, reply: {{toolCalls: [{{name: read, args: {{path: a.txt}}}}]}}}}
      - {{match: {{equals: fetch, turn: 1}}, reply: {{toolCalls: [{{name: fetch, args: {{path: a.txt}}}}]}}}}
      - {{match: {{afterTool: read}}, reply: {{text: "{{{{ toolResult }}}}"}}}}
      - {{match: {{afterTool: fetch}}, reply: {{text: "{{{{ toolResult }}}}"}}}}
    default: {{text: hello}}
"""
_SCHEMA: Final = "{type: object, required: [path], properties: {path: {type: string}}}"


@dataclass
class Setup:
    oauth: OAuthServer
    server: InProcessServer
    settings: Settings

    def caller(self, tenant: str = "acme", role: str = "admin") -> httpx2.AsyncClient:
        headers = {"x-holdfast-user": "anna", "x-holdfast-roles": role, "x-holdfast-tenant": tenant}
        return httpx2.AsyncClient(base_url=self.server.url, headers=headers, timeout=60)

    async def begin(self, client: httpx2.AsyncClient) -> tuple[dict[str, Any], dict[str, str]]:
        """The first step's answer, and what a browser is sent back with."""
        begun = (await client.post("/api/mcp-servers/files/login", json={"redirectUri": REDIRECT})).json()
        async with httpx2.AsyncClient(timeout=60) as browser:
            sent_back = await browser.get(begun["authorizationUrl"])
        assert sent_back.status_code == 302, begun
        return begun, dict(httpx2.URL(sent_back.headers["location"]).params)

    async def log_in(self, client: httpx2.AsyncClient) -> dict[str, Any]:
        begun, back = await self.begin(client)
        done = await client.post("/api/mcp-servers/files/login/complete", json={"ticket": begun["ticket"], **back})
        assert done.status_code == 200, done.text
        shown: dict[str, Any] = done.json()
        return shown

    def stored(self) -> bytes:
        """All that is on the disk of an embedded database."""
        folder = self.settings.data_dir
        return b"".join(one.read_bytes() for one in sorted(folder.glob("*.db*")) if one.is_file())


@contextlib.asynccontextmanager
async def setup_in(settings: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Setup]:
    monkeypatch.setenv("MCP_SECRET", SECRET)
    async with oauth_server() as oauth:
        workspace = folder / "workspace"
        workspace.mkdir()
        (workspace / "all.yaml").write_text(DOCUMENTS.format(url=oauth.url, client=CLIENT, schema=_SCHEMA))
        data = folder / "data"
        data.mkdir()
        update = {"workspace": workspace, "auth": "header,keys", "trusted_proxies": "127.0.0.1", "data_dir": data}
        made = settings.model_copy(update=update)
        async with in_process(made) as server:
            yield Setup(oauth, server, made)


async def read_by(client: httpx2.AsyncClient, text: str = "read") -> str:
    run = await submit(client, "reader", text, wait=50)
    assert run["status"] == "completed", run
    return str(run["output"])


@pytest.mark.requirement("PX-10", "HK-19")
async def test_a_tenant_logs_in_and_its_tokens_are_its_own_encrypted_and_renewed(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with setup_in(settings, tmp_path, monkeypatch) as setup, setup.caller() as acme, setup.caller("bolt") as bolt:
        before = await read_by(acme)
        assert "MCP_LOGIN_REQUIRED" in before and "holdfast mcp login files" in before
        done = await setup.log_in(acme)
        assert done["renewable"] and done["issuer"].rstrip("/") == setup.oauth.url
        assert CONTENT in await read_by(acme)
        assert "MCP_LOGIN_REQUIRED" in await read_by(bolt), "the login of another tenant is not used"
        await setup.log_in(bolt)
        assert CONTENT in await read_by(bolt) and {"login-1", "login-2"} <= set(setup.oauth.calls)

        setup.oauth.expire()
        outputs = await asyncio.gather(*(read_by(acme) for _ in range(4)))
        assert all(CONTENT in one for one in outputs) and setup.oauth.renewals == 1, "renewed once for all of them"

        shown = (await acme.get("/api/mcp/servers")).json()["data"]
        assert [one["authStatus"] for one in shown] == ["oAuth", "oAuth"]
        ledger = (await acme.get("/api/threads/sys_ledger/events?limit=1000")).text
        for token in (*setup.oauth.access, *setup.oauth.refresh, *setup.oauth.spent):
            assert token not in ledger and token.encode() not in setup.stored()
        assert "runtime.mcp.oauth.completed" in ledger

        assert (await acme.delete("/api/mcp-servers/files/login")).status_code == 204
        assert "MCP_LOGIN_REQUIRED" in await read_by(acme) and CONTENT in await read_by(bolt)


@pytest.mark.requirement("PX-10")
async def test_a_revoked_login_fails_the_calls_of_its_server_only_and_says_what_to_do(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with setup_in(settings, tmp_path, monkeypatch) as setup, setup.caller() as acme, setup.caller("bolt") as bolt:
        assert CONTENT in await read_by(acme, "fetch"), "unattended: nobody has to log in"
        await setup.log_in(acme)
        await setup.log_in(bolt)
        assert CONTENT in await read_by(acme) and CONTENT in await read_by(bolt)
        setup.oauth.revoke("login-1")
        refused = await read_by(acme)
        assert "MCP_LOGIN_REQUIRED" in refused and "invalid_grant" in refused and "holdfast mcp login files" in refused
        assert CONTENT in await read_by(bolt) and CONTENT in await read_by(acme, "fetch")
        doctor = {it.message: it.level for it in await examine(setup.settings, {}) if it.about == "mcp"}
        assert "ok" in doctor.values(), doctor
        setup.oauth.expire()  # and what the unattended client has is fetched anew
        assert CONTENT in await read_by(acme, "fetch")
        await setup.log_in(acme)
        assert CONTENT in await read_by(acme)


@pytest.mark.requirement("PX-10")
async def test_a_hostile_client_or_authorization_server_gets_no_token(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with setup_in(settings, tmp_path, monkeypatch) as setup, setup.caller() as acme, setup.caller("bolt") as bolt:
        begun, back = await setup.begin(acme)
        good = {"ticket": begun["ticket"], **back}
        address = "/api/mcp-servers/files/login"
        for client, body in (
            (bolt, good),  # another tenant's ticket
            (acme, good | {"state": "another"}),
            (acme, good | {"iss": "https://elsewhere.example"}),
            (acme, {name: value for name, value in good.items() if name != "iss"}),
            (acme, good | {"ticket": begun["ticket"][:-8] + "AAAAAAA="}),
            (acme, good | {"code": "stolen"}),
        ):
            answer = await client.post(f"{address}/complete", json=body)
            assert answer.status_code == 422 and "MCP_LOGIN_FAILED" in answer.text, answer.text
        for path, body, status in (
            (address, {"redirectUri": "http://evil.example/callback"}, 400),
            (address, {"redirectUri": "javascript:alert(1)"}, 400),
            (address, {}, 400),
            (f"{address}/complete", {"ticket": "x"}, 400),
            ("/api/mcp-servers/none/login", {"redirectUri": REDIRECT}, 404),
            ("/api/mcp-servers/robot/login", {"redirectUri": REDIRECT}, 409),
        ):
            assert (await acme.post(path, json=body)).status_code == status, (path, body)
        async with setup.caller(role="member") as member:
            for answer in (await member.post(address, json={"redirectUri": REDIRECT}), await member.delete(address)):
                assert answer.status_code == 403
        setup.oauth.other_issuer = "https://elsewhere.example"
        lies = await acme.post(address, json={"redirectUri": REDIRECT})
        assert lies.status_code == 422 and "no authorization server was found" in lies.text, lies.text
        assert setup.oauth.logins == 0 and "MCP_LOGIN_REQUIRED" in await read_by(acme)


async def test_the_command_logs_in_with_a_browser_and_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(data_dir=tmp_path)
    async with setup_in(settings, tmp_path, monkeypatch) as setup, setup.caller("default") as client:
        proxied = {"HOLDFAST_URL": setup.server.url}
        made = await client.post("/api/keys", json={"name": "cli", "roles": ["admin"]})
        assert made.status_code == 201, made.text
        environment = clean_environment() | proxied | {"HOLDFAST_API_KEY": made.json()["key"]}
        program = [str(holdfast_command(tmp_path) / "holdfast"), "mcp"]

        async def holdfast(*words: str) -> asyncio.subprocess.Process:
            pipe = asyncio.subprocess.PIPE
            return await asyncio.create_subprocess_exec(
                *program, *words, env=environment, cwd=ROOT, stdout=pipe, stderr=pipe
            )

        async def says(*words: str) -> tuple[int | None, str]:
            command = await holdfast(*words)
            printed = await asyncio.wait_for(command.communicate(), 60)
            return command.returncode, b"".join(printed).decode()

        async def login_of(*words: str) -> dict[str, str]:
            code, listed = await says("list", "--json", *words)
            assert code == 0, listed
            return {one["name"]: one["authStatus"] for one in json.loads(listed.encode())}

        assert (await login_of())["files"] == "notLoggedIn"
        code, unknown = await says("login", "nowhere", "--no-browser")
        assert code != 0 and "MCP_SERVER_NOT_FOUND" in unknown
        refused = await holdfast("login", "files", "--no-browser")
        assert refused.stderr is not None
        async with asyncio.timeout(60), httpx2.AsyncClient(timeout=60) as browser:
            while not (line := (await refused.stderr.readline()).decode().strip()).startswith("http"):
                assert refused.returncode is None and line, line
            callback = httpx2.URL(line).params["redirect_uri"]
            assert (await browser.get(callback.replace("/callback", "/elsewhere"))).status_code == 404
            await browser.get(f"{callback}?error=access_denied")
        _, told = await asyncio.wait_for(refused.communicate(), 60)
        assert refused.returncode == 1 and b"access_denied" in told
        login = await holdfast("login", "files", "--no-browser")
        assert login.stderr is not None
        async with asyncio.timeout(60), httpx2.AsyncClient(follow_redirects=True, timeout=60) as browser:
            while not (line := (await login.stderr.readline()).decode().strip()).startswith("http"):
                assert login.returncode is None and line, line
            seen = await browser.get(line)
            assert "close this page" in seen.text
        out, _ = await asyncio.wait_for(login.communicate(), 60)
        assert login.returncode == 0 and "Logged in to files" in out.decode()
        assert CONTENT in await read_by(client)
        assert (await login_of())["files"] == "oAuth"
        assert await says("logout", "files", "--quiet") == (0, "files\n")
        assert (await login_of())["files"] == "notLoggedIn" and "MCP_LOGIN_REQUIRED" in await read_by(client)
        code, unknown = await says("logout", "nowhere")
        assert code != 0 and "MCP_SERVER_NOT_FOUND" in unknown


async def test_doctor_and_check_say_why_a_server_is_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with oauth_server() as oauth:
        crash = "import sys; sys.exit(3)"
        servers = {
            "nowhere": "{url: 'http://127.0.0.1:9/mcp'}",
            "private": "{url: 'http://192.168.255.1/mcp'}",
            "locked": f"{{url: '{oauth.url}/mcp'}}",
            "login": f"{{url: '{oauth.url}/mcp', oauth: {{}}}}",
            "elsewhere": f"{{url: '{oauth.url}/other'}}",
            "metadata": f"{{url: '{oauth.url}/.well-known/oauth-authorization-server'}}",
            "missing": "{command: [no-such-program]}",
            "crashing": f"{{command: [{sys.executable}, -c, '{crash}']}}",
            "silent": f"{{command: [{sys.executable}, -c, 'import sys; sys.stdin.read()'], connectSeconds: 3}}",
        }
        head = "apiVersion: holdfast/v1\nkind: McpServer\nmetadata: {name: "
        documents = [f"{head}{name}}}\nspec: {spec}\n" for name, spec in servers.items()]
        documents.append(
            "apiVersion: holdfast/v1\nkind: Runtime\nmetadata: {name: runtime}\n"
            "spec: {outgoing: {private: [127.0.0.1]}}\n"
        )
        documents.append("apiVersion: holdfast/v1\nkind: Agent\nmetadata: {name: one}\nspec: {model: m}\n")
        documents.append(
            "apiVersion: holdfast/v1\nkind: Model\nmetadata: {name: m}\n"
            "spec: {provider: scripted, model: m, script: {default: {text: hello}}}\n"
        )
        (tmp_path / "all.yaml").write_text("---\n".join(documents))
        settings = Settings(data_dir=tmp_path / "data", workspace=tmp_path)
        doctor = {it.message.split()[3]: it for it in await examine(settings, {}) if it.about == "mcp"}
        expected = {
            "nowhere": "cannot be reached: ",
            "private": "cannot be reached: ",
            "locked": "refuses the credentials (HTTP 401)",
            "login": "asks for a login. Run `holdfast mcp login login`",
            "elsewhere": "does not speak MCP at its address (HTTP 404)",
            "metadata": "does not speak MCP",
            "missing": "its program no-such-program was not found; correct `command`",
            "crashing": f"its program {sys.executable} ended, or did not speak MCP",
            "silent": "did not answer within 3 s",
        }
        for name, words in expected.items():
            assert words in doctor[name].message and doctor[name].level == "wrong", doctor[name]
            assert "calls of its tools fail" in (doctor[name].remedy or "")
        compiled = compile(read_folder(tmp_path), kind_catalog())
        assert isinstance(compiled, Compiled)
        checked = {it.name: it for it in await try_connections(compiled.workspace, settings, {})}
        for name, words in expected.items():
            assert words in checked[name].message and not checked[name].ok, checked[name]
