"""For a telemetry sink of your own: a class with `send(events)`, plain or async, and its `SinkKind` as an entry point
of `holdfast.sinks`."""

from app.protocols.telemetry.sinks import Sink, SinkKind

__all__ = ["Sink", "SinkKind"]
