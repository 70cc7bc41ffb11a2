"""Reading a folder: beneath its root, within limits, and only what changed."""

import os
from pathlib import Path

import pytest

from app.workspace import files as files_module
from app.workspace.files import MAX_FILE_BYTES, WorkspaceFiles, read_folder


def codes(found: WorkspaceFiles) -> list[tuple[str, str]]:
    return [(item.code, item.file) for item in found.problems]


@pytest.mark.requirement("S16")
def test_symlink_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("secret")
    root = tmp_path / "space"
    root.mkdir()
    (root / "link.md").symlink_to(tmp_path / "secret.md")
    (root / "up").symlink_to(tmp_path)
    found = read_folder(root)
    assert codes(found) == [("SYMLINK_LEAVES", "link.md"), ("SYMLINK_LEAVES", "up")]
    assert not found.files


def test_symlink_to_a_file_within_is_read(tmp_path: Path) -> None:
    (tmp_path / ".data").mkdir()
    (tmp_path / ".data" / "a.yaml").write_text("a: 1")
    (tmp_path / "a.yaml").symlink_to(Path(".data") / "a.yaml")
    assert read_folder(tmp_path).contents() == {"a.yaml": b"a: 1"}


def test_symlink_to_a_folder_within_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    (tmp_path / "again").symlink_to("agents")
    assert codes(read_folder(tmp_path)) == [("SYMLINK_FOLDER", "again")]


@pytest.mark.requirement("S13")
def test_file_over_one_mebibyte_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fits.md").write_bytes(b"x" * MAX_FILE_BYTES)
    (tmp_path / "large.md").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    found = read_folder(tmp_path)
    assert codes(found) == [("FILE_TOO_LARGE", "large.md")]
    assert list(found.files) == ["fits.md"]


def test_pipe_in_the_folder_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    assert codes(read_folder(tmp_path)) == [("FILE_UNREADABLE", "pipe.yaml")]


def test_folder_that_does_not_exist_is_a_diagnostic(tmp_path: Path) -> None:
    assert codes(read_folder(tmp_path / "nowhere")) == [("FILE_UNREADABLE", "")]


def test_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.yaml"))).write_text("a: 1")
    found = read_folder(tmp_path)
    assert [item.code for item in found.problems] == ["FILE_NAME"]
    assert not found.files


def test_hidden_files_caches_and_other_suffixes_are_no_part_of_it(tmp_path: Path) -> None:
    for name in (".git/a.yaml", "__pycache__/b.py", "data.bin", ".hidden.yaml", "kept/c.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    assert list(read_folder(tmp_path).files) == ["kept/c.yaml"]


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files_module, "MAX_FILES", 2)
    for number in range(4):
        (tmp_path / f"{number}.yaml").write_text("a: 1")
    assert codes(read_folder(tmp_path)) == [("TOO_MANY_FILES", "")]


def test_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1")
    os.utime(path, (1_000_000_000, 1_000_000_000))
    first = read_folder(tmp_path)
    second = read_folder(tmp_path, first)
    assert second.digest == first.digest
    path.write_text("a: 2")
    assert read_folder(tmp_path, second).contents() == {"a.yaml": b"a: 2"}


def test_fresh_file_is_read_again_because_its_time_proves_nothing_yet(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a: 1")
    assert read_folder(tmp_path).files["a.yaml"].stamp is None
