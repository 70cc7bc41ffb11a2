"""`holdfast doctor` behind a company's proxy: the proxy and the CA file are tried as the server would use them."""

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from cryptography import x509

from app.core import json
from tests.cli.conftest import Holdfast
from tests.outside.test_connections import self_made
from tests.workspace.building import GOOD, document

HOST = "models.example"


class Proxy(BaseHTTPRequestHandler):
    """Makes a tunnel for whoever asks for the one host, which is at its end; or refuses."""

    tls: ClassVar[ssl.SSLContext]
    refuses: ClassVar[int | None] = None
    asked: ClassVar[list[str]] = []

    def do_CONNECT(self) -> None:
        self.asked.append(self.path)
        if self.refuses is not None:
            self.send_response(self.refuses)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            with self.tls.wrap_socket(self.connection, server_side=True) as host:
                self.asked.append(host.recv(65_536).split(b"\r\n")[0].decode())
                host.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        except OSError:
            pass  # the client does not trust the host
        self.close_connection = True

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    Proxy.tls, certificate = self_made(tmp_path, x509.DNSName(HOST))
    return certificate


@pytest.fixture
def proxy(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    Proxy.asked.clear()
    monkeypatch.setattr(Proxy, "refuses", None)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"127.0.0.1:{server.server_address[1]}"
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:secret@{address}")
    yield address
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    spec = f"provider: openai\nmodel: m\nbaseUrl: https://{HOST}/v1"
    for path, text in {**GOOD, "m.yaml": document("Model", "hosted", spec)}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def _outgoing(holdfast: Holdfast, workspace: Path, data: Path) -> list[tuple[str, str]]:
    result = holdfast("doctor", "--json", "--workspace", workspace, "--data-dir", data)
    assert "secret" not in result.output
    found = json.loads(result.stdout)["findings"]
    return [(one["level"], one["message"]) for one in found if one["about"] == "outgoing"]


def test_a_proxy_and_a_ca_file_that_work_are_shown_to_work(
    holdfast: Holdfast, workspace: Path, tmp_path: Path, proxy: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_CA_FILE", str(certificate))
    found = _outgoing(holdfast, workspace, tmp_path / "data")
    assert found == [
        ("ok", f"CA file {certificate} holds 1 authorities"),
        ("ok", f"host https://{HOST}/ answers through the proxy {proxy} (HTTP 404)"),
    ]
    assert Proxy.asked == [f"{HOST}:443", "HEAD / HTTP/1.1"]


def test_a_host_whose_certificate_nobody_vouches_for_is_wrong(
    holdfast: Holdfast, workspace: Path, tmp_path: Path, proxy: str
) -> None:
    ((level, message),) = _outgoing(holdfast, workspace, tmp_path / "data")
    assert level == "wrong" and f"through the proxy {proxy}" in message


def test_a_proxy_that_refuses_or_is_gone_is_wrong(
    holdfast: Holdfast, workspace: Path, tmp_path: Path, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Proxy, "refuses", 407)
    ((level, message),) = _outgoing(holdfast, workspace, tmp_path / "data")
    assert level == "wrong" and f"through the proxy {proxy}" in message
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    ((level, message),) = _outgoing(holdfast, workspace, tmp_path / "data")
    assert level == "wrong" and "127.0.0.1:1" in message


def test_a_ca_file_without_certificates_is_wrong(
    holdfast: Holdfast, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty.pem").write_text("nothing here")
    monkeypatch.setenv("HOLDFAST_CA_FILE", str(tmp_path / "empty.pem"))
    ((level, message),) = _outgoing(holdfast, workspace, tmp_path / "data")
    assert level == "wrong" and "is not a PEM file of certificates" in message


def test_a_variable_that_names_no_proxy_is_wrong(
    holdfast: Holdfast, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "ftp://me:secret@proxy")
    ((level, message),) = _outgoing(holdfast, workspace, tmp_path / "data")
    assert (level, message) == ("wrong", "proxy variables: HTTPS_PROXY is not an http or https URL of a proxy")


def test_without_a_proxy_and_a_ca_file_nothing_outside_is_asked(
    holdfast: Holdfast, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert _outgoing(holdfast, workspace, tmp_path / "data") == []
