"""`holdfast run`, `chat`, `runs`, `approvals`: with the server that runs, and with one for the command alone."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner

from app.cli.application import app
from app.core import json
from tests.cli.conftest import Holdfast
from tests.server import ROOT, ServerProcess, clean_environment


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    server = ServerProcess.start(tmp_path_factory.mktemp("talking") / "data")
    yield server
    server.stop()


@pytest.fixture
def here(server: ServerProcess) -> list[str]:
    return ["--data-dir", str(server.data_dir)]


@pytest.mark.smoke
@pytest.mark.requirement("SH-23")
def test_run_prints_the_answer_alone_on_standard_output(holdfast: Holdfast, here: list[str]) -> None:
    result = holdfast("run", "assistant", "please calculate this", *here)
    assert (result.exit_code, result.stdout) == (0, 'That makes {"value":42}.\n')


@pytest.mark.requirement("SH-23")
def test_run_shows_tool_calls_and_their_results_on_standard_error(holdfast: Holdfast, here: list[str]) -> None:
    printed = holdfast("run", "assistant", "please calculate this", *here).stderr.splitlines()
    assert [line for line in printed if not line.startswith("  · ")] == [
        '  ⚒ calculator {"expression":"6 * 7"}',
        '  ✓ calculator {"value":42}',
    ]


@pytest.mark.requirement("SH-16")
def test_run_shows_narration_unless_other_events_are_asked_for(holdfast: Holdfast, here: list[str]) -> None:
    printed = holdfast("run", "assistant", "please calculate this", *here).stderr.splitlines()
    other = holdfast("run", "assistant", "please calculate this", "--events", "none", *here).stderr.splitlines()
    assert ("  · Using calculator." in printed, "  · Using calculator." in other) == (True, False)


def test_run_says_nothing_but_the_answer_when_quiet(holdfast: Holdfast, here: list[str]) -> None:
    result = holdfast("run", "assistant", "please calculate this", "--quiet", *here)
    assert result.output == 'That makes {"value":42}.\n'


def test_run_as_json_is_the_run_that_the_server_has(holdfast: Holdfast, here: list[str]) -> None:
    run = json.loads(holdfast("run", "echo", "one two", "--json", *here).stdout)
    shown = json.loads(holdfast("runs", "show", run["id"], "--json", *here).stdout)
    assert (run["status"], run["output"]) == ("completed", "one two")
    assert shown == run


def test_run_takes_its_text_from_standard_input_and_goes_on_with_a_thread(here: list[str]) -> None:
    runner = CliRunner()
    first = json.loads(runner.invoke(app, ["run", "echo", "-", "--json", *here], input="from a pipe").stdout)
    again = json.loads(runner.invoke(app, ["run", "echo", "x", "--thread", first["threadId"], "--json", *here]).stdout)
    assert (first["output"], again["threadId"]) == ("from a pipe", first["threadId"])


def test_a_run_that_fails_says_why_and_ends_with_one(holdfast: Holdfast, here: list[str]) -> None:
    result = holdfast("run", "assistant", "fail please", *here)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "✗ " in result.stderr.splitlines()[-1]


def test_what_the_server_refuses_is_a_line_with_its_remedy(holdfast: Holdfast, here: list[str]) -> None:
    result = holdfast("run", "nobody", "hello", *here)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("AGENT_NOT_FOUND: ") and len(result.stderr.splitlines()) == 2


def test_a_denied_publication_is_not_called_published(holdfast: Holdfast, here: list[str]) -> None:
    printed = holdfast("run", "assistant", "publish it", "--approve", "never", *here).stdout
    assert printed.startswith("It was not published: ") and "denied" in printed.lower()


def test_agents_are_listed(holdfast: Holdfast, here: list[str]) -> None:
    assert set(holdfast("agents", "--quiet", *here).stdout.split()) >= {"assistant", "echo", "researcher"}


def test_a_run_is_run_again(holdfast: Holdfast, here: list[str]) -> None:
    first = json.loads(holdfast("run", "echo", "one two", "--json", *here).stdout)
    again = holdfast("runs", "rerun", first["id"], *here)
    assert (again.exit_code, again.stdout) == (0, "one two\n")
    rerun = json.loads(holdfast("runs", "rerun", first["id"], "--json", "--recorded", *here).stdout)
    assert rerun["rerunOf"] == first["id"] and rerun["threadId"] != first["threadId"]


def test_a_run_is_paused_steered_and_resumed(holdfast: Holdfast, server: ServerProcess, here: list[str]) -> None:
    """Commands take effect at the run's next step; this one waits for an approval before it."""
    answer = httpx2.post(f"{server.url}/api/runs?wait=10", json={"agent": "assistant", "input": "publish it"})
    run = answer.json()
    for words in (("pause",), ("resume",), ("steer", "and be quick")):
        done = holdfast("runs", words[0], run["id"], *words[1:], *here)
        assert done.exit_code == 0 and done.stdout.startswith(run["id"]), done.output
    events = httpx2.get(f"{server.url}/api/runs/{run['id']}/events?limit=200").json()["items"]
    injected = [event["payload"] for event in events if event["type"] == "runtime.command.injected"]
    assert [one["command"] for one in injected] == ["pause", "resume", "steer"]
    assert injected[2]["arguments"] == {"message": "and be quick"}
    assert holdfast("runs", "cancel", run["id"], *here).exit_code == 0


def test_log_and_audit_take_the_address_of_a_server(holdfast: Holdfast, server: ServerProcess, here: list[str]) -> None:
    run = json.loads(holdfast("run", "echo", "hello", "--json", *here).stdout)
    verified = holdfast("log", "verify", run["threadId"], "--url", server.url)
    assert verified.exit_code == 0 and "chain intact" in verified.stdout
    assert "runtime.request.completed" in holdfast("log", "tail", run["threadId"], "--url", server.url).stdout
    audited = holdfast("audit", run["threadId"], "--url", server.url)
    assert audited.exit_code == 0 and "complete" in audited.stdout


def test_the_first_page_says_what_it_is_and_the_banner_what_there_is(server: ServerProcess) -> None:
    first_page = httpx2.get(server.url).json()
    assert first_page["name"] == "Holdfast" and first_page["links"]["docs"] == "/docs"
    page = httpx2.get(server.url, headers={"accept": "text/html"}, follow_redirects=True)
    assert page.headers["content-type"].startswith("text/html") and page.url.path == "/console/"


@pytest.mark.requirement("SH-16")
def test_the_events_that_patterns_name_are_shown_as_well(holdfast: Holdfast, here: list[str]) -> None:
    plain = holdfast("run", "echo", "hello", *here)
    more = holdfast("run", "echo", "hello", "--events", "runtime.request.*", "--events", "agent.handoff", *here)
    assert plain.stderr == ""
    kinds = [line.split()[1] for line in more.stderr.splitlines()]
    assert kinds == [
        "runtime.request.queued",
        "runtime.request.started",
        "runtime.adapter.event",
        "runtime.request.completed",
    ]


@pytest.mark.requirement("SH-16")
def test_the_workspace_says_which_events_are_shown(tmp_path: Path, holdfast: Holdfast) -> None:
    assert holdfast("new", tmp_path / "space").exit_code == 0
    runtime = tmp_path / "space" / "runtime.yaml"
    runtime.write_text(runtime.read_text() + "  cli: {events: {include: [runtime.request.completed]}}\n")
    result = holdfast("run", "echo", "hi", "--data-dir", tmp_path / "data", "--workspace", tmp_path / "space")
    assert (result.stdout, [line.split()[1] for line in result.stderr.splitlines()]) == (
        "hi\n",
        ["runtime.request.completed"],
    )


@pytest.mark.requirement("SH-23")
def test_a_run_that_needs_approval_waits_when_nobody_can_be_asked(holdfast: Holdfast, here: list[str]) -> None:
    waiting = holdfast("run", "assistant", "publish it", *here)
    assert waiting.exit_code == 3
    listed = json.loads(holdfast("approvals", "list", "--json", *here).stdout)
    assert [one["id"] for one in listed if one["id"] in waiting.stderr] != []
    decided = holdfast("approvals", "decide", listed[0]["id"], "approve", *here)
    assert decided.stdout == f"{listed[0]['id']} is answered; {listed[0]['runId']} continues\n"
    watched = holdfast("runs", "watch", listed[0]["runId"], *here)
    assert (watched.exit_code, watched.stdout) == (0, "It has been published.\n")
    again = holdfast("approvals", "decide", listed[0]["id"], "deny", *here)
    assert (again.exit_code, again.stderr.startswith("INTERRUPT_NOT_OPEN: ")) == (1, True)


@pytest.mark.parametrize(("approve", "answer"), [("always", "It has been published.\n"), ("never", None)])
def test_approvals_can_be_decided_beforehand(
    holdfast: Holdfast, here: list[str], approve: str, answer: str | None
) -> None:
    result = holdfast("run", "assistant", "publish it", "--approve", approve, *here)
    assert result.exit_code == 0
    assert answer is None or result.stdout == answer
    assert f'answered by user:local: {{"decision":"{"approve" if approve == "always" else "deny"}"}}' in result.stderr


def test_watch_as_json_is_every_event_of_the_run_a_line(holdfast: Holdfast, here: list[str]) -> None:
    run = json.loads(holdfast("run", "echo", "a b c", "--json", *here).stdout)
    events = [json.loads(line) for line in holdfast("runs", "watch", run["id"], "--json", *here).stdout.splitlines()]
    assert events[0]["type"] == "runtime.request.queued" and events[-1]["type"] == "runtime.request.completed"
    assert {event["runId"] for event in events} == {run["id"]}


def test_a_run_that_has_ended_cannot_be_cancelled(holdfast: Holdfast, here: list[str]) -> None:
    run = json.loads(holdfast("run", "echo", "done", "--json", *here).stdout)
    result = holdfast("runs", "cancel", run["id"], "--json", *here)
    assert (result.exit_code, json.loads(result.stdout)["status"]) == (0, "completed") or result.exit_code == 1


def test_chat_keeps_one_thread(here: list[str]) -> None:
    result = CliRunner().invoke(app, ["chat", "echo", *here], input="one\n\ntwo\n")
    assert (result.exit_code, result.stdout) == (0, "one\ntwo\n")
    thread = result.stderr.rsplit("--thread ", 1)[1].strip()
    threads = CliRunner().invoke(app, ["threads", "list", "--quiet", *here]).stdout.split()
    assert thread in threads


def test_a_server_is_found_by_its_address(holdfast: Holdfast, server: ServerProcess, tmp_path: Path) -> None:
    result = holdfast("run", "echo", "hi", "--url", server.url, "--json")
    with httpx2.Client(base_url=server.url) as client:
        assert client.get(f"/api/runs/{json.loads(result.stdout)['id']}").status_code == 200
    nobody = holdfast("run", "echo", "hi", "--url", "http://127.0.0.1:9")
    assert (nobody.exit_code, nobody.stderr.startswith("NOT_READY: The server at http://127.0.0.1:9 does not")) == (
        1,
        True,
    )


@pytest.mark.requirement("SH-23")
def test_without_a_server_a_command_starts_one_and_what_it_did_is_stored(tmp_path: Path, holdfast: Holdfast) -> None:
    place = ["--data-dir", tmp_path / "data"]
    waiting = json.loads(holdfast("run", "assistant", "publish it", "--json", *place).stdout)
    decided = holdfast("approvals", "decide", waiting["waitingOn"][0], "approve", *place)
    assert (decided.exit_code, decided.stdout.splitlines()[-1]) == (0, "It has been published.")
    assert json.loads(holdfast("runs", "show", waiting["id"], "--json", *place).stdout)["status"] == "completed"
    assert holdfast("log", "verify", *place).exit_code == 0


# -- at a terminal ---------------------------------------------------------------------------------------


class Terminal:
    """The command with a terminal of its own: what it prints can be waited for, and answered."""

    def __init__(self, *arguments: str) -> None:
        self._master, slave = pty.openpty()
        self._output = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "app.main", *arguments], stdin=slave, stdout=slave, stderr=slave,
            env=clean_environment() | {"TERM": "xterm"}, cwd=ROOT, start_new_session=True,
        )  # fmt: skip
        os.close(slave)

    def until(self, text: str, seconds: float = 60) -> str:
        ends = time.monotonic() + seconds
        while text not in self._output:
            assert time.monotonic() < ends, f"no {text!r} in:\n{self._output}"
            if select.select([self._master], [], [], 0.2)[0]:
                try:
                    self._output += os.read(self._master, 65536).decode()
                except OSError:  # the other side is closed
                    assert text in self._output, self._output
        return self._output

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def end(self) -> int:
        code = self.process.wait(60)
        os.close(self._master)
        return code


@pytest.mark.requirement("SH-23")
def test_an_approval_is_asked_for_on_the_terminal(here: list[str]) -> None:
    terminal = Terminal("run", "assistant", "publish it", *here)
    assert '"title":"News"' in terminal.until("approve? ")
    terminal.type("y\n")
    terminal.until("It has been published.")
    assert terminal.end() == 0


def test_a_reason_typed_instead_of_yes_denies_and_reaches_the_agent(holdfast: Holdfast, here: list[str]) -> None:
    terminal = Terminal("run", "assistant", "publish it", *here)
    terminal.until("approve? ")
    terminal.type("not on a Friday\n")
    terminal.until('"reason":"not on a Friday"')
    assert terminal.end() == 0


@pytest.mark.requirement("SH-23")
def test_an_approval_given_elsewhere_ends_the_prompt_and_the_run_goes_on(holdfast: Holdfast, here: list[str]) -> None:
    terminal = Terminal("run", "assistant", "publish it", *here)
    terminal.until("approve? ")
    open_ones = json.loads(holdfast("approvals", "list", "--json", *here).stdout)
    newest = max(open_ones, key=lambda one: str(one["createdAt"]))
    assert holdfast("approvals", "decide", newest["id"], "approve", *here).exit_code == 0
    terminal.until("It has been published.")
    assert terminal.end() == 0


def test_a_cancel_elsewhere_ends_the_prompt(holdfast: Holdfast, here: list[str]) -> None:
    terminal = Terminal("run", "assistant", "publish it", *here)
    terminal.until("approve? ")
    waiting = json.loads(holdfast("runs", "list", "--status", "waiting", "--json", *here).stdout)
    newest = max(waiting, key=lambda one: str(one["createdAt"]))
    assert holdfast("runs", "cancel", newest["id"], *here).exit_code == 0
    terminal.until("cancelled")
    assert terminal.end() == 1


@pytest.mark.requirement("G8")
def test_ctrl_c_cancels_the_run(tmp_path: Path) -> None:
    """The model stops after its first words, so the run does not end by itself before it is cancelled."""
    shutil.copytree(ROOT / "workspaces" / "demo", tmp_path / "space")
    model = tmp_path / "space" / "models" / "demo.yaml"
    rule = "      - match: {contains: slowly please}\n"
    text = model.read_text()
    assert rule in text
    model.write_text(text.replace(rule, rule + "        fail: {kind: timeout, afterChunks: 1}\n"))
    server = ServerProcess.start(tmp_path / "data", workspace=tmp_path / "space")
    try:
        terminal = Terminal("run", "assistant", "slowly please", "--data-dir", str(server.data_dir))
        terminal.until("One, ")
        terminal.process.send_signal(signal.SIGINT)
        terminal.until("cancelled")
        assert terminal.end() == 1
    finally:
        server.stop()


# -- lists and what is done to one thing -------------------------------------------------------------------


def test_runs_are_listed_newest_first_and_by_what_is_asked_for(holdfast: Holdfast, here: list[str]) -> None:
    older = json.loads(holdfast("run", "echo", "older", "--json", *here).stdout)["id"]
    newer = json.loads(holdfast("run", "echo", "newer", "--json", *here).stdout)["id"]
    result = holdfast("runs", "list", "--agent", "echo", "--limit", "2", "--quiet", *here)
    assert result.stdout.split() == [newer, older]
    table = holdfast("runs", "list", "--status", "completed", "--limit", "1", *here).stdout.splitlines()
    assert table[0].split() == ["run", "status", "agent", "thread", "created", "tokens"] and len(table) == 2


@pytest.mark.requirement("SH-23")
def test_a_tool_is_called_through_the_same_gate_as_by_an_agent(holdfast: Holdfast, here: list[str]) -> None:
    listed = holdfast("tools", "list", "--quiet", *here).stdout.split()
    called = holdfast("tools", "call", "calculator", "expression=6*7", "--quiet", *here)
    wrong = holdfast("tools", "call", "calculator", '{"expression": {}}', *here)
    waits = holdfast("tools", "call", "publish", "title=News", "text=hello", *here)
    assert "calculator" in listed
    assert (called.exit_code, json.loads(called.stdout)) == (0, {"value": 42})
    assert (wrong.exit_code, wrong.stdout) == (1, "")
    assert waits.exit_code == 3


def test_arguments_that_are_neither_json_nor_pairs_are_wrong_usage(holdfast: Holdfast, here: list[str]) -> None:
    assert holdfast("tools", "call", "calculator", "6*7", *here).exit_code == 2
    assert holdfast("tools", "call", "calculator", "{6", *here).exit_code == 2


def test_a_thread_is_shown_forked_and_deleted(holdfast: Holdfast, here: list[str]) -> None:
    thread = json.loads(holdfast("run", "echo", "keep this", "--json", *here).stdout)["threadId"]
    forked = holdfast("threads", "fork", thread, *here).stdout.strip()
    assert json.loads(holdfast("threads", "show", forked, "--json", *here).stdout)["forkedFrom"] is not None
    kept = CliRunner().invoke(app, ["threads", "delete", thread, *here], input="n\n")
    assert (kept.exit_code, holdfast("threads", "show", thread, "--quiet", *here).stdout) == (1, "idle\n")
    assert holdfast("threads", "delete", thread, "--yes", "--quiet", *here).stdout == f"{thread}\n"
    gone = holdfast("threads", "show", thread, *here)
    assert (gone.exit_code, gone.stderr.startswith("THREAD_DELETED: ")) == (1, True)
