"""The load balancers of deploy/, where they are installed: they find a server that comes back with another address."""

import contextlib
import http.server
import shutil
import socket
import struct
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scripts.generate import ROOT
from tests.postgres import free_port

COMPOSE = ROOT / "deploy/compose"
BEFORE, AFTER = "127.0.0.2", "127.0.0.3"
FOUND_SECONDS = 30.0


class _NameServer:
    """Answers every question with one address."""

    def __init__(self) -> None:
        self.address = BEFORE
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.place = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._answer_all, daemon=True)
        self._thread.start()

    def _answer_all(self) -> None:
        while True:
            data, caller = self._socket.recvfrom(4096)
            if not data:
                return
            end = data.index(b"\0", 12) + 5
            is_address = data[end - 4 : end - 2] == b"\0\1"
            header = data[:2] + struct.pack("!HHHHH", 0x8180, 1, is_address, 0, 0)
            record = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 1, 4) + socket.inet_aton(self.address)
            self._socket.sendto(header + data[12:end] + (record if is_address else b""), caller)

    def close(self) -> None:
        self._socket.sendto(b"", ("127.0.0.1", self._socket.getsockname()[1]))
        self._thread.join(20)
        self._socket.close()


class _Says(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        text = str(self.connection.getsockname()[0]).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def _server(address: str, port: int) -> Iterator[int]:
    """Says its own address."""
    with http.server.ThreadingHTTPServer((address, port), _Says) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join(20)


def _program(name: str) -> str:
    found = shutil.which(name, path="/usr/local/sbin:/usr/sbin:/usr/bin")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@contextlib.contextmanager
def _haproxy(names: _NameServer, port: int, folder: Path) -> Iterator[int]:
    listen = free_port()
    servers = {f"SERVER_{number}": f"server-{number}.invalid:{port}" for number in (1, 2, 3)}
    variables = {"LISTEN": f"127.0.0.1:{listen}", "NAMESERVER": names.place, **servers}
    with _running([_program("haproxy"), "-db", "-f", str(COMPOSE / "haproxy.cfg")], variables):
        yield listen


@contextlib.contextmanager
def _nginx(names: _NameServer, port: int, folder: Path) -> Iterator[int]:
    listen, text = free_port(), (COMPOSE / "nginx.conf").read_text()
    places = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("proxy", "fastcgi", "uwsgi", "scgi"))
    for written, here in (
        ("resolver 127.0.0.11 ", f"resolver {names.place} "),
        ("listen 8700;", f"listen 127.0.0.1:{listen};"),
        ("$servers:8700;", f"$servers:{port};"),
        ("http {\n", f"http {{\nclient_body_temp_path {folder}/body;{places}access_log off;\n"),
    ):
        assert text.count(written) == 1
        text = text.replace(written, here)
    (folder / "nginx.conf").write_text(text)
    command = [_program("nginx"), "-e", "stderr", "-g", f"daemon off; pid {folder}/pid;"]
    with _running([*command, "-c", str(folder / "nginx.conf")], {}):
        yield listen


@contextlib.contextmanager
def _running(command: list[str], variables: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def _until_answered_by(address: str, port: int) -> None:
    deadline = time.monotonic() + FOUND_SECONDS
    said = None
    while said != address:
        assert time.monotonic() < deadline, f"{address} was not found: {said}"
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
            said = answer.read().decode()
        time.sleep(0.05)


Balancer = Callable[[_NameServer, int, Path], contextlib.AbstractContextManager[int]]


@pytest.mark.parametrize("balancer", [_haproxy, _nginx], ids=["haproxy", "nginx"])
def test_server_that_comes_back_with_another_address_is_found(balancer: Balancer, tmp_path: Path) -> None:
    with contextlib.closing(_NameServer()) as names, _server(AFTER, 0) as port:
        with _server(BEFORE, port), balancer(names, port, tmp_path) as listen:
            _until_answered_by(BEFORE, listen)
            names.address = AFTER
            _until_answered_by(AFTER, listen)
