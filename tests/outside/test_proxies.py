"""Requests through an operator's proxy: which ones, what the proxy learns, who checks the other end."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from cryptography import x509
from yarl import URL

from app.core.errors import HoldfastError
from app.outside.addresses import AddressPolicy
from app.outside.http import HttpClient, OutgoingRequest
from app.outside.proxies import OutgoingProxies
from tests.outside.raw import LOOPBACK, OK, Peer, Place, answering, body_of, code_of, speaking
from tests.outside.test_connections import self_made

HELLO = OK + b"Content-Length: 5\r\n\r\nhello"
LISTED = AddressPolicy(only=frozenset({"listed.example"}), proxied=True)


@asynccontextmanager
async def through(proxies: OutgoingProxies, ca_file: Path | None = None) -> AsyncIterator[HttpClient]:
    """A client that may not look up any name itself."""

    async def lookup(host: str, port: int) -> list[str]:
        return {"inside.example": ["127.0.0.1"]}[host]

    client = HttpClient(lookup=lookup, proxies=proxies, ca_file=ca_file)
    try:
        async with asyncio.timeout(30):
            yield client
    finally:
        await client.close()


def proxy_at(place: Place, user: str = "") -> URL:
    return URL(f"http://{user}127.0.0.1:{place.port}")


async def test_a_listed_host_is_asked_through_the_proxy_which_looks_it_up() -> None:
    seen: list[bytes] = []

    async def script(peer: Peer) -> None:
        while True:
            seen.append(await peer.request())
            await peer.say(HELLO)

    async with speaking(script) as proxy, through(OutgoingProxies(http=proxy_at(proxy, "me:secret@"))) as client:
        for _ in range(2):
            assert await body_of(client, OutgoingRequest("GET", "http://listed.example/a?b", policy=LISTED)) == b"hello"
    for request in seen:
        lines = request.split(b"\r\n")
        assert lines[0] == b"GET http://listed.example/a?b HTTP/1.1"
        assert b"Proxy-Authorization: Basic " + base64.b64encode(b"me:secret") in lines
    assert (len(seen), proxy.connections) == (2, 1)


async def test_an_encrypted_request_is_tunnelled_and_the_certificate_is_that_of_the_host(tmp_path: Path) -> None:
    """The proxy sees a host and a port; who is at the other end is checked by the client, with the operator's file."""
    server, certificate = self_made(tmp_path, x509.DNSName("listed.example"))
    heads: list[bytes] = []

    async def tunnel(peer: Peer) -> None:
        heads.append((await peer.reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", there.port)
        await peer.say(b"HTTP/1.1 200 Connection established\r\n\r\n")

        async def pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            with suppress(ConnectionError):
                while data := await source.read(65_536):
                    target.write(data)
                    await target.drain()

        passing = [asyncio.create_task(pass_on(peer.reader, writer)), asyncio.create_task(pass_on(reader, peer.writer))]
        try:
            await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in passing:
                task.cancel()
            writer.close()

    async with speaking(answering(HELLO), server) as there, speaking(tunnel) as proxy:
        proxies = OutgoingProxies(https=proxy_at(proxy))
        request = OutgoingRequest("GET", "https://listed.example/secret-path", policy=LISTED)
        async with through(proxies, certificate) as client:
            assert await body_of(client, request) == b"hello"
        async with through(proxies) as client:
            assert await code_of(client, request) == "OUTSIDE_UNREACHABLE"
    assert heads == [b"CONNECT listed.example:443 HTTP/1.1"] * 2


@pytest.mark.requirement("S11")
async def test_a_host_that_is_not_listed_never_goes_through_the_proxy() -> None:
    """The proxy would look it up, and could reach what is refused here."""
    async with speaking(answering(HELLO)) as proxy, through(OutgoingProxies(http=proxy_at(proxy))) as client:
        policy = AddressPolicy(only=frozenset({"inside.example"}))
        assert (
            await code_of(client, OutgoingRequest("GET", "http://inside.example/", policy=policy)) == "ADDRESS_REFUSED"
        )
        other = OutgoingRequest("GET", "http://other.example/", policy=LISTED)
        assert await code_of(client, other) == "ADDRESS_REFUSED"
    assert proxy.connections == 0


@pytest.mark.parametrize("bypass", ["listed.example", ".example", "other, listed.example", "*"])
async def test_a_host_of_no_proxy_is_asked_directly(bypass: str) -> None:
    async with speaking(answering(HELLO)) as there, speaking(answering(OK + b"\r\n")) as proxy:
        proxies = OutgoingProxies(http=proxy_at(proxy), bypass=bypass.replace("listed", "inside"))
        policy = AddressPolicy(frozenset({"inside.example"}), frozenset({"inside.example"}), proxied=True)
        async with through(proxies) as client:
            request = OutgoingRequest("GET", f"http://inside.example:{there.port}/", policy=policy)
            assert await body_of(client, request) == b"hello"
    assert proxy.connections == 0


async def test_what_is_on_this_machine_is_asked_directly() -> None:
    policy = AddressPolicy(LOOPBACK.private, LOOPBACK.private, proxied=True)
    async with speaking(answering(HELLO)) as there, speaking(answering(OK + b"\r\n")) as proxy:
        async with through(OutgoingProxies(http=proxy_at(proxy))) as client:
            assert await body_of(client, OutgoingRequest("GET", there.url, policy=policy)) == b"hello"
    assert proxy.connections == 0


async def test_a_proxy_that_refuses_or_is_gone_is_an_error_without_its_password() -> None:
    refusing = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
    async with speaking(answering(refusing)) as proxy:
        async with through(OutgoingProxies(https=proxy_at(proxy, "me:secret@"))) as client:
            request = OutgoingRequest("GET", "https://listed.example/", policy=LISTED)
            assert await code_of(client, request) == "OUTSIDE_UNREACHABLE"
    async with through(OutgoingProxies(https=proxy_at(proxy, "me:secret@"))) as client:
        with pytest.raises(HoldfastError) as caught:
            await client.send(OutgoingRequest("GET", "https://listed.example/", policy=LISTED))
    assert caught.value.code == "OUTSIDE_UNREACHABLE" and "secret" not in str(caught.value)


def test_the_usual_variables_name_the_proxies() -> None:
    environ = {
        "HTTPS_PROXY": "http://upper:1",
        "https_proxy": "http://lower:2",
        "HTTP_PROXY": "bare:3",
        "NO_PROXY": "x",
    }
    proxies = OutgoingProxies.from_environment(environ)
    assert (str(proxies.https), str(proxies.http), proxies.bypass) == ("http://lower:2", "http://bare:3", "x")
    assert OutgoingProxies.from_environment({}) == OutgoingProxies()


@pytest.mark.parametrize(
    ("bypass", "url", "bypassed"),
    [
        ("", "http://a.example/", False),
        (" , ", "http://a.example/", False),
        ("*", "http://a.example/", True),
        ("a.example", "http://A.example./", True),
        ("example", "http://a.example/", True),
        (".example", "http://a.example/", True),
        ("*.example", "http://a.example/", True),
        ("ample", "http://a.example/", False),
        ("b.example,a.example:81", "http://a.example/", False),
        ("b.example, a.example:80", "http://a.example/", True),
        ("::1", "http://[::1]:1/", True),
        ("[::1]:1", "http://[::1]:1/", True),
        ("[::1]:2", "http://[::1]:1/", False),
    ],
)
def test_no_proxy_lists_names_domains_and_ports(bypass: str, url: str, bypassed: bool) -> None:
    proxy = URL("http://proxy:1")
    assert OutgoingProxies(http=proxy, bypass=bypass).of(URL(url)) == (None if bypassed else proxy)


@pytest.mark.parametrize("text", ["socks5://me:secret@host:1", "http://", "http://[", "http://me:secret@host:port"])
def test_a_variable_that_names_no_proxy_is_refused_without_its_value(text: str) -> None:
    with pytest.raises(HoldfastError, match="HTTPS_PROXY") as caught:
        OutgoingProxies.from_environment({"HTTPS_PROXY": text})
    assert "secret" not in str(caught.value)
