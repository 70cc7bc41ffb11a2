"""What programs must not read: how it is found, and how Landlock's allow list goes around it."""

import os
from pathlib import Path

import pytest

from app.outside.hidden import hidden_from_programs
from app.outside.process import ProcessError, Program, run
from app.outside.sandbox.landlock import READ, READ_DIR, CannotHide, around


@pytest.mark.requirement("S15")
def test_dotenv_files_in_and_above_the_workspace_are_found_with_what_they_link_to(tmp_path: Path) -> None:
    workspace, data = tmp_path / "app" / "workspace", tmp_path / "app" / "data"
    for folder in (workspace / "deep" / "er", workspace / ".env.d", workspace / "node_modules" / "x", data):
        folder.mkdir(parents=True)
    named = [
        tmp_path / ".env",
        tmp_path / "app" / ".env.production",
        workspace / ".env",
        workspace / "deep/er/.env.local",
    ]
    for path in [*named, workspace / "environment", data / ".env"]:
        path.write_text("x")
    (workspace / "deep" / ".env").symlink_to("../environment")
    found = hidden_from_programs(data, workspace)
    assert found[0] == data
    expected = {data, *named, workspace / "deep" / ".env", workspace / "environment"}
    assert {path for path in found if path.is_relative_to(tmp_path)} == expected


def test_without_a_server_nothing_is_hidden(tmp_path: Path) -> None:
    assert hidden_from_programs(None, tmp_path) == ()


@pytest.mark.requirement("S15")
def test_the_allow_list_goes_around_a_hidden_folder(tmp_path: Path) -> None:
    for folder in ("opt/app/data/files", "opt/app/bin", "opt/other"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "opt" / "way-in").symlink_to(tmp_path / "opt" / "app" / "data")
    (tmp_path / "opt" / "app" / "run.py").write_text("x")
    root = str(tmp_path / "opt")
    found = dict(around([root], [f"{root}/app/data"]))
    assert found == {f"{root}/app/bin": READ, f"{root}/app/run.py": READ, f"{root}/other": READ}
    assert around([f"{root}/app/data"], [f"{root}/app/data"]) == []
    assert around([f"{root}/app/data/files"], [f"{root}/app/data"]) == [(f"{root}/app/data/files", READ)]


@pytest.mark.requirement("S15")
def test_a_folder_with_a_hidden_file_can_still_be_listed(tmp_path: Path) -> None:
    for name in (".env", "script.py"):
        (tmp_path / name).write_text("x")
    found = dict(around([str(tmp_path)], [str(tmp_path / ".env")]))
    assert found == {str(tmp_path): READ_DIR, str(tmp_path / "script.py"): READ}


def test_among_too_many_entries_nothing_is_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.outside.sandbox.landlock.MAX_ENTRIES", 2)
    for name in (".env", "a", "b"):
        (tmp_path / name).write_text("x")
    with pytest.raises(CannotHide):
        around([str(tmp_path)], [str(tmp_path / ".env")])


async def test_a_workspace_that_is_the_data_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProcessError) as refused:
        await run(Program(["true"], tmp_path, read=[tmp_path], hidden=[tmp_path / "x" / ".."]))
    assert refused.value.code == "SANDBOX_INCOMPLETE"
    assert os.access(tmp_path, os.R_OK)
