"""The server's secret: made where one server uses it, given where several do, and replaced without a break."""

import stat
from pathlib import Path

import pytest

from app.core.settings import Settings, SettingsError
from app.core.signing import Signer, open_signer

OLD, NEW = b"o" * 32, b"n" * 32


def test_an_embedded_server_makes_its_secret_once_and_keeps_it_to_itself(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    signature = open_signer(settings).sign("x", b"data")
    made = tmp_path / "secret"
    assert stat.S_IMODE(made.stat().st_mode) == 0o600
    assert open_signer(settings).verify("x", b"data", signature)
    assert made.read_text().strip() not in repr(open_signer(settings))


def test_servers_that_share_a_database_must_be_given_their_secret(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, database_url="postgresql://db/x")
    with pytest.raises(SettingsError, match="HOLDFAST_SECRET_FILE: needed with Postgres"):
        open_signer(settings)
    assert list(tmp_path.iterdir()) == []
    named = settings.model_copy(update={"secret_file": tmp_path / "shared"})
    with pytest.raises(SettingsError, match="No such file"):
        open_signer(named)
    (tmp_path / "shared").write_bytes(NEW)
    assert open_signer(named).verify("x", b"data", Signer([NEW]).sign("x", b"data"))


def test_the_first_line_signs_and_all_lines_verify(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    settings = Settings(data_dir=tmp_path, secret_file=file)
    old = Signer([OLD]).sign("x", b"data")
    file.write_bytes(NEW + b"\n\n" + OLD + b"\n")
    both = open_signer(settings)
    assert both.sign("x", b"data") == Signer([NEW]).sign("x", b"data")
    assert both.verify("x", b"data", old)
    file.write_bytes(NEW)
    assert not open_signer(settings).verify("x", b"data", old)


@pytest.mark.parametrize(
    "content", [b"", b"\n\n", b"short", b"o" * 32 + b"\nshort", b"\xff" * 40, OLD + b"\n" + b"x" * 31]
)
def test_a_file_without_a_good_secret_stops_the_start(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "secret").write_bytes(content)
    with pytest.raises(SettingsError) as refused:
        open_signer(Settings(data_dir=tmp_path))
    assert "short" not in str(refused.value)


def test_what_is_signed_for_one_use_counts_for_no_other() -> None:
    signer = Signer([OLD])
    assert not signer.verify("y", b"data", signer.sign("x", b"data"))
    assert not signer.verify("x", b"datb", signer.sign("x", b"data"))
    assert not signer.verify("x", b"data", b"")
