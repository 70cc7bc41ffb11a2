"""What a client of `/mcp` declared: the revision it speaks, what its user can be asked, whether it knows tasks.

Since 2026-07-28 every request says so itself. Before, `initialize` said it once: the session id that we gave then
carries what matters, so that no server has to remember a session. Leaves to others: what the methods do.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final

import uuid_utils

from app.core.json import JsonObject
from app.core.value import value
from app.protocols.auth.shown import Headers
from app.protocols.dialects.jsonrpc import INVALID_PARAMS, RpcError, RpcMessage

STATELESS: Final = "2026-07-28"
NEWEST_HANDSHAKE: Final = "2025-11-25"
HANDSHAKES: Final = ("2025-03-26", "2025-06-18", NEWEST_HANDSHAKE)
SUPPORTED: Final = [*HANDSHAKES, STATELESS]
TASKS: Final = "io.modelcontextprotocol/tasks"
SESSION_HEADER: Final = "mcp-session-id"

HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022

_VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
_NAMED: Final = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""The parameter that the header `Mcp-Name` repeats."""
_CHECKED_NAMES: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Clients need not send the header for methods of an extension."""
_ELICITS, _PLAIN = "e", "p"


@value(frozen=True, slots=True)
class ClientTerms:
    """`session` is None for a stateless client, and for an older one that left its session id away."""

    revision: str
    elicits: bool = False
    tasks: bool = False
    session: str | None = None

    @property
    def stateless(self) -> bool:
        return self.revision == STATELESS


def terms_of(message: RpcMessage, headers: Headers) -> ClientTerms:
    """Raises RpcError for a request that contradicts itself or speaks another revision."""
    version = _header(headers, b"mcp-protocol-version")
    meta = message.params.get("_meta")
    declared = isinstance(meta, dict) and _VERSION_KEY in meta
    if version in HANDSHAKES or (version is None and not declared):
        return _handshake_terms(version or HANDSHAKES[0], headers)
    if message.is_notification or message.method is None:
        if version != STATELESS:
            raise unsupported(version or "")
        return ClientTerms(STATELESS)
    return _stateless_terms(message, meta, version, headers)


def new_session(params: Mapping[str, Any]) -> str:
    """The id of a session that `initialize` opens."""
    capabilities = params.get("capabilities")
    elicits = isinstance(capabilities, dict) and isinstance(capabilities.get("elicitation"), dict)
    return uuid_utils.uuid7().hex + (_ELICITS if elicits else _PLAIN)


def unsupported(requested: str) -> RpcError:
    return RpcError(
        UNSUPPORTED_VERSION, "Unsupported protocol version", {"supported": SUPPORTED, "requested": requested[:40]}
    )


def require_tasks(terms: ClientTerms) -> None:
    if not terms.tasks:
        needed: JsonObject = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        raise RpcError(MISSING_CAPABILITY, "Missing required client capability", needed)


def _handshake_terms(version: str, headers: Headers) -> ClientTerms:
    session = _header(headers, SESSION_HEADER.encode())
    if session is not None and (len(session) != 33 or session[-1] not in (_ELICITS, _PLAIN) or not session.isalnum()):
        raise RpcError(INVALID_PARAMS, "The session id is none of this server's.")
    return ClientTerms(version, elicits=session is not None and session[-1] == _ELICITS, session=session)


def _stateless_terms(message: RpcMessage, meta: Any, version: str | None, headers: Headers) -> ClientTerms:
    if not isinstance(meta, dict) or _VERSION_KEY not in meta or _CAPABILITIES_KEY not in meta:
        raise RpcError(INVALID_PARAMS, f"params._meta must have {_VERSION_KEY} and {_CAPABILITIES_KEY}.")
    requested, capabilities = meta[_VERSION_KEY], meta[_CAPABILITIES_KEY]
    if version is None or version != requested:
        raise RpcError(HEADER_MISMATCH, "The header MCP-Protocol-Version is not the version in params._meta.")
    if _header(headers, b"mcp-method") != message.method:
        raise RpcError(HEADER_MISMATCH, "The header Mcp-Method is not the method of the body.")
    named = _NAMED.get(message.method or "")
    if named is not None and isinstance(value := message.params.get(named), str):
        shown = _decoded(_header(headers, b"mcp-name"))
        if shown != value and (shown is not None or message.method in _CHECKED_NAMES):
            raise RpcError(HEADER_MISMATCH, f"The header Mcp-Name is not the parameter {named!r} of the body.")
    if requested != STATELESS:
        raise unsupported(str(requested))
    if not isinstance(capabilities, dict):
        raise RpcError(INVALID_PARAMS, "The client's capabilities must be an object.")
    return ClientTerms(STATELESS, elicits=_elicits(capabilities), tasks=TASKS in _object(capabilities, "extensions"))


def _elicits(capabilities: JsonObject) -> bool:
    elicitation = capabilities.get("elicitation")
    # An empty object means forms, as in the revisions before there was anything else.
    return isinstance(elicitation, dict) and (not elicitation or "form" in elicitation)


def _object(value: JsonObject, name: str) -> JsonObject:
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def _header(headers: Headers, name: bytes) -> str | None:
    found = headers.get(name)
    return None if found is None else found.decode("latin-1")


def _decoded(value: str | None) -> str | None:
    """A header's value; one that ASCII cannot hold is sent as `=?base64?...?=`."""
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
