"""Rooted paths and compare-and-swap writes, against a real folder."""

import os
import socket
import stat
import threading
from pathlib import Path

import pytest

from app.core.errors import Failure
from app.outside import files
from app.outside.files import Rooted, Written, hash_of


@pytest.fixture(params=["kernel", "step by step"])
def rooted(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rooted:
    if request.param == "step by step":
        monkeypatch.setattr(files, "_open_beneath", files._open_step_by_step)
    (tmp_path / "secret").write_text("outside")
    root = tmp_path / "root"
    root.mkdir()
    return Rooted(root)


@pytest.mark.requirement("S16")
@pytest.mark.parametrize("path", ["../secret", "a/../../secret", "/etc/passwd", "link", "linked/secret", "fifo"])
def test_a_path_that_leaves_the_root_is_refused(rooted: Rooted, path: str) -> None:
    (rooted.root / "a").mkdir()
    (rooted.root / "link").symlink_to("../secret")
    (rooted.root / "linked").symlink_to("..")
    os.mkfifo(rooted.root / "fifo")
    found = rooted.read(path)
    assert isinstance(found, Failure)
    assert found.code == "PATH_REFUSED"
    assert isinstance(rooted.replace(path, b"x", ""), Failure)
    assert (rooted.root.parent / "secret").read_text() == "outside"


_KINDS = [
    "folder",
    "fifo",
    "socket",
    "device",
    "link",
    "dangling",
    "loop",
    "missing",
    "missing/x",
    "private",
    "plain/x",
]


@pytest.mark.requirement("S16", "G13")
@pytest.mark.parametrize("kind", _KINDS)
def test_a_path_that_is_no_plain_file_is_refused_at_once_and_leaks_no_descriptor(rooted: Rooted, kind: str) -> None:
    root = rooted.root
    (root / "folder").mkdir()
    (root / "plain").write_text("x")
    os.mkfifo(root / "fifo")
    (root / "link").symlink_to("folder")
    (root / "dangling").symlink_to("nothing")
    (root / "loop").symlink_to("loop")
    (root / "private").mkdir(mode=0)
    with socket.socket(socket.AF_UNIX) as listening:
        if len(str(root / "socket")) < 100:
            listening.bind(str(root / "socket"))
        if os.geteuid() == 0 and kind == "device":
            os.mknod(root / "device", stat.S_IFCHR | 0o666, os.makedev(1, 5))  # /dev/zero: it never ends
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(50):
            assert isinstance(rooted.read(kind), Failure)
            assert isinstance(rooted.names(kind), Failure | list)
            refused = rooted.replace(kind, b"x", hash_of(b"never"))
            assert isinstance(refused, Failure)
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_link_that_stays_inside_is_followed_when_reading(tmp_path: Path) -> None:
    (tmp_path / "real.txt").write_text("here")
    (tmp_path / "alias.txt").symlink_to("real.txt")
    assert Rooted(tmp_path).read("alias.txt") == b"here"


def test_a_missing_file_is_a_value(rooted: Rooted) -> None:
    found = rooted.read("nothing")
    assert isinstance(found, Failure)
    assert found.code == "FILE_NOT_FOUND"


def test_a_file_over_the_limit_is_not_read(rooted: Rooted) -> None:
    (rooted.root / "big").write_bytes(b"x" * 11)
    found = rooted.read("big", max_bytes=10)
    assert isinstance(found, Failure)
    assert found.code == "OUTPUT_TOO_LARGE"


def test_a_write_creates_its_folders_and_returns_the_hash(rooted: Rooted) -> None:
    written = rooted.replace("notes/today.md", b"hello", "")
    assert written == Written("notes/today.md", hash_of(b"hello"), 5)
    assert rooted.read("notes/today.md") == b"hello"
    assert rooted.names("notes") == ["today.md"]


@pytest.mark.requirement("OS-W", "S16")
def test_a_stale_hash_conflicts_and_returns_the_current_one(rooted: Rooted) -> None:
    rooted.replace("plan", b"one", "")
    rooted.replace("plan", b"two", hash_of(b"one"))
    conflict = rooted.replace("plan", b"three", hash_of(b"one"))
    assert isinstance(conflict, Failure)
    assert conflict.code == "WRITE_CONFLICT"
    assert conflict.detail == {"currentHash": hash_of(b"two")}
    assert rooted.read("plan") == b"two"


@pytest.mark.requirement("OS-W")
def test_an_empty_hash_means_that_the_file_must_not_exist(rooted: Rooted) -> None:
    rooted.replace("plan", b"one", "")
    conflict = rooted.replace("plan", b"two", "")
    assert isinstance(conflict, Failure)
    assert conflict.code == "WRITE_CONFLICT"


@pytest.mark.requirement("OS-W", "S16")
def test_of_many_writers_with_the_same_hash_one_wins(rooted: Rooted) -> None:
    rooted.replace("plan", b"start", "")
    results: list[Written | Failure] = []
    gate = threading.Barrier(8)

    def write(number: int) -> None:
        gate.wait()
        results.append(rooted.replace("plan", str(number).encode(), hash_of(b"start")))

    writers = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    winners = [result for result in results if isinstance(result, Written)]
    assert len(winners) == 1
    content = rooted.read("plan")
    assert isinstance(content, bytes)
    assert hash_of(content) == winners[0].hash
    assert rooted.names() == ["plan"]
