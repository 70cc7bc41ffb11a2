"""The OpenTelemetry SDK, where it is installed (extra `otel`): batches spans and sends them by OTLP over HTTP.

Where to, how often and with which headers the SDK reads from its own variables (`OTEL_EXPORTER_OTLP_ENDPOINT`, ...).
"""

from typing import Any

from opentelemetry.trace import Tracer

from app import __version__
from app.core.errors import HoldfastError


def open_tracer(exporter: Any = None) -> tuple[Tracer, Any, Any]:
    """The tracer, the source of its ids, and what to shut down in the end. `exporter` replaces OTLP."""
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

        if exporter is None:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise HoldfastError("TRACES_NOT_INSTALLED", "traces are on, but the extra `otel` is not installed") from error

    class GivenIds(RandomIdGenerator):
        """Ids that were decided beforehand; a span follows at once, on the same task."""

        def __init__(self) -> None:
            self._trace = self._span = 0

        def take_next(self, trace_id: str, span: str) -> None:
            self._trace, self._span = int(trace_id, 16), int(span, 16)

        def generate_trace_id(self) -> int:
            return self._trace

        def generate_span_id(self) -> int:
            return self._span

    ids = GivenIds()
    resource = Resource.create({"service.name": "holdfast", "service.version": __version__})
    provider = TracerProvider(resource=resource, id_generator=ids, shutdown_on_exit=False)
    provider.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter()) if exporter is None else SimpleSpanProcessor(exporter)
    )
    return provider.get_tracer("holdfast", __version__), ids, provider
