"""A real PgBouncer in front of a test's Postgres, where the machine has one (Debian: `apt-get install pgbouncer`)."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.postgres import PostgresServer, free_port


def pgbouncer_binary() -> str | None:
    return shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextlib.contextmanager
def running_pgbouncer(postgres: PostgresServer, mode: str, pool_size: int) -> Iterator[int]:
    """Its port. `pool_size` is the number of connections to Postgres that all clients of a database share."""
    binary, port = pgbouncer_binary(), free_port()
    assert binary is not None
    user = 65534 if os.geteuid() == 0 else None  # it refuses to run as root
    with tempfile.TemporaryDirectory(prefix="holdfast-pgbouncer-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "pgbouncer.ini").write_text(
            f"[databases]\n* = host=127.0.0.1 port={postgres.port} user=postgres\n[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = {mode}\n"
            f"default_pool_size = {pool_size}\nmax_client_conn = 500\n"
        )
        (folder / "pgbouncer.ini").chmod(0o644)
        process = subprocess.Popen(
            [binary, str(folder / "pgbouncer.ini")],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=user,
            group=user,
        )
        try:
            _wait_until_open(port)
            yield port
        finally:
            process.kill()
            process.wait(20)


def _wait_until_open(port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise TimeoutError("PgBouncer did not start")
