"""What the process is told from outside: `HOLDFAST_*` variables over a TOML file over defaults.

Every mistake is collected and reported at once. What agents do is the workspace's business, not ours.
"""

import ipaddress
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.core.errors import HoldfastError
from app.core.resources import shipped

PREFIX: Final = "HOLDFAST_"


class SettingsError(HoldfastError):
    def __init__(self, problems: list[str]) -> None:
        super().__init__("SETTINGS_INVALID", "; ".join(problems), problems=problems)


class Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field("127.0.0.1", description="address to listen on; loopback unless keys are set up")
    port: int = Field(8700, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    data_dir: Path = Field(Path(".holdfast"), description="folder of the embedded database and the lock file")
    # Not shown: it holds a password. Checked by a pattern, so that a mistake is reported with the others.
    database_url: str | None = Field(
        None,
        repr=False,
        pattern="^postgres(ql)?://",
        description="postgresql://... for shared mode; without it SQLite in the data folder",
    )
    workspace: Path = Field(
        default_factory=lambda: shipped("workspaces") / "demo", description="folder of the workspace to serve"
    )
    profile: str | None = Field(None, description="name of the workspace's Profile that overrides its models")
    log_level: str = Field("info", pattern="^(debug|info|warning|error)$", description="how much to log")
    traces: Literal["off", "otlp"] = Field(
        "off", description="otlp sends OpenTelemetry traces where OTEL_EXPORTER_OTLP_ENDPOINT says (extra `otel`)"
    )
    max_concurrent_runs: int = Field(64, ge=1, le=10_000, description="runs that may execute at once")
    max_pending_events: int = Field(
        20_000, ge=100, description="events that may wait to be written before producers are held back"
    )
    retention_deleted_days: int = Field(30, ge=0, description="days until a deleted thread is purged")

    @property
    def is_postgres(self) -> bool:
        return self.database_url is not None

    @property
    def sqlite_path(self) -> Path:
        return self.data_dir / "holdfast.db"

    @classmethod
    def load(cls, environ: Mapping[str, str], **overrides: Any) -> Self:
        """Flags (overrides) win over variables, these over the file of HOLDFAST_CONFIG, it over defaults."""
        values: dict[str, Any] = {}
        config = environ.get(PREFIX + "CONFIG")
        if config is not None:
            values |= _read_file(Path(config))
        known = {f"{PREFIX}{name.upper()}": name for name in cls.model_fields}
        unknown = [key for key in environ if key.startswith(PREFIX) and key not in known and key not in _ELSEWHERE]
        values |= {name: environ[key] for key, name in known.items() if key in environ}
        values |= {name: value for name, value in overrides.items() if value is not None}
        problems = [f"{key} is not a setting" for key in unknown]
        try:
            loaded = cls.model_validate(values)
        except ValidationError as error:
            problems += [f"{PREFIX}{str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors()]
        else:
            if not is_loopback(loaded.host):
                problems.append(f"{PREFIX}HOST: there is no authentication yet, so only loopback is allowed")
        if problems:
            raise SettingsError(problems)
        return loaded


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# Read by others: the configuration file's own name, and the command line's server and key.
_ELSEWHERE: Final = frozenset({"HOLDFAST_CONFIG", "HOLDFAST_URL", "HOLDFAST_API_KEY"})


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError([f"{PREFIX}CONFIG: {path}: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise SettingsError([f"{PREFIX}CONFIG: {path}: not UTF-8"]) from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([f"{PREFIX}CONFIG: {path}: {error}"]) from None
