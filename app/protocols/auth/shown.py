"""What a request shows of its sender: a secret, the peer's address, identity headers. Nothing is judged here."""

import base64
from collections.abc import Mapping
from typing import Final

from starlette.types import Scope

SUBPROTOCOL: Final = "holdfast"
BEARER_SUBPROTOCOL: Final = "holdfast.bearer."
"""A browser cannot set headers on a websocket; it may offer its key as a subprotocol `holdfast.bearer.<key>` beside
`holdfast`, which is the one that is chosen. Unlike an address, this is not written into logs and histories."""

BROWSER_PATHS: Final = frozenset({"/docs", "/openapi.json", "/asyncapi.json"})
"""Pages that a person opens: there a browser may ask for the key itself (HTTP Basic). Nowhere else, because a browser
sends such credentials again by itself, also when another page makes it call."""

Headers = Mapping[bytes, bytes]


def secret_of(scope: Scope, headers: Headers) -> str | None:
    """`Authorization: Bearer`, then `X-Api-Key`, then a websocket's subprotocol; "" for what cannot be a secret."""
    authorization = headers.get(b"authorization")
    if authorization is not None:
        kind, _, secret = authorization.partition(b" ")
        if kind.lower() == b"basic" and scope["type"] == "http" and scope["path"] in BROWSER_PATHS:
            return _password(secret)
        return secret.strip().decode("latin-1") if kind.lower() == b"bearer" else ""
    key = headers.get(b"x-api-key")
    if key is not None:
        return key.decode("latin-1")
    if scope["type"] == "websocket":
        for offered in scope.get("subprotocols", ()):
            if offered.startswith(BEARER_SUBPROTOCOL):
                return str(offered.removeprefix(BEARER_SUBPROTOCOL))
    return None


def _password(encoded: bytes) -> str:
    """The key is the password; the name may be anything."""
    try:
        return base64.b64decode(encoded.strip(), validate=True).partition(b":")[2].decode("ascii")
    except ValueError:
        return ""


def peer_of(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "unknown"
