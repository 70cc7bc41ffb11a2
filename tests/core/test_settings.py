"""Settings: what wins over what, and that all mistakes are reported at once."""

from pathlib import Path

import pytest

from app.core.settings import Settings, SettingsError


def test_without_any_variable_the_server_is_local_and_embedded() -> None:
    settings = Settings.load({"PATH": "/bin"})
    assert settings.host == "127.0.0.1"
    assert not settings.is_postgres
    assert settings.sqlite_path == Path(".holdfast/holdfast.db")
    assert settings.workspace.name == "demo"


def test_flag_wins_over_variable_over_file_over_default(tmp_path: Path) -> None:
    config = tmp_path / "holdfast.toml"
    config.write_text('port = 1001\nhost = "127.0.0.2"\nlog_level = "debug"\n')
    environ = {"HOLDFAST_CONFIG": str(config), "HOLDFAST_PORT": "1002", "HOLDFAST_HOST": "127.0.0.3"}
    settings = Settings.load(environ, host="127.0.0.4", data_dir=None)
    assert (settings.host, settings.port, settings.log_level) == ("127.0.0.4", 1002, "debug")
    assert settings.max_concurrent_runs == 64


def test_every_mistake_is_reported_at_once() -> None:
    environ = {
        "HOLDFAST_PORT": "99999",
        "HOLDFAST_LOG_LEVEL": "loud",
        "HOLDFAST_PROT": "1",
        "HOLDFAST_DATABASE_URL": "mysql://somewhere",
    }
    with pytest.raises(SettingsError) as caught:
        Settings.load(environ)
    problems = caught.value.failure.detail["problems"]
    assert caught.value.code == "SETTINGS_INVALID"
    assert sorted(problem.split(":")[0].split()[0] for problem in problems) == [
        "HOLDFAST_DATABASE_URL",
        "HOLDFAST_LOG_LEVEL",
        "HOLDFAST_PORT",
        "HOLDFAST_PROT",
    ]


def test_variables_of_the_command_line_are_not_mistaken_for_settings() -> None:
    Settings.load({"HOLDFAST_URL": "http://127.0.0.1:8700", "HOLDFAST_API_KEY": "hf_x"})


@pytest.mark.requirement("G21")
def test_password_of_the_database_is_in_no_message() -> None:
    settings = Settings.load({"HOLDFAST_DATABASE_URL": "postgresql://app:hunter2@db/holdfast"})
    assert settings.is_postgres
    assert "hunter2" not in f"{settings!r} {settings}"
    with pytest.raises(SettingsError) as caught:
        Settings.load({"HOLDFAST_DATABASE_URL": "postgre://app:hunter2@db/holdfast"})
    assert "hunter2" not in f"{caught.value} {caught.value.failure}"


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (None, "No such file"),
        (b"port = ", "holdfast.toml"),
        (b"\xff", "not UTF-8"),
        (b"colour = 1", "HOLDFAST_COLOUR"),
    ],
)
def test_bad_configuration_file_is_a_settings_error(tmp_path: Path, content: bytes | None, named: str) -> None:
    config = tmp_path / "holdfast.toml"
    if content is not None:
        config.write_bytes(content)
    with pytest.raises(SettingsError, match=named):
        Settings.load({"HOLDFAST_CONFIG": str(config)})


def test_configuration_file_that_is_a_folder_is_a_settings_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="HOLDFAST_CONFIG"):
        Settings.load({"HOLDFAST_CONFIG": str(tmp_path)})


@pytest.mark.requirement("S1")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "example.org"])
def test_without_authentication_only_loopback_is_served(host: str) -> None:
    with pytest.raises(SettingsError, match="HOLDFAST_HOST"):
        Settings.load({"HOLDFAST_HOST": host})


@pytest.mark.requirement("S1")
@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_every_spelling_of_loopback_is_served(host: str) -> None:
    assert Settings.load({"HOLDFAST_HOST": host}).host == host
