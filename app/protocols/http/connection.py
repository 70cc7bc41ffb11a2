"""The connection under an HTTP request: uvicorn's own, except that an answer may drop a peer that does not read.

uvicorn ends a connection by letting its buffer run out, which a peer that never reads prevents for ever. Whether a
reader is too slow is decided by whoever streams to it; here it only loses its connection.
"""

from collections.abc import Callable
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

DROP: Final = "holdfast.drop"
"""The key in `scope["extensions"]` of a call that ends the connection at once."""


class HttpConnection(HttpToolsProtocol):
    def on_message_begin(self) -> None:
        super().on_message_begin()
        extensions: dict[str, Any] = {**self.scope.get("extensions", {}), DROP: self._drop}
        self.scope["extensions"] = extensions

    def _drop(self) -> None:
        self.transport.abort()


def drop_of(scope: Any) -> Callable[[], None]:
    """What drops this request's connection; under another server, nothing does."""
    drop: Callable[[], None] = (scope.get("extensions") or {}).get(DROP, lambda: None)
    return drop
