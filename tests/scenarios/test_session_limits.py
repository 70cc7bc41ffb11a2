"""`networkAccess`, `filesystemSandbox`, `cwd`, approval policy and settings of a session, for tools of every kind."""

import socket
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from tests.clients import create_session, reached, say
from tests.server import ServerProcess

pytestmark = [
    pytest.mark.requirement("S17"),
    pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's"),
]

PROBE = """#!{python} -IS
import json, os, socket
found = {{}}
for name in ("out/a.txt", "out/proj/b.txt"):
    try:
        os.makedirs(os.path.dirname(os.environ["FILES"] + "/" + name), exist_ok=True)
        open(os.environ["FILES"] + "/" + name, "w").close()
        found[name] = "written"
    except OSError as error:
        found[name] = type(error).__name__
try:
    socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), 2).close()
    found["network"] = "reached"
except OSError as error:
    found["network"] = type(error).__name__
print(json.dumps(found))
"""
DOCUMENTS = """apiVersion: holdfast/v1
kind: Runtime
metadata: {{name: limits, description: Tools of every kind.}}
spec: {{defaultAgent: echo}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {{name: echo, description: Says it again.}}
spec: {{backend: echo}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {{name: probe, description: Tries what it can reach.}}
spec:
  kind: subprocess
  effect: unsafe
  input: {{type: object, properties: {{}}}}
  subprocess:
    command: [./probe.py]
    env: {{FILES: "{files}", PORT: "{port}"}}
    writable: [out]
    network: true
---
apiVersion: holdfast/v1
kind: Tool
metadata: {{name: ask_web, description: Asks a server.}}
spec:
  kind: http
  effect: readonly
  input: {{type: object, properties: {{}}}}
  timeoutSeconds: 2
  http: {{method: GET, url: "http://127.0.0.1:{port}/x"}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {{name: read_file, description: Reads a file.}}
spec: {{kind: builtin, effect: readonly}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {{name: write_file, description: Writes a file.}}
spec: {{kind: builtin, effect: unsafe}}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("limits")
    workspace = folder / "workspace"
    workspace.mkdir()
    program = workspace / "probe.py"
    program.write_text(PROBE.format(python=sys.executable))
    program.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as listening:  # connects whoever may, and says nothing
        yield from _served(folder, workspace, listening.getsockname()[1])


def _served(folder: Path, workspace: Path, port: int) -> Iterator[ServerProcess]:
    text = DOCUMENTS.format(files=folder / "data" / "files", port=port)
    (workspace / "holdfast.yaml").write_text(text)
    started = ServerProcess.start(folder / "data", None, workspace)
    try:
        yield started
    finally:
        started.stop()


@pytest_asyncio.fixture
async def limited(place: ServerProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=place.url, timeout=60, verify=False) as client:
        yield client


async def _invoke(client: httpx2.AsyncClient, session: str, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.post(f"/api/tools/{tool}/invoke", json={"arguments": arguments, "threadId": session})
    assert answer.status_code in (200, 202), answer.text
    run: dict[str, Any] = answer.json()
    return run


def _write(path: str) -> dict[str, Any]:
    claim = {"who": "test", "why": "limits", "expected_hash": "", "schema_version": "v1"}
    return {"path": path, "content": "x", "claim": claim}


async def test_a_restricted_network_denies_http_tools_and_gives_programs_none(limited: httpx2.AsyncClient) -> None:
    session = await create_session(limited, networkAccess="restricted")
    denied = await _invoke(limited, session, "ask_web")
    assert denied["error"]["code"] == "SESSION_CONTROL_DENIED"
    assert (await _invoke(limited, session, "probe"))["output"]["network"] != "reached"
    free = await create_session(limited, networkAccess="enabled")
    assert (await _invoke(limited, free, "probe"))["output"]["network"] == "reached"
    reached = await _invoke(limited, free, "ask_web")  # the server there says nothing that is HTTP
    assert reached["error"]["code"] != "SESSION_CONTROL_DENIED"


async def test_a_read_only_session_writes_no_file_and_reads_on(limited: httpx2.AsyncClient) -> None:
    free = await create_session(limited, filesystemSandbox="danger-full-access")
    assert (await _invoke(limited, free, "write_file", **_write("kept.txt")))["status"] == "completed"
    outside = await _invoke(limited, free, "write_file", **_write("../escaped.txt"))
    assert outside["status"] == "failed"  # no control widens what the workspace allows
    session = await create_session(limited, filesystemSandbox="read-only")
    denied = await _invoke(limited, session, "write_file", **_write("other.txt"))
    assert denied["error"]["code"] == "SESSION_CONTROL_DENIED"
    assert (await _invoke(limited, session, "read_file", path="kept.txt"))["output"]["content"] == "x"
    found = (await _invoke(limited, session, "probe"))["output"]
    assert "written" not in (found["out/a.txt"], found["out/proj/b.txt"])


async def test_the_folder_of_a_session_bounds_its_files(limited: httpx2.AsyncClient) -> None:
    session = await create_session(limited, cwd="/out/proj")
    for path in ("elsewhere.txt", "out/other.txt", "out/projects.txt"):
        denied = await _invoke(limited, session, "write_file", **_write(path))
        assert denied["error"]["code"] == "SESSION_CONTROL_DENIED", path
    assert (await _invoke(limited, session, "write_file", **_write("out/proj/in.txt")))["status"] == "completed"
    found = (await _invoke(limited, session, "probe"))["output"]
    assert (found["out/proj/b.txt"], found["out/a.txt"] != "written") == ("written", True)
    nowhere = await create_session(limited, cwd="../..")
    assert (await _invoke(limited, nowhere, "read_file", path="kept.txt"))["error"]["code"] == "SESSION_CONTROL_DENIED"


async def test_a_tool_that_is_called_directly_obeys_the_approval_policy(limited: httpx2.AsyncClient) -> None:
    careful = await create_session(limited, approvalPolicy="untrusted")
    waiting = await _invoke(limited, careful, "write_file", **_write("asked.txt"))
    assert waiting["status"] == "waiting"
    [asked] = (await limited.get(f"/api/sessions/{careful}/approvals")).json()["data"]
    assert asked["method"] == "item/fileChange/requestApproval"
    accept = {"decision": "accept", "scope": "session"}
    assert (await limited.post(f"/api/approvals/{asked['approvalId']}/decision", json=accept)).status_code == 200
    # The same call is approved for the session, and the log names the approval that it goes by.
    again = await _invoke(limited, careful, "write_file", **_write("asked.txt"))
    assert again["status"] == "failed" and again["error"]["code"] == "WRITE_CONFLICT"  # it ran: the file is there
    events = (await limited.get(f"/api/runs/{again['id']}/events", params={"type": "runtime.tool.invoked"})).json()
    assert events["items"][0]["payload"]["approvalId"] == asked["approvalId"]
    other = await _invoke(limited, careful, "write_file", **_write("another.txt"))
    assert other["status"] == "waiting"
    nobody = await create_session(limited, approvalPolicy="never")
    assert (await _invoke(limited, nobody, "read_file", path="kept.txt"))["status"] in ("completed", "failed")


async def test_no_link_leads_out_of_the_folder_of_a_session(limited: httpx2.AsyncClient, place: ServerProcess) -> None:
    free = await create_session(limited)
    await _invoke(limited, free, "write_file", **_write("secret/outside.txt"))
    await _invoke(limited, free, "write_file", **_write("room/inside.txt"))
    (inside,) = place.data_dir.rglob("room/inside.txt")
    (inside.parent / "link").symlink_to("../secret")
    (inside.parent / "file").symlink_to("../secret/outside.txt")
    session = await create_session(limited, cwd="room")
    assert (await _invoke(limited, session, "read_file", path="room/inside.txt"))["status"] == "completed"
    for path in ("room/link/outside.txt", "room/file"):
        assert (await _invoke(limited, free, "read_file", path=path))["status"] == "completed"
        assert (await _invoke(limited, session, "read_file", path=path))["status"] == "failed", path
    written = await _invoke(limited, session, "write_file", **_write("room/link/planted.txt"))
    assert written["status"] == "failed" and not list(place.data_dir.rglob("planted.txt"))


@pytest.mark.parametrize("cwd", ["**", "*", "o*", "?ut", "[o]ut", "../out", "out/../..", "/etc", "..\\out"])
async def test_the_folder_of_a_session_is_a_name_and_no_pattern(limited: httpx2.AsyncClient, cwd: str) -> None:
    session = await create_session(limited, cwd=cwd)
    for path in ("out/kept.txt", "kept.txt"):
        refused = await _invoke(limited, session, "write_file", **_write(path))
        assert refused["error"]["code"] == "SESSION_CONTROL_DENIED", path


async def test_a_job_that_works_for_a_session_reaches_no_more_than_the_session(limited: httpx2.AsyncClient) -> None:
    session = await create_session(limited, cwd="room", networkAccess="enabled", filesystemSandbox="workspace-write")
    await reached(limited, await say(limited, session, "hello"))
    queued = (await limited.post(f"/api/sessions/{session}/suggested-request/jobs", json={})).json()
    await reached(limited, queued["jobId"])
    events = await limited.get(f"/api/runs/{queued['jobId']}/events", params={"type": "runtime.request.queued"})
    assert events.json()["items"][0]["payload"]["sessionLimits"] == {
        "cwd": "room", "networkAccess": "restricted", "filesystemSandbox": "read-only",
    }  # fmt: skip


async def test_what_a_message_narrows_holds_for_its_turn_and_later_calls(limited: httpx2.AsyncClient) -> None:
    session = await create_session(limited)
    turn = await say(limited, session, "hello", networkAccess="restricted", filesystemSandbox="read-only")
    await reached(limited, turn)
    events = await limited.get(f"/api/runs/{turn}/events", params={"type": "runtime.request.queued"})
    limits = {"networkAccess": "restricted", "filesystemSandbox": "read-only"}
    assert events.json()["items"][0]["payload"]["sessionLimits"] == limits
    for tool, arguments in (("ask_web", {}), ("write_file", _write("narrowed.txt"))):
        assert (await _invoke(limited, session, tool, **arguments))["error"]["code"] == "SESSION_CONTROL_DENIED"


async def _set(client: httpx2.AsyncClient, session: str, **settings: Any) -> httpx2.Response:
    return await client.post(f"/api/sessions/{session}/settings", json={"scope": "session", "settings": settings})


async def test_the_settings_of_a_session_say_which_tools_may_be_called(limited: httpx2.AsyncClient) -> None:
    session = await create_session(limited)
    assert (await _set(limited, session, allowedTools=["read_*", "write_file"], deniedTools=["write_*"])).is_success
    for tool, arguments in (("probe", {}), ("ask_web", {}), ("write_file", _write("denied.txt"))):
        refused = await _invoke(limited, session, tool, **arguments)
        assert refused["error"]["code"] == "SESSION_CONTROL_DENIED", tool
    read = await _invoke(limited, session, "read_file", path="nowhere.txt")
    assert read["error"]["code"] != "SESSION_CONTROL_DENIED"
    # A null takes the limit away, and so does the setting's removal; what is denied stays denied.
    assert (await _set(limited, session, allowedTools=None)).is_success
    assert (await _invoke(limited, session, "probe"))["status"] == "completed"
    assert (await limited.delete(f"/api/sessions/{session}/settings/deniedTools")).is_success
    assert (await _invoke(limited, session, "write_file", **_write("allowed.txt")))["status"] == "completed"
    # No list of names is longer than nothing: none may be called.
    assert (await _set(limited, session, allowedTools=[])).is_success
    refused = await _invoke(limited, session, "read_file", path="allowed.txt")
    assert refused["error"]["code"] == "SESSION_CONTROL_DENIED"


async def test_calls_of_the_tools_that_a_setting_names_need_approval(limited: httpx2.AsyncClient) -> None:
    session = await create_session(limited)
    assert (await _set(limited, session, approvalTools=["read_file"])).is_success
    run = await _invoke(limited, session, "read_file", path="nowhere.txt")
    await reached(limited, run["id"], "waiting")
    (asked,) = (await limited.get(f"/api/sessions/{session}/approvals")).json()["data"]
    answer = await limited.post(f"/api/approvals/{asked['approvalId']}/decision", json={"decision": "decline"})
    assert answer.json()["status"] == "ok"
    assert (await reached(limited, run["id"]))["error"]["code"] == "APPROVAL_DENIED"
    await limited.post(f"/api/sessions/{session}/approval-policy", json={"approvalPolicy": "never"})
    denied = await _invoke(limited, session, "read_file", path="nowhere.txt")
    assert denied["error"]["code"] == "APPROVAL_DENIED"


@pytest.mark.parametrize("name", ["allowedTools", "deniedTools", "approvalTools"])
async def test_a_setting_about_tools_that_is_no_list_of_names_is_refused_or_allows_nothing(
    limited: httpx2.AsyncClient, name: str
) -> None:
    session = await create_session(limited, approvalPolicy="never")
    path = f"/api/sessions/{session}/settings"
    wrong: tuple[Any, ...] = ("read_file", 1, {}, [1], [""], ["x" * 201], ["x"] * 129, True)
    for value in wrong:
        for body in ({"key": name, "value": value}, {"settings": {name: value}}):
            refused = await limited.post(path, json={"scope": "session", **body})
            assert (refused.status_code, refused.json()["code"]) == (400, "invalid_request"), value
            assert name in refused.text
    begun = await limited.post("/api/sessions", json={"settings": {name: "read_file"}})
    assert (begun.status_code, begun.json()["code"]) == (400, "invalid_request")
    assert (await limited.get(path)).json()["settings"] == {}
    # Past that check, through the thread's metadata, nothing is opened by it.
    forged = await limited.patch(f"/api/threads/{session}", json={"metadata": {f"session.settings.{name}": "all"}})
    assert forged.is_success, forged.text
    denied = await _invoke(limited, session, "read_file", path="nowhere.txt")
    assert denied["error"]["code"] in ("SESSION_CONTROL_DENIED", "APPROVAL_DENIED")


async def test_what_the_settings_of_a_session_deny_its_jobs_and_turns_may_not_either(
    limited: httpx2.AsyncClient,
) -> None:
    session = await create_session(limited, settings={"deniedTools": ["probe"]})
    turn = await say(limited, session, "hello")
    await reached(limited, turn)
    queued = (await limited.post(f"/api/sessions/{session}/suggested-request/jobs", json={})).json()
    await reached(limited, queued["jobId"])
    for run, more in ((turn, {}), (queued["jobId"], {"networkAccess": "restricted", "filesystemSandbox": "read-only"})):
        events = await limited.get(f"/api/runs/{run}/events", params={"type": "runtime.request.queued"})
        assert events.json()["items"][0]["payload"]["sessionLimits"] == {"deniedTools": ["probe"], **more}
