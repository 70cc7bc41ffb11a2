"""`holdfast doctor`: says what is wrong and what to do, and changes nothing."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from app.core import json
from tests.cli.conftest import Holdfast
from tests.server import ServerProcess


def _findings(holdfast: Holdfast, *arguments: Any) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    result = holdfast("doctor", "--json", *arguments)
    by_subject: dict[str, list[dict[str, Any]]] = {}
    for finding in json.loads(result.stdout)["findings"]:
        by_subject.setdefault(finding["about"], []).append(finding)
    return result.exit_code, by_subject


@pytest.mark.requirement("SH-23")
def test_a_good_installation_has_nothing_wrong(holdfast: Holdfast, place: list[str]) -> None:
    code, found = _findings(holdfast, *place)
    assert code == 0
    assert found.keys() >= {
        "settings",
        "server",
        "database",
        "migrations",
        "workspace",
        "providers",
        "disk",
        "clock",
        "limits",
        "sandbox",
    }
    assert [one for many in found.values() for one in many if one["level"] == "wrong"] == []


def test_an_empty_data_folder_is_left_empty(holdfast: Holdfast, tmp_path: Path) -> None:
    code, _ = _findings(holdfast, "--data-dir", tmp_path / "data")
    assert (code, (tmp_path / "data").exists()) == (0, False)


def test_a_database_of_a_newer_version_is_wrong(holdfast: Holdfast, data_dir: Path) -> None:
    with sqlite3.connect(data_dir / "holdfast.db") as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.execute("UPDATE schema_support SET oldest = '9999'")
    database.close()
    code, found = _findings(holdfast, "--data-dir", data_dir)
    assert (code, found["migrations"][0]["level"]) == (1, "wrong")
    assert "newer" not in found["migrations"][0]["message"] and "at least as new" in found["migrations"][0]["remedy"]


def test_a_database_that_does_not_answer_is_wrong(holdfast: Holdfast) -> None:
    code, found = _findings(holdfast, "--database-url", "postgresql://nobody@127.0.0.1:9/none")
    assert (code, found["database"][0]["level"]) == (1, "wrong")


def test_a_file_that_is_no_database_is_wrong(holdfast: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "holdfast.db").write_bytes(b"this is no database at all" * 100)
    code, found = _findings(holdfast, "--data-dir", tmp_path)
    assert (code, found["database"][0]["level"]) == (1, "wrong")


def test_a_key_that_a_model_needs_and_has_not_is_named(
    holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    holdfast("new", tmp_path / "space", "--template", "openai")
    code, found = _findings(holdfast, "--workspace", tmp_path / "space", "--data-dir", tmp_path / "data")
    assert (code, found["providers"][0]["level"]) == (1, "wrong")
    assert "OPENAI_API_KEY" in found["providers"][0]["message"]


WEBHOOK = """
apiVersion: holdfast/v1
kind: Webhook
metadata: {name: billing}
spec: {url: "https://billing.example.org/hook", events: [runtime.request.completed], secret: "${env:BILLING_SECRET}"}
"""


def test_a_webhook_without_its_secret_is_named(
    holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BILLING_SECRET", raising=False)
    holdfast("new", tmp_path / "space")
    runtime = tmp_path / "space" / "runtime.yaml"
    declared = runtime.read_text().replace("env: [", "env: [BILLING_SECRET, ").rstrip()
    runtime.write_text(declared + "\n  outgoing: {webhooks: [billing.example.org]}\n")
    (tmp_path / "space" / "billing.yaml").write_text(WEBHOOK)
    place = "--workspace", tmp_path / "space", "--data-dir", tmp_path / "data"
    code, found = _findings(holdfast, *place)
    assert (code, found["webhooks"][0]["level"]) == (1, "wrong")
    assert "BILLING_SECRET is not set" in found["webhooks"][0]["message"]
    monkeypatch.setenv("BILLING_SECRET", "whsec_" + "bm90aGluZw==" * 3)
    code, found = _findings(holdfast, *place)
    assert (code, found["webhooks"][0]["level"]) == (0, "ok")


def test_a_workspace_with_mistakes_is_wrong(holdfast: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "space").mkdir()
    (tmp_path / "space" / "runtime.yaml").write_text("kind: Nothing\n")
    code, found = _findings(holdfast, "--workspace", tmp_path / "space", "--data-dir", tmp_path / "data")
    assert (code, found["workspace"][0]["level"]) == (1, "wrong")


def test_a_setting_that_does_not_exist_is_named(holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_PROT", "8701")
    code, found = _findings(holdfast)
    assert (code, found["settings"][0]["message"]) == (
        1,
        "HOLDFAST_PROT is not a setting; remove it or correct its name",
    )


def test_a_running_server_is_asked_whether_it_is_ready(holdfast: Holdfast, tmp_path: Path) -> None:
    server = ServerProcess.start(tmp_path / "data")
    try:
        _, found = _findings(holdfast, "--data-dir", tmp_path / "data")
        assert found["server"][0]["message"].startswith(f"{server.url} is ready")
    finally:
        server.stop()
