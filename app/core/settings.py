"""The settings of the process: command-line flags, `HOLDFAST_*` variables, a TOML file, and defaults.

All mistakes are collected and reported at once. What agents do is configured in the workspace, not here.
"""

import ipaddress
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, FilePath, ValidationError

from app.core.errors import HoldfastError
from app.core.resources import shipped

PREFIX: Final = "HOLDFAST_"
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_MODES: Final = frozenset({"disabled", "keys", "jwt", "header"})
_ORIGIN: Final = re.compile(r"https?://[a-z0-9.-]+(:[0-9]{1,5})?|https?://\[[0-9a-f:]+\](:[0-9]{1,5})?")


class SettingsError(HoldfastError):
    def __init__(self, problems: list[str]) -> None:
        super().__init__("SETTINGS_INVALID", "; ".join(problems), problems=problems)


class Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field("127.0.0.1", description="Address to listen on. Without HOLDFAST_AUTH, only loopback addresses.")
    port: int = Field(8700, ge=0, le=65535, description="Port to listen on; 0 selects a free one.")
    workers: int = Field(
        1, ge=1, le=256, description="Processes that serve the port together. More than one requires Postgres."
    )
    data_dir: Path = Field(Path(".holdfast"), description="Folder for the SQLite database, files and the lock file.")
    # Not shown: it holds a password. Checked by a pattern, so that a mistake is reported with the others.
    database_url: str | None = Field(
        None,
        repr=False,
        pattern="^postgres(ql)?://",
        description="postgresql://... to use Postgres. Default: SQLite in the data folder.",
    )
    # Not shown, as the other one.
    database_direct_url: str | None = Field(
        None,
        repr=False,
        pattern="^postgres(ql)?://",
        description="postgresql://... that leads to the same database directly. Set it if HOLDFAST_DATABASE_URL leads "
        "through a pooler in transaction mode, such as PgBouncer; used for LISTEN and migrations.",
    )
    database_read_url: str | None = Field(
        None,
        repr=False,
        pattern="^postgres(ql)?://",
        description="postgresql://... of a standby of the same database, for lists and other reports.",
    )
    read_staleness_seconds: float = Field(
        5,
        ge=1,
        le=3600,
        description="How far behind HOLDFAST_DATABASE_READ_URL may be, in seconds. When it is further behind or away, "
        "everything is read from the primary.",
    )
    # Not shown: it may hold a password.
    bus: str | None = Field(
        None,
        repr=False,
        pattern="^[a-z][a-z0-9+_-]*(://.+)?$",
        description="How servers on one Postgres tell each other what is new: `postgres` (LISTEN and NOTIFY), "
        "`nats://host:port` (extra `nats`) or `local` (they poll every 4 seconds). Default: `postgres` with Postgres.",
    )
    lease_seconds: float = Field(
        15,
        ge=1,
        le=600,
        description="Seconds within which the runs of a server that died are taken over by another one.",
    )
    secret_file: Path | None = Field(
        None,
        description="File with secrets for replay tokens, one per line. The first one signs, all verify. Required with "
        "Postgres; with SQLite it is created in the data folder.",
    )
    workspace: Path = Field(
        default_factory=lambda: shipped("workspaces") / "demo", description="Folder of the workspace to serve."
    )
    profile: str | None = Field(None, description="Name of the workspace's Profile that overrides its models.")
    log_level: str = Field("info", pattern="^(debug|info|warning|error)$", description="Lowest level to log.")
    access_log: bool = Field(
        False,
        description="Log each HTTP request when its response begins. Otherwise they are logged at level debug only.",
    )
    traces: Literal["off", "otlp"] = Field(
        "off", description="otlp sends OpenTelemetry traces to OTEL_EXPORTER_OTLP_ENDPOINT (extra `otel`)."
    )
    max_concurrent_runs: int = Field(64, ge=1, le=10_000, description="Runs that execute at once.")
    max_concurrent_runs_per_tenant: int | None = Field(
        None, ge=1, description="Runs of one tenant that execute at once. Default: the limit for all tenants."
    )
    max_model_calls: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="Model calls of this process at once; further calls wait. Default: four times "
        "HOLDFAST_MAX_CONCURRENT_RUNS, at least 256.",
    )
    max_queued_runs: int = Field(
        10_000, ge=1, description="Runs that wait for a worker. Further ones are rejected with 503."
    )
    max_queued_runs_per_tenant: int = Field(
        1_000, ge=1, description="Runs of one tenant that wait for a worker. Further ones are rejected with 429."
    )
    max_queued_runs_per_thread: int = Field(
        100, ge=1, description="Active and waiting runs of one thread. Further ones are rejected with 429."
    )
    max_runs_per_minute_per_tenant: int | None = Field(
        None,
        ge=1,
        description="New runs of one tenant per minute. Further ones are rejected with 429. Default: no limit.",
    )
    max_pending_events: int = Field(
        20_000, ge=100, description="Events that wait to be written. Beyond this number, producers wait."
    )
    on_disconnect: Literal["detach", "cancel"] = Field(
        "detach", description="What happens to a run when the OpenAI client that started it disconnects."
    )
    langgraph_at_root: bool = Field(
        False,
        description="Serve the LangGraph interface at the root of the server as well as under /langgraph, for clients "
        "that cannot be given a path.",
    )
    a2a_public_card: bool = Field(
        False, description="Show the A2A cards of agents to anybody, without a key, so that other agents find them."
    )
    a2a_v03: bool = Field(False, description="Serve A2A 0.3 clients as well as those of 1.0.")
    person_wait_seconds: float = Field(
        600,
        gt=0,
        le=86_400,
        description="Seconds that an OpenAI stream waits for a person. Then the stream ends, but not the run.",
    )
    session_defaults_locked: bool = Field(
        False, description="Reject changes of the defaults for new sessions over HTTP with 423."
    )
    retention_deleted_days: int = Field(30, ge=0, description="Days until a deleted thread or file is purged.")
    retention_threads_days: int | None = Field(
        None, ge=1, description="Days without an event until a thread is deleted. Default: never."
    )
    retention_delta_days: int | None = Field(
        None,
        ge=1,
        description="Days after a run's end until the deltas of its completed messages are dropped. Default: never.",
    )
    sqlite_vacuum: Literal["off", "incremental"] = Field(
        "off",
        description="incremental returns the space of purged threads to the disk. An existing database needs "
        "`holdfast compact` once.",
    )
    drain_seconds: float = Field(
        30,
        ge=0,
        le=3600,
        description="Seconds that runs have to finish when the server stops. Unfinished runs continue after the next "
        "start.",
    )
    max_upload_bytes: int = Field(256 * 1024 * 1024, ge=1024, le=2**40, description="Maximum size of an uploaded file.")
    auth: str = Field(
        "disabled",
        description="`disabled` (loopback only), or one or more of `keys`, `jwt` and `header`, separated by commas.",
    )
    admin_key_file: Path | None = Field(
        None, description="File with the first admin key. If it does not exist, it is created with a new key."
    )
    jwt_issuers: Path | None = Field(None, description="JSON file with the issuers whose tokens are accepted.")
    trusted_proxies: str | None = Field(
        None, description="Addresses or networks, separated by commas, whose identity headers are accepted."
    )
    trusted_hosts: str | None = Field(
        None,
        description="Names, separated by commas, that a Host header may have. Default: loopback names on a loopback "
        "address, otherwise any name.",
    )
    cors_origins: str | None = Field(
        None, description="Exact origins, separated by commas, whose web pages may call this server."
    )
    ca_file: FilePath | None = Field(
        None,
        description="PEM file of certificate authorities to trust in outgoing requests, in addition to the system's.",
    )
    rate_per_key: int = Field(500, ge=0, description="Requests per second of one caller; 0 for no limit.")
    max_requests: int = Field(2000, ge=1, description="Requests at once. Further ones are rejected with 503.")
    max_requests_per_tenant: int = Field(
        1000, ge=1, description="Requests of one tenant at once. Further ones are rejected with 429."
    )
    max_sockets: int = Field(20_000, ge=1, description="Open websockets. Further ones are rejected with 503.")

    @property
    def model_calls(self) -> int:
        """Maximum number of model calls at once; a run with subagents can have several."""
        return self.max_model_calls or max(256, 4 * self.max_concurrent_runs)

    @property
    def auth_modes(self) -> frozenset[str]:
        return frozenset(_words(self.auth)) - {"disabled"}

    @property
    def proxy_networks(self) -> tuple[Network, ...]:
        return tuple(ipaddress.ip_network(word) for word in _words(self.trusted_proxies))

    @property
    def origins(self) -> frozenset[str]:
        return frozenset(_words(self.cors_origins))

    @property
    def hosts(self) -> frozenset[str] | None:
        """The names that a Host header may have, without ports; None for any."""
        if self.trusted_hosts is not None:
            return frozenset(word.lower() for word in _words(self.trusted_hosts))
        return frozenset({"localhost", "127.0.0.1", "[::1]", self.host.lower()}) if is_loopback(self.host) else None

    @property
    def is_postgres(self) -> bool:
        return self.database_url is not None

    @property
    def direct_url(self) -> str | None:
        """For connections that need a session of Postgres of their own."""
        return self.database_direct_url or self.database_url

    @property
    def sqlite_path(self) -> Path:
        return self.data_dir / "holdfast.db"

    @classmethod
    def load(cls, environ: Mapping[str, str], **overrides: Any) -> Self:
        """Precedence: flags (`overrides`), then variables, then the file in HOLDFAST_CONFIG, then defaults."""
        values: dict[str, Any] = {}
        config = environ.get(PREFIX + "CONFIG")
        if config is not None:
            values |= _read_file(Path(config))
        known = {f"{PREFIX}{name.upper()}": name for name in cls.model_fields}
        unknown = [key for key in environ if key.startswith(PREFIX) and key not in known and key not in _ELSEWHERE]
        values |= {name: environ[key] for key, name in known.items() if key in environ}
        values |= {name: value for name, value in overrides.items() if value is not None}
        problems = [f"{key} is not a setting; remove it or correct its name" for key in unknown]
        try:
            loaded = cls.model_validate(values)
        except ValidationError as error:
            problems += [f"{PREFIX}{str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors()]
        else:
            problems += _access_problems(loaded)
        if problems:
            raise SettingsError(problems)
        return loaded


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _access_problems(loaded: Settings) -> list[str]:
    """Contradictory settings of authentication. The server does not start with them."""
    modes, words = loaded.auth_modes, _words(loaded.auth)
    problems = []
    if loaded.bus not in (None, "local") and not loaded.is_postgres:
        problems.append(f"{PREFIX}BUS: has no effect without {PREFIX}DATABASE_URL; a SQLite database has one server")
    problems += [
        f"{PREFIX}{name.upper()}: has no effect without {PREFIX}DATABASE_URL"
        for name in ("database_direct_url", "database_read_url")
        if getattr(loaded, name) is not None and not loaded.is_postgres
    ]
    if not words or not set(words) <= _MODES or ("disabled" in words and modes):
        problems.append(f"{PREFIX}AUTH: must be disabled, or one or more of keys, jwt and header")
    if not modes and not is_loopback(loaded.host):
        problems.append(
            f"{PREFIX}HOST: without authentication the server listens on loopback addresses only; set {PREFIX}AUTH"
        )
    needs = (("jwt", "jwt_issuers"), ("header", "trusted_proxies"))
    problems += [
        f"{PREFIX}{name.upper()}: required if {PREFIX}AUTH contains {mode}"
        for mode, name in needs
        if mode in modes and not getattr(loaded, name)
    ]
    unused = (*needs, ("keys", "admin_key_file"))
    problems += [
        f"{PREFIX}{name.upper()}: has no effect unless {PREFIX}AUTH contains {mode}"
        for mode, name in unused
        if mode not in modes and getattr(loaded, name) is not None
    ]
    for word in _words(loaded.trusted_proxies):
        try:
            ipaddress.ip_network(word)
        except ValueError:
            problems.append(f"{PREFIX}TRUSTED_PROXIES: every entry must be an IP address or a network")
    if not all(_ORIGIN.fullmatch(word) for word in _words(loaded.cors_origins)):
        problems.append(
            f"{PREFIX}CORS_ORIGINS: every entry must be scheme://host or scheme://host:port, without wildcards"
        )
    return problems


# Variables that are read elsewhere: the configuration file, and the command line's server and key.
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
