"""A collector of traces by OTLP over HTTP, on a port of its own: what an exporter sent is there to be read."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector(ThreadingHTTPServer):
    """What an OTLP collector and a tool's server hear."""

    def __init__(self) -> None:
        self.bodies: dict[str, list[bytes]] = {}
        self.parents: list[str | None] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def spans(self) -> list[Span]:
        return [
            span
            for body in self.bodies.get("/v1/traces", ())
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"] or 0))
        self.server.bodies.setdefault(self.path, []).append(body)
        self.server.parents.append(self.headers["traceparent"])
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    thread = threading.Thread(target=collector.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield collector
    finally:
        collector.shutdown()
        thread.join()
        collector.server_close()
