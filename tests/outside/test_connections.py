"""Which connection a request goes over: where it leads, when it is used again, who may end it. Real sockets."""

import asyncio
import os
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from app.outside import sessions
from app.outside.addresses import AddressPolicy
from app.outside.http import Deadlines, HttpClient, OutgoingRequest, OutsideError
from tests.outside.raw import LOOPBACK, OK, Peer, Place, a_client, answering, body_of, code_of, speaking
from tests.outside.raw import event_loop_policy as event_loop_policy
from tests.outside.raw import way as way
from tests.server import ROOT

HELLO = OK + b"Content-Length: 5\r\n\r\nhello"


# -- reuse -----------------------------------------------------------------------------------------


async def test_a_connection_is_used_again_once_the_answer_was_read() -> None:
    async with speaking(answering(HELLO)) as place, a_client() as client:
        for _ in range(3):
            assert await body_of(client, place.get()) == b"hello"
        reply = await client.send(place.get())
        reply.close()  # unread, but all there
        assert await body_of(client, place.get()) == b"hello"
        assert place.connections == 1
        # All of the answer is there, so the connection is free although nobody has read it yet.
        both = [await client.send(place.get()) for _ in range(2)]
        assert [await reply.read() for reply in both] == [b"hello", b"hello"]
        assert place.connections == 1


async def test_two_answers_on_their_way_have_a_connection_each() -> None:
    go = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK + b"Content-Length: 5\r\n\r\nhel")
        await go.wait()
        await peer.say(b"lo")

    async with speaking(script) as place, a_client() as client:
        both = [await client.send(place.get()) for _ in range(2)]
        go.set()
        assert [await reply.read() for reply in both] == [b"hello", b"hello"]
        assert place.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        OK + b"Connection: close\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    ],
)
async def test_a_connection_that_ends_with_its_answer_is_not_used_again(answer: bytes) -> None:
    async with speaking(answering(answer)) as place, a_client() as client:
        assert await body_of(client, place.get()) == b"hello"
        assert await body_of(client, place.get()) == b"hello"
    assert place.connections == 2


async def test_a_connection_that_was_closed_while_idle_is_replaced() -> None:
    async with speaking(answering(HELLO, close=True)) as place, a_client() as client:
        for _ in range(3):
            request = OutgoingRequest("POST", place.url, body=b"x", policy=LOOPBACK)
            assert await body_of(client, request) == b"hello"
            await asyncio.sleep(0.02)  # the end arrives behind the answer
    assert place.connections == 3


@pytest.mark.parametrize(("method", "outcome"), [("GET", b"hello"), ("PUT", b"hello"), ("POST", "OUTSIDE_CUT_OFF")])
async def test_only_what_may_be_done_twice_is_sent_again_over_a_new_connection(
    method: str, outcome: bytes | str
) -> None:
    """The server takes the second request of a connection and closes without a word."""

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(HELLO)
        await peer.request()

    async with speaking(script) as place, a_client() as client:
        request = replace(place.get(), method=method, body=b"x")
        assert await body_of(client, request) == b"hello"
        if isinstance(outcome, str):
            assert await code_of(client, request) == outcome
        else:
            assert await body_of(client, request) == outcome
            assert place.connections == 2


async def test_a_request_that_was_answered_in_part_is_not_sent_again() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(HELLO)
        await peer.request()
        await peer.say(b"HTTP/1.1 2")

    async with speaking(script) as place, a_client() as client:
        request = replace(place.get(), method="POST", body=b"x")
        assert await body_of(client, request) == b"hello"
        assert await code_of(client, request) == "OUTSIDE_CUT_OFF"
    assert place.connections == 1


async def test_an_idle_connection_is_closed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "KEPT_SECONDS", 0.02)
    gone = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(HELLO)
        await peer.hung_up()
        gone.set()

    async with speaking(script) as place, a_client() as client:
        assert await body_of(client, place.get()) == b"hello"
        await gone.wait()
        assert await body_of(client, place.get()) == b"hello"
    assert place.connections == 2


# -- the end ---------------------------------------------------------------------------------------


@asynccontextmanager
async def hanging(*answer: bytes) -> AsyncIterator[tuple[Place, asyncio.Event, asyncio.Event]]:
    """Says something and waits for the client to hang up; sets an event when it was asked, and when that happened."""
    asked, gone = asyncio.Event(), asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(*answer)
        asked.set()
        await peer.hung_up()
        gone.set()

    async with speaking(script) as place:
        yield place, asked, gone


async def test_cancelling_who_waits_for_an_answer_hangs_up() -> None:
    async with hanging() as (place, asked, gone), a_client() as client:
        task = asyncio.create_task(client.send(place.get()))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await gone.wait()


async def test_cancelling_who_waits_for_a_body_hangs_up() -> None:
    async with hanging(OK + b"\r\nx") as (place, _, gone), a_client() as client:
        reply = await client.send(place.get())
        assert await reply.some() == b"x"
        task = asyncio.create_task(reply.some())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await gone.wait()
        with pytest.raises(OutsideError, match="OUTSIDE_CUT_OFF"):
            await reply.some()


async def test_a_closed_reply_has_no_more_to_say() -> None:
    async with hanging(OK + b"\r\nx") as (place, _, gone), a_client() as client:
        reply = await client.send(place.get())
        reply.close()
        reply.close()
        await gone.wait()
        with pytest.raises(OutsideError, match="OUTSIDE_CUT_OFF"):
            await reply.read()
        assert not reply.ended


async def test_closing_the_client_ends_what_is_on_its_way() -> None:
    async with hanging() as (place, asked, gone), a_client() as client:
        task = asyncio.create_task(code_of(client, place.get()))
        await asked.wait()
        await client.close()
        assert await task == "OUTSIDE_CUT_OFF"
        await gone.wait()


# -- addresses -------------------------------------------------------------------------------------


@pytest.mark.requirement("S11")
async def test_one_private_address_among_public_ones_is_refused() -> None:
    async with a_client(mixed_example=["8.8.8.8", "10.0.0.1"]) as client:
        assert await code_of(client, OutgoingRequest("GET", "http://mixed.example:1/")) == "ADDRESS_REFUSED"


@pytest.mark.requirement("S11")
async def test_a_name_is_looked_up_once_and_the_connection_goes_to_that_address() -> None:
    """A second answer of the name server, as in a rebinding attack, is never asked for."""
    asked: list[str] = []

    async def lookup(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["192.0.2.1"]

    client = HttpClient(lookup=lookup)
    policy = AddressPolicy(private=frozenset({"inside.example"}))
    async with speaking(answering(HELLO, close=True)) as place:
        requests = [OutgoingRequest("GET", f"http://inside.example:{place.port}/", policy=policy) for _ in range(3)]
        assert await asyncio.gather(*[body_of(client, request) for request in requests]) == [b"hello"] * 3
        assert (asked, place.connections) == (["inside.example"], 3)
    await client.close()


async def test_the_next_address_is_tried_when_one_cannot_be_reached() -> None:
    async with speaking(answering(HELLO)) as place, a_client(two_example=["127.0.0.2", "127.0.0.1"]) as client:
        policy = AddressPolicy(private=frozenset({"two.example"}))
        assert (
            await body_of(client, OutgoingRequest("GET", f"http://two.example:{place.port}/", policy=policy))
            == b"hello"
        )


async def test_a_failed_lookup_is_unreachable_and_tried_again_the_next_time() -> None:
    asked = 0

    async def lookup(host: str, port: int) -> list[str]:
        nonlocal asked
        asked += 1
        raise socket.gaierror(socket.EAI_NONAME, "no such host")

    client = HttpClient(lookup=lookup)
    for _ in range(2):
        assert await code_of(client, OutgoingRequest("GET", "http://nowhere.example/")) == "OUTSIDE_UNREACHABLE"
    assert asked == 2
    await client.close()


@pytest.mark.parametrize(
    ("deadlines", "code"),
    [(Deadlines(connect=0.02), "OUTSIDE_UNREACHABLE"), (Deadlines(connect=9, total=0.02), "OUTSIDE_TIMEOUT")],
)
async def test_a_connection_that_takes_too_long_is_given_up(deadlines: Deadlines, code: str) -> None:
    async def lookup(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    client = HttpClient(lookup=lookup)
    assert await code_of(client, OutgoingRequest("GET", "http://slow.example/", deadlines=deadlines)) == code
    await client.close()


async def test_the_system_is_asked_for_a_name_without_a_lookup_of_our_own() -> None:
    client = HttpClient()
    async with speaking(answering(HELLO)) as place:
        policy = AddressPolicy(private=frozenset({"localhost"}))
        assert (
            await body_of(client, OutgoingRequest("GET", f"http://localhost:{place.port}/", policy=policy)) == b"hello"
        )
        assert await code_of(client, OutgoingRequest("GET", f"http://localhost:{place.port}/")) == "ADDRESS_REFUSED"
    await client.close()


# -- TLS -------------------------------------------------------------------------------------------


def self_made(folder: Path, name: x509.GeneralName) -> tuple[ssl.SSLContext, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(who, who, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([name]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, secret)
    return context, certificate


async def test_tls_checks_the_name_of_the_url_at_the_pinned_address(tmp_path: Path) -> None:
    server, certificate = self_made(tmp_path, x509.DNSName("safe.example"))
    names: list[str | None] = []
    server.sni_callback = lambda _, name, __: names.append(name)
    policy = AddressPolicy(private=frozenset({"*.example"}))
    there = {"safe_example": ["127.0.0.1"], "other_example": ["127.0.0.1"]}
    async with speaking(answering(HELLO), server) as place, a_client(certificate, **there) as client:
        for _ in range(2):
            request = OutgoingRequest("GET", f"https://safe.example:{place.port}/", policy=policy)
            assert await body_of(client, request) == b"hello"
        assert (place.connections, names) == (1, ["safe.example"])
        other = OutgoingRequest("GET", f"https://other.example:{place.port}/", policy=policy)
        assert await code_of(client, other) == "OUTSIDE_UNREACHABLE"


async def test_tls_with_a_literal_address_checks_the_address(tmp_path: Path) -> None:
    server, certificate = self_made(tmp_path, x509.IPAddress(ip_address("127.0.0.1")))
    async with speaking(answering(HELLO), server) as place, a_client(certificate) as client:
        request = OutgoingRequest("GET", f"https://127.0.0.1:{place.port}/", policy=LOOPBACK)
        assert await body_of(client, request) == b"hello"


_ASK = """
import asyncio, sys
from app.outside.http import HttpClient, OutgoingRequest
from tests.outside.raw import LOOPBACK, body_of

print(asyncio.run(body_of(HttpClient(), OutgoingRequest("GET", sys.argv[1], policy=LOOPBACK))))
"""


async def test_tls_trusts_the_authorities_that_the_environment_of_the_process_names(tmp_path: Path) -> None:
    server, certificate = self_made(tmp_path, x509.IPAddress(ip_address("127.0.0.1")))
    async with speaking(answering(HELLO), server) as place, asyncio.timeout(30):
        asking = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _ASK, f"https://127.0.0.1:{place.port}/",
            stdout=asyncio.subprocess.PIPE, env={**os.environ, "SSL_CERT_FILE": str(certificate)}, cwd=ROOT,
        )  # fmt: skip
        printed, _ = await asking.communicate()
    assert printed == b"b'hello'\n"


async def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    server, _ = self_made(tmp_path, x509.IPAddress(ip_address("127.0.0.1")))
    async with speaking(answering(HELLO), server) as place, a_client() as client:
        request = OutgoingRequest("GET", f"https://127.0.0.1:{place.port}/", policy=LOOPBACK)
        assert await code_of(client, request) == "OUTSIDE_UNREACHABLE"
