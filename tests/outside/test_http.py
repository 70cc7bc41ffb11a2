"""Outgoing HTTP: what may be reached, what a redirect may do, how much is read. Real servers on loopback."""

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from app.outside.addresses import AddressPolicy, is_public
from app.outside.http import Deadlines, HttpClient, OutgoingRequest, OutsideError, Segments

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def a_client(**lookups: str) -> AsyncIterator[HttpClient]:
    """A client for which the given names resolve to the given addresses."""

    async def lookup(host: str, port: int) -> list[str]:
        return [lookups[host.replace(".", "_")]]

    client = HttpClient(lookup=lookup)
    try:
        yield client
    finally:
        await client.close()


LOOPBACK = AddressPolicy(private=frozenset({"127.0.0.1"}))


async def code_of(client: HttpClient, request: OutgoingRequest) -> str:
    with pytest.raises(OutsideError) as caught:
        async with await client.send(request) as reply:
            await reply.read()
    return caught.value.code


async def hello(request: web.Request) -> web.Response:
    return web.Response(text="hello")


@pytest.mark.requirement("S11")
@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fec0::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "2002:7f00:1::",
        "64:ff9b::7f00:1",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
        "not an address",
    ],
)
def test_an_address_that_is_not_of_the_public_internet_is_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["1.1.1.1", "8.8.8.8", "2606:4700:4700::1111", "64:ff9b::101:101"])
def test_an_address_of_the_public_internet_is_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.requirement("S11")
@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/",
        "http://[::1]:1/",
        "http://[::ffff:127.0.0.1]:1/",
        "http://2130706433:1/",
        "http://127.1:1/",
        "ftp://example.org/",
        "file:///etc/passwd",
        "http://user:password@example.org/",
        "http://",
    ],
)
async def test_an_address_that_must_not_be_asked_is_refused_before_any_connection(url: str) -> None:
    async with a_client() as client:
        assert await code_of(client, OutgoingRequest("GET", url)) == "ADDRESS_REFUSED"


@pytest.mark.requirement("S11")
@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::1", "::ffff:10.0.0.1"])
async def test_a_name_that_resolves_to_a_private_address_is_refused(address: str) -> None:
    async with a_client(innocent_example=address) as client:
        assert await code_of(client, OutgoingRequest("GET", "http://innocent.example:1/")) == "ADDRESS_REFUSED"


@pytest.mark.requirement("S11")
async def test_a_private_address_is_reached_when_its_host_is_allowed_by_name() -> None:
    async with serving(hello) as base, a_client(inside_example="127.0.0.1") as client:
        port = base.rpartition(":")[2]
        policy = AddressPolicy(private=frozenset({f"inside.example:{port}"}))
        request = OutgoingRequest("GET", f"http://INSIDE.example:{port}/", policy=policy)
        async with await client.send(request) as reply:
            assert await reply.read() == b"hello"
        # The pooled connection of the request above must not serve one without the permission.
        assert await code_of(client, OutgoingRequest("GET", f"http://inside.example:{port}/")) == "ADDRESS_REFUSED"


@pytest.mark.requirement("S11")
async def test_a_redirect_to_a_private_address_is_refused() -> None:
    async def redirect(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "http://127.0.0.2:1/secret"})

    async with serving(redirect) as base, a_client() as client:
        request = OutgoingRequest("GET", base, policy=LOOPBACK, max_redirects=3)
        assert await code_of(client, request) == "ADDRESS_REFUSED"


async def test_a_redirect_to_another_host_than_the_listed_ones_is_refused() -> None:
    async def redirect(request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": "http://other.example/"})

    async with serving(redirect) as base, a_client() as client:
        policy = AddressPolicy(private=frozenset({"127.0.0.1"}), only=frozenset({"127.0.0.1", "*.example.org"}))
        assert await code_of(client, OutgoingRequest("GET", base, policy=policy, max_redirects=1)) == "ADDRESS_REFUSED"


async def test_a_redirect_is_an_error_unless_asked_for() -> None:
    async def redirect(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    async with serving(redirect) as base, a_client() as client:
        assert await code_of(client, OutgoingRequest("GET", base, policy=LOOPBACK)) == "REDIRECT_REFUSED"
        assert (
            await code_of(client, OutgoingRequest("GET", base, policy=LOOPBACK, max_redirects=4)) == "REDIRECT_REFUSED"
        )


async def test_a_redirect_to_another_origin_carries_no_credentials() -> None:
    seen: list[dict[str, str]] = []

    async def target(request: web.Request) -> web.Response:
        seen.append({name.lower(): value for name, value in request.headers.items()})
        return web.Response(text=request.method)

    async with serving(target) as there, a_client() as client:

        async def redirect(request: web.Request) -> web.Response:
            return web.Response(status=303, headers={"Location": there})

        async with serving(redirect) as base:
            headers = {"Authorization": "Bearer secret", "X-Api-Key": "secret", "Accept": "text/plain"}
            request = OutgoingRequest("POST", base, headers, b"x", policy=LOOPBACK, max_redirects=1)
            async with await client.send(request) as reply:
                assert await reply.read() == b"GET"
    assert "secret" not in str(seen) and seen[0]["accept"] == "text/plain"


async def test_a_body_over_the_limit_is_cut_off_with_an_error() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65_536)

    async with serving(endless) as base, a_client() as client:
        request = OutgoingRequest("GET", base, policy=LOOPBACK, max_bytes=1_000_000)
        assert await code_of(client, request) == "OUTSIDE_TOO_LARGE"


async def test_a_compressed_body_is_bounded_by_what_it_unpacks_to() -> None:
    async def bomb(request: web.Request) -> web.Response:
        response = web.Response(body=b"\0" * 8_000_000)
        response.enable_compression(web.ContentCoding.gzip)
        return response

    async with serving(bomb) as base, a_client() as client:
        request = OutgoingRequest("GET", base, policy=LOOPBACK, max_bytes=1_000_000)
        assert await code_of(client, request) == "OUTSIDE_TOO_LARGE"


async def test_a_host_that_stays_silent_times_out() -> None:
    release = asyncio.Event()

    async def silent(request: web.Request) -> web.Response:
        await release.wait()
        return web.Response()

    async with serving(silent) as base, a_client() as client:
        request = OutgoingRequest("GET", base, policy=LOOPBACK, deadlines=Deadlines(idle=0.05))
        assert await code_of(client, request) == "OUTSIDE_TIMEOUT"
        release.set()


async def test_a_port_that_nobody_listens_on_is_unreachable() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        async with a_client() as client:
            url = f"http://127.0.0.1:{free.getsockname()[1]}/private-path?key=secret"
            with pytest.raises(OutsideError) as caught:
                await client.send(OutgoingRequest("GET", url, policy=LOOPBACK))
    assert caught.value.code == "OUTSIDE_UNREACHABLE" and caught.value.failure.retryable
    assert "secret" not in str(caught.value) and "private-path" not in str(caught.value)


async def test_a_segmented_body_arrives_whole_with_its_length() -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=f"{request.content_length}:".encode() + await request.read())

    async with serving(echo) as base, a_client() as client:
        body = Segments(6, lambda: iter([b"ab", b"cd", b"ef"]))
        async with await client.send(OutgoingRequest("POST", base, body=body, policy=LOOPBACK)) as reply:
            assert await reply.read() == b"6:abcdef"


async def test_closing_a_reply_closes_the_connection_at_once() -> None:
    gone = asyncio.Event()

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        try:
            while True:
                await response.write(b"x")
                await asyncio.sleep(0.01)
        except (ConnectionError, asyncio.CancelledError):
            gone.set()
            raise

    async with serving(drip) as base, a_client() as client:
        reply = await client.send(OutgoingRequest("GET", base, policy=LOOPBACK))
        assert await reply.some()
        reply.close()
        await asyncio.wait_for(gone.wait(), 30)
