"""`holdfast log` on a database that no server holds: export, import, verify, replay, tail."""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from app.core import json
from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.views.artifact import artifact_json
from app.views.interrupt import interrupt_json
from app.views.run import run_json
from app.views.thread import Thread, thread_json
from app.views.transcript import entry_json
from app.wiring.store import open_store
from tests.cli.conftest import RUN, SMALL, THREAD, Holdfast


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


@pytest.mark.smoke
@pytest.mark.requirement("OS-L4", "HK-36", "G19")
def test_an_export_holds_every_event_the_blobs_and_last_the_head(
    holdfast: Holdfast, place: list[str], tmp_path: Path
) -> None:
    result = holdfast("log", "export", THREAD, "-o", tmp_path / "out.jsonl", *place)
    assert (result.exit_code, result.output) == (0, "")
    *lines, last = map(json.loads, _lines(tmp_path / "out.jsonl"))
    events = [line for line in lines if "seq" in line]
    assert [event["seq"] for event in events] == list(range(1, 12))
    assert [line["blob"]["mime"] for line in lines if "blob" in line] == ["text/plain; charset=utf-8"]
    assert last == {"head": {"threadId": THREAD, "seq": 11, "hash": events[-1]["hash"]}}
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []


def test_an_export_without_a_file_goes_to_standard_output(holdfast: Holdfast, data_dir: Path, tmp_path: Path) -> None:
    holdfast("log", "export", THREAD, "-o", tmp_path / "out.jsonl", "--data-dir", data_dir)
    result = holdfast("log", "export", THREAD, "--data-dir", data_dir)
    assert result.stdout_bytes == (tmp_path / "out.jsonl").read_bytes()


@pytest.mark.requirement("OS-L4", "G19", "G22")
def test_an_export_imported_elsewhere_has_the_same_head_and_the_same_replay(
    holdfast: Holdfast, place: list[str], tmp_path: Path
) -> None:
    elsewhere = ["--data-dir", tmp_path / "elsewhere"]
    holdfast("log", "export", THREAD, "-o", tmp_path / "out.jsonl", *place)
    imported = holdfast("log", "import", tmp_path / "out.jsonl", *elsewhere)
    assert (imported.exit_code, imported.output.startswith("imported 11 events, head ")) == (0, True)
    for command in ("verify", "replay", "export"):
        assert (
            holdfast("log", command, THREAD, *place).stdout_bytes
            == holdfast("log", command, THREAD, *elsewhere).stdout_bytes
        )
    again = holdfast("log", "import", tmp_path / "out.jsonl", *elsewhere)
    assert (again.exit_code, again.stderr.startswith("THREAD_EXISTS: ")) == (1, True)


@pytest.mark.smoke
@pytest.mark.requirement("G19", "HK-36")
def test_verify_goes_through_every_thread_and_names_their_heads(holdfast: Holdfast, place: list[str]) -> None:
    result = holdfast("log", "verify", *place)
    assert result.exit_code == 0
    first, second = result.stdout.splitlines()
    assert first.startswith(f"{THREAD}: 11 events, chain intact, head 11:")
    assert second.startswith(f"{SMALL}: 1 events, chain intact, head 1:")


def _change(sql: str) -> Callable[[Path], None]:
    def tamper(folder: Path) -> None:
        with sqlite3.connect(folder / "holdfast.db") as database:
            assert database.execute(sql).rowcount > 0
        database.close()

    return tamper


@pytest.mark.requirement("G19", "HK-36")
@pytest.mark.parametrize(
    ("tamper", "seq", "reason"),
    [
        ("UPDATE events SET payload = replace(payload, 'how', 'now') WHERE seq = 2", 2, "does not give its hash"),
        ("UPDATE events SET payload = CAST(replace(payload, '{', '[') AS BLOB) WHERE seq = 5", 5, "not a line"),
        ("UPDATE events SET payload = X'7BFF7D' WHERE seq = 4", 4, "not a line"),
        ("UPDATE events SET payload = CAST(payload || ' ' AS BLOB) WHERE seq = 6", 6, "canonical"),
        ("UPDATE events SET actor = 'user:other' WHERE seq = 2", 2, "does not give its hash"),
        ("UPDATE events SET at = at + 1 WHERE seq = 3", 3, "does not give its hash"),
        ("UPDATE events SET type = 'runtime.request.failed' WHERE seq = 11", 11, "does not give its hash"),
        ("UPDATE events SET hash = zeroblob(32) WHERE seq = 7", 7, "does not give its hash"),
        ("UPDATE events SET prev_hash = zeroblob(32) WHERE seq = 7", 7, "not the hash of the event before"),
        ("DELETE FROM events WHERE seq = 4", 4, "expected seq 4, found 5"),
        ("DELETE FROM events WHERE seq > 9", 10, "the log ends at 9, but it once reached 11"),
        ("UPDATE events SET seq = seq + 100 WHERE seq = 11", 11, "expected seq 11, found 111"),
    ],
)
def test_verify_names_the_first_bad_seq_of_a_tampered_database_and_why(
    holdfast: Holdfast, data_dir: Path, tamper: str, seq: int, reason: str
) -> None:
    _change(f"{tamper} AND thread_key = (SELECT key FROM threads WHERE id = '{THREAD}')")(data_dir)
    result = holdfast("log", "verify", "--data-dir", data_dir)
    first, second = result.stdout.splitlines()
    assert result.exit_code == 1
    assert first.startswith(f"{THREAD}: CHAIN_BROKEN at seq {seq}: ")
    assert reason in first
    assert second.startswith(f"{SMALL}: 1 events, chain intact")  # the others are still looked at


@pytest.mark.requirement("G19")
def test_two_swapped_events_are_found(holdfast: Holdfast, data_dir: Path) -> None:
    for sql in ("SET seq = 99 WHERE seq = 5", "SET seq = 5 WHERE seq = 6", "SET seq = 6 WHERE seq = 99"):
        _change(f"UPDATE events {sql} AND thread_key = (SELECT key FROM threads WHERE id = '{THREAD}')")(data_dir)
    result = holdfast("log", "verify", THREAD, "--data-dir", data_dir)
    assert (result.exit_code, "CHAIN_BROKEN at seq 5" in result.stdout) == (1, True)


@pytest.mark.requirement("G19")
def test_a_chain_that_was_cut_off_in_every_table_is_found_against_an_earlier_head(
    holdfast: Holdfast, data_dir: Path
) -> None:
    head = holdfast("log", "verify", THREAD, "--data-dir", data_dir).stdout.rsplit(" ", 1)[1].strip()
    mine = f"(SELECT key FROM threads WHERE id = '{THREAD}')"
    _change(f"DELETE FROM events WHERE seq > 8 AND thread_key = {mine}")(data_dir)
    _change(
        f"UPDATE threads SET last_seq = 8, head_hash = (SELECT hash FROM events WHERE seq = 8 AND thread_key = {mine}) "
        f"WHERE id = '{THREAD}'"
    )(data_dir)
    unaware = holdfast("log", "verify", THREAD, "--data-dir", data_dir)
    aware = holdfast("log", "verify", THREAD, "--head", head, "--data-dir", data_dir)
    assert (unaware.exit_code, aware.exit_code) == (0, 1)
    assert "CHAIN_BROKEN at seq 9: the log ends at 8, but it once reached 11" in aware.stdout


@pytest.mark.requirement("G19")
def test_a_chain_made_anew_is_found_against_an_earlier_head(holdfast: Holdfast, data_dir: Path) -> None:
    result = holdfast("log", "verify", THREAD, "--head", f"5:{'a' * 64}", "--data-dir", data_dir)
    assert (result.exit_code, "CHAIN_BROKEN at seq 5: its hash is not the one" in result.stdout) == (1, True)


@pytest.mark.parametrize("head", ["5", "x:" + "a" * 64, "5:abc", ""])
def test_a_head_that_is_none_is_a_usage_error(holdfast: Holdfast, data_dir: Path, head: str) -> None:
    assert holdfast("log", "verify", THREAD, "--head", head, "--data-dir", data_dir).exit_code == 2


def _edit(number: int, old: bytes, new: bytes) -> Callable[[list[bytes]], list[bytes]]:
    def change(lines: list[bytes]) -> list[bytes]:
        assert old in lines[number]
        return [line.replace(old, new) if n == number else line for n, line in enumerate(lines)]

    return change


TAMPERED: dict[str, tuple[Callable[[list[bytes]], list[bytes]], int, str]] = {
    "text": (_edit(1, b"how much", b"so much"), 2, "does not give its hash"),
    "space": (_edit(1, b'"seq":2', b'"seq": 2'), 2, "not written canonically"),
    "hash": (_edit(4, b'"hash":"', b'"hash":"0'), 5, "does not give its hash"),
    "not json": (_edit(3, b"{", b""), 4, "not a line of an export"),
    "removed": (lambda lines: lines[:3] + lines[4:], 4, "expected seq 4, found 5"),
    "repeated": (lambda lines: lines[:4] + lines[3:], 5, "expected seq 5, found 4"),
    "moved": (lambda lines: [*lines[:2], lines[3], lines[2], *lines[4:]], 3, "expected seq 3, found 4"),
    "cut off": (lambda lines: lines[:6], 7, "the end was cut off"),
    "head only": (lambda lines: lines[-1:], 1, "the log ends at 0"),
    "empty": (lambda _: [], 1, "the end was cut off"),
    "after the head": (lambda lines: [*lines, lines[0]], 12, "more after the head"),
    "blob": (_edit(11, b'"data":"', b'"data":"AAAA'), 12, "a blob does not have its hash"),
}


@pytest.mark.requirement("G19", "OS-L4")
@pytest.mark.parametrize("name", TAMPERED)
def test_a_tampered_export_is_found_and_never_imported(
    holdfast: Holdfast, data_dir: Path, tmp_path: Path, name: str
) -> None:
    change, seq, reason = TAMPERED[name]
    file = tmp_path / "out.jsonl"
    holdfast("log", "export", THREAD, "-o", file, "--data-dir", data_dir)
    file.write_bytes(b"".join(line + b"\n" for line in change(_lines(file))))
    verified = holdfast("log", "verify", file, "--data-dir", data_dir)
    imported = holdfast("log", "import", file, "--data-dir", tmp_path / "elsewhere")
    assert (verified.exit_code, f"CHAIN_BROKEN at seq {seq}: " in verified.stdout) == (1, True)
    assert reason in verified.stdout
    assert imported.exit_code == 1
    assert imported.stderr.partition(":")[0] in ("CHAIN_BROKEN", "EXPORT_INVALID")
    assert holdfast("log", "verify", "--data-dir", tmp_path / "elsewhere").stdout == ""


@pytest.mark.requirement("G22", "OS-I1", "OS-L4")
def test_replay_prints_what_the_tables_hold(holdfast: Holdfast, data_dir: Path, tmp_path: Path) -> None:
    async def tables() -> object:
        async with open_store(Settings(data_dir=data_dir)) as store:
            stored = await store.reader.thread(DEFAULT_TENANT, THREAD)
            assert isinstance(stored, Thread)
            return {
                "thread": {**thread_json(stored), "headHash": stored.head_hash},
                "runs": [run_json(run) for run in await store.reader.runs(DEFAULT_TENANT, thread_id=THREAD)],
                "interrupts": [
                    interrupt_json(found) for found in await store.reader.interrupts(DEFAULT_TENANT, thread_id=THREAD)
                ],
                "transcript": [entry_json(entry) for entry in await store.reader.transcript(DEFAULT_TENANT, THREAD)],
                "artifacts": [artifact_json(made) for made in await store.reader.artifacts(DEFAULT_TENANT, THREAD)],
            }

    replayed = holdfast("log", "replay", THREAD, "--data-dir", data_dir)
    printed = json.loads(replayed.stdout_bytes)
    assert printed == asyncio.run(tables())
    assert [run["id"] for run in printed["runs"]] == [RUN]
    assert printed["runs"][0]["usage"] == {"inputTokens": 7, "outputTokens": 3, "costUsd": 0.25}
    holdfast("log", "export", THREAD, "-o", tmp_path / "out.jsonl", "--data-dir", data_dir)
    assert holdfast("log", "replay", tmp_path / "out.jsonl").stdout_bytes == replayed.stdout_bytes


@pytest.mark.requirement("G22")
def test_replay_and_verify_leave_the_database_as_it_was(holdfast: Holdfast, data_dir: Path) -> None:
    before = holdfast("log", "export", THREAD, "--data-dir", data_dir).stdout_bytes
    for command in ("replay", "verify", "tail"):
        assert holdfast("log", command, THREAD, "--data-dir", data_dir).exit_code == 0
    assert holdfast("log", "export", THREAD, "--data-dir", data_dir).stdout_bytes == before


def test_tail_prints_one_line_per_event_from_a_cursor_on(holdfast: Holdfast, place: list[str]) -> None:
    result = holdfast("log", "tail", THREAD, "--after", "8", *place)
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["9", "10", "11"]
    assert [line.split()[2] for line in result.stdout.splitlines()] == [
        "runtime.interrupt.raised",
        "runtime.interrupt.resolved",
        "runtime.request.completed",
    ]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("after", ["11", "500"])
def test_tail_from_the_end_prints_nothing_and_ends(holdfast: Holdfast, place: list[str], after: str) -> None:
    result = holdfast("log", "tail", THREAD, "--after", after, *place)
    assert (result.exit_code, result.stdout) == (0, "")


@pytest.mark.parametrize("command", ["export", "verify", "replay", "tail"])
def test_an_unknown_thread_is_an_error_with_its_code_and_remedy(
    holdfast: Holdfast, place: list[str], command: str
) -> None:
    result = holdfast("log", command, "thr_nowhere", *place)
    assert (result.exit_code, result.stdout) == (1, "")
    code, remedy = result.stderr.splitlines()
    assert code == "THREAD_NOT_FOUND: There is no thread thr_nowhere."
    assert remedy.strip() == "Check the id, or send createThread: true to create it."


def test_a_failed_export_leaves_an_earlier_file_alone(holdfast: Holdfast, data_dir: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    file.write_bytes(b"precious\n")
    assert holdfast("log", "export", "thr_nowhere", "-o", file, "--data-dir", data_dir).exit_code == 1
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out.jsonl"]
    assert file.read_bytes() == b"precious\n"


def test_an_unknown_format_is_a_usage_error(holdfast: Holdfast, data_dir: Path) -> None:
    assert holdfast("log", "export", THREAD, "--format", "csv", "--data-dir", data_dir).exit_code == 2


@pytest.mark.requirement("OS-L4")
def test_the_agent_os_format_has_the_source_s_names_and_shape(holdfast: Holdfast, place: list[str]) -> None:
    result = holdfast("log", "export", THREAD, "--format", "agent-os", *place)
    lines = [json.loads(line) for line in result.stdout_bytes.splitlines()]
    assert [line["type"] for line in lines] == [
        "session.start",
        "llm.request",
        "llm.response",
        "tool.invoke",
        "tool.result",
        "session.close",
    ]
    shape = {"id", "session_id", "ts", "type", "actor", "payload", "schema_version", "parent_id"}
    assert all(line.keys() == shape for line in lines)
    assert {(line["session_id"], line["schema_version"]) for line in lines} == {(THREAD, "v1")}
    assert lines[0]["payload"] == {"prompt": "how much is it?", "agent": "echo"}
    assert lines[2]["payload"]["usage"] == {"input_tokens": 7, "output_tokens": 3, "cost_usd": 0.25}
    assert lines[3]["payload"] == {"id": "call_1", "name": "add", "args": {"a": 1, "b": None}}
    assert lines[4]["payload"] == {"id": "call_1", "name": "add", "ok": True, "result": 3}
    assert lines[5]["payload"]["ok"] is True
