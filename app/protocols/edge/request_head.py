"""uvicorn's HTTP protocol with this server's limit of headers and its answer to those that are larger."""

from starlette.responses import Response

from app.protocols.edge.limits import MAX_HEADER_BYTES, headers_too_large
from app.protocols.http.errors import answer
from app.protocols.wire.uvicorn_connection import HttpProtocol


class RequestProtocol(HttpProtocol):
    max_head_bytes = 2 * MAX_HEADER_BYTES

    def head_refusal(self, path: str) -> Response:
        return answer(headers_too_large(), path=path)
