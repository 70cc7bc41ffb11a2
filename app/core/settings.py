"""What the process is told from outside: `HOLDFAST_*` variables over a TOML file over defaults.

Every mistake is collected and reported at once. What agents do is the workspace's business, not ours.
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

    host: str = Field("127.0.0.1", description="address to listen on; loopback unless HOLDFAST_AUTH says who may call")
    port: int = Field(8700, ge=0, le=65535, description="port to listen on; 0 takes a free one")
    data_dir: Path = Field(Path(".holdfast"), description="folder of the embedded database and the lock file")
    # Not shown: it holds a password. Checked by a pattern, so that a mistake is reported with the others.
    database_url: str | None = Field(
        None,
        repr=False,
        pattern="^postgres(ql)?://",
        description="postgresql://... for shared mode; without it SQLite in the data folder",
    )
    secret_file: Path | None = Field(
        None,
        description="file with the secret that signs replay tokens, one per line, the first signs; required with "
        "Postgres, else made in the data folder",
    )
    workspace: Path = Field(
        default_factory=lambda: shipped("workspaces") / "demo", description="folder of the workspace to serve"
    )
    profile: str | None = Field(None, description="name of the workspace's Profile that overrides its models")
    log_level: str = Field("info", pattern="^(debug|info|warning|error)$", description="how much to log")
    access_log: bool = Field(
        False,
        description="true logs each HTTP request when its answer begins; without it they are logged at debug only",
    )
    traces: Literal["off", "otlp"] = Field(
        "off", description="otlp sends OpenTelemetry traces where OTEL_EXPORTER_OTLP_ENDPOINT says (extra `otel`)"
    )
    max_concurrent_runs: int = Field(64, ge=1, le=10_000, description="runs that may execute at once")
    max_concurrent_runs_per_tenant: int | None = Field(
        None, ge=1, description="runs of one tenant that may execute at once; without it as many as of all"
    )
    max_model_calls: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="model calls at once of this process, more wait; without it four for each of "
        "HOLDFAST_MAX_CONCURRENT_RUNS, at least 256",
    )
    max_queued_runs: int = Field(
        10_000, ge=1, description="runs that may wait for a worker; over it new ones are refused with 503"
    )
    max_queued_runs_per_tenant: int = Field(
        1_000, ge=1, description="runs of one tenant that may wait for a worker; over it its new ones get 429"
    )
    max_queued_runs_per_thread: int = Field(
        100, ge=1, description="active and waiting runs of one thread; over it new ones get 429"
    )
    max_runs_per_minute_per_tenant: int | None = Field(
        None, ge=1, description="new runs of one tenant in a minute; over it new ones get 429; without it no limit"
    )
    max_pending_events: int = Field(
        20_000, ge=100, description="events that may wait to be written before producers are held back"
    )
    on_disconnect: Literal["detach", "cancel"] = Field(
        "detach", description="what becomes of a run when the OpenAI client that started it disconnects"
    )
    person_wait_seconds: float = Field(
        600, gt=0, le=86_400, description="how long an OpenAI stream waits for a person, then it ends; the run waits on"
    )
    session_defaults_locked: bool = Field(
        False, description="true fixes what new sessions begin with: changing it over HTTP is answered 423"
    )
    retention_deleted_days: int = Field(30, ge=0, description="days until a deleted thread or file is purged")
    retention_threads_days: int | None = Field(
        None, ge=1, description="days without an event until a thread is deleted; without it threads are kept"
    )
    sqlite_vacuum: Literal["off", "incremental"] = Field(
        "off",
        description="incremental returns the space of purged threads to the disk; a database made without it "
        "needs `holdfast compact` once",
    )
    drain_seconds: float = Field(
        30,
        ge=0,
        le=3600,
        description="how long runs may go on when the server is stopped, at most; then they are "
        "given back and go on after the next start",
    )
    max_upload_bytes: int = Field(
        256 * 1024 * 1024, ge=1024, le=2**40, description="size of the largest file that may be uploaded"
    )
    auth: str = Field(
        "disabled",
        description="`disabled` (loopback only), or one or more of `keys`, `jwt` and `header`, with commas between",
    )
    admin_key_file: Path | None = Field(
        None, description="file with the first admin key; written with a new key if it is not there"
    )
    jwt_issuers: Path | None = Field(None, description="JSON file that lists the issuers whose tokens are accepted")
    trusted_proxies: str | None = Field(
        None, description="addresses or networks, with commas between, whose identity headers count in `header` mode"
    )
    trusted_hosts: str | None = Field(
        None,
        description="names, with commas between, that a Host header may have; without it loopback names on loopback, "
        "any name elsewhere",
    )
    cors_origins: str | None = Field(
        None, description="exact origins, with commas between, whose pages may call this server"
    )
    ca_file: FilePath | None = Field(
        None, description="PEM file of certificate authorities that outgoing requests trust besides the system's"
    )
    rate_per_key: int = Field(500, ge=0, description="requests per second that one caller may make; 0 for no limit")
    max_requests: int = Field(2000, ge=1, description="requests served at once; more are answered 503")
    max_requests_per_tenant: int = Field(1000, ge=1, description="the same for one tenant; more are answered 429")
    max_sockets: int = Field(20_000, ge=1, description="websockets open at once; more are answered 503")

    @property
    def model_calls(self) -> int:
        """Model calls at once: a run may have several, by its subagents."""
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
        """The names this server goes by, without ports; None for any."""
        if self.trusted_hosts is not None:
            return frozenset(word.lower() for word in _words(self.trusted_hosts))
        return frozenset({"localhost", "127.0.0.1", "[::1]", self.host.lower()}) if is_loopback(self.host) else None

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
    """What cannot be right about who may call. A server that would let strangers in does not start."""
    modes, words = loaded.auth_modes, _words(loaded.auth)
    problems = []
    if not words or not set(words) <= _MODES or ("disabled" in words and modes):
        problems.append(f"{PREFIX}AUTH: must be disabled, or one or more of keys, jwt and header")
    if not modes and not is_loopback(loaded.host):
        problems.append(f"{PREFIX}HOST: without authentication only loopback is allowed; set {PREFIX}AUTH")
    needs = (("jwt", "jwt_issuers"), ("header", "trusted_proxies"))
    problems += [
        f"{PREFIX}{name.upper()}: needed by the mode {mode}"
        for mode, name in needs
        if mode in modes and not getattr(loaded, name)
    ]
    unused = (*needs, ("keys", "admin_key_file"))
    problems += [
        f"{PREFIX}{name.upper()}: has no meaning unless {PREFIX}AUTH names {mode}"
        for mode, name in unused
        if mode not in modes and getattr(loaded, name) is not None
    ]
    for word in _words(loaded.trusted_proxies):
        try:
            ipaddress.ip_network(word)
        except ValueError:
            problems.append(f"{PREFIX}TRUSTED_PROXIES: an entry is neither an address nor a network")
    if not all(_ORIGIN.fullmatch(word) for word in _words(loaded.cors_origins)):
        problems.append(f"{PREFIX}CORS_ORIGINS: an origin is scheme://host or scheme://host:port, without wildcards")
    return problems


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
