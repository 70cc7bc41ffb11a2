"""The generator of files: what it writes, and that it sees what is not fresh."""

import hashlib
from pathlib import Path

import pytest

from app.core import json
from app.core.error_codes import CODES
from app.core.settings import Settings
from scripts import frozen, generate
from scripts.generate import Finding, Generator, run

HELLO = Generator("hello", lambda root: {"made/hello.txt": b"hello\n"}, owns=("made/*.txt",))


def test_missing_file_is_written_once(tmp_path: Path) -> None:
    assert run(tmp_path, [HELLO], write=True) == [Finding("made/hello.txt", "missing")]
    assert (tmp_path / "made/hello.txt").read_bytes() == b"hello\n"
    assert run(tmp_path, [HELLO], write=True) == []


def test_stale_file_is_written_again(tmp_path: Path) -> None:
    run(tmp_path, [HELLO], write=True)
    (tmp_path / "made/hello.txt").write_bytes(b"edited\n")
    assert run(tmp_path, [HELLO], write=True) == [Finding("made/hello.txt", "stale")]
    assert (tmp_path / "made/hello.txt").read_bytes() == b"hello\n"


def test_left_over_file_is_removed_and_files_outside_the_pattern_stay(tmp_path: Path) -> None:
    run(tmp_path, [HELLO], write=True)
    (tmp_path / "made/old.txt").write_bytes(b"old")
    (tmp_path / "made/README.md").write_bytes(b"mine")
    assert run(tmp_path, [HELLO], write=True) == [Finding("made/old.txt", "left over")]
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == ["README.md", "hello.txt"]


def test_checking_names_every_file_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made/old.txt").write_bytes(b"old")
    found = run(tmp_path, [HELLO], write=False)
    assert found == [Finding("made/hello.txt", "missing"), Finding("made/old.txt", "left over")]
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["old.txt"]


def test_no_two_generators_make_or_own_the_same_file() -> None:
    patterns = [pattern for generator in generate.GENERATORS for pattern in generator.owns]
    assert len(set(patterns)) == len(patterns)


def test_every_error_code_has_an_anchor_a_meaning_and_a_remedy() -> None:
    page = generate.error_pages(generate.ROOT)["docs/errors.md"].decode()
    for name, code in CODES.items():
        assert f'<a id="{name}"></a>' in page
        assert code.meaning in page and code.remedy in page


def test_every_setting_is_on_the_configuration_page_and_no_path_of_this_machine() -> None:
    page = generate.configuration_page(generate.ROOT)["docs/configuration.md"].decode()
    for name in Settings.model_fields:
        assert f"`HOLDFAST_{name.upper()}`" in page
    assert str(generate.ROOT) not in page


def test_new_contract_is_recorded_as_frozen(tmp_path: Path) -> None:
    content = _contract(tmp_path, "plan_v1", b"{}")
    recorded = json.loads(frozen.record(tmp_path)[frozen.RECORD])
    assert recorded == {"plan_v1": hashlib.sha256(content).hexdigest()}


@pytest.mark.requirement("OS-I5", "OS-L7")
def test_changed_frozen_contract_is_a_violation_that_generating_does_not_heal(tmp_path: Path) -> None:
    _contract(tmp_path, "plan_v1", b"{}")
    freezing = Generator("frozen", frozen.record)
    run(tmp_path, [freezing], write=True)
    _contract(tmp_path, "plan_v1", b"[]")
    run(tmp_path, [freezing], write=True)
    assert frozen.violations(tmp_path) == ["plan_v1: frozen, but its file changed; publish a new version instead"]


def test_removed_frozen_contract_is_a_violation(tmp_path: Path) -> None:
    _contract(tmp_path, "plan_v1", b"{}")
    run(tmp_path, [Generator("frozen", frozen.record)], write=True)
    (tmp_path / "schemas/contracts/plan_v1.json").unlink()
    assert frozen.violations(tmp_path) == ["plan_v1: frozen, but its file is gone"]


def test_command_fails_on_a_stale_file_and_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "GENERATORS", (HELLO,))
    assert generate.main(["--check"], root=tmp_path) == 1
    assert "made/hello.txt: missing" in capsys.readouterr().err
    assert generate.main([], root=tmp_path) == 0
    assert generate.main(["--check"], root=tmp_path) == 0


def test_command_fails_on_a_changed_frozen_contract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(generate, "GENERATORS", ())
    _contract(tmp_path, "plan_v1", b"{}")
    run(tmp_path, [Generator("frozen", frozen.record)], write=True)
    _contract(tmp_path, "plan_v1", b"[]")
    assert generate.main(["--check"], root=tmp_path) == 1
    assert generate.main([], root=tmp_path) == 1
    assert "plan_v1" in capsys.readouterr().err


def _contract(root: Path, schema_id: str, content: bytes) -> bytes:
    path = root / f"schemas/contracts/{schema_id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return content
