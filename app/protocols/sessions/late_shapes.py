"""The shapes of what session routes answer, as `http.late_shapes`: imported for the OpenAPI document only."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from app.protocols.sessions import discovery_shapes, extension_shapes, job_shapes, shapes
else:
    from app.protocols.http.late_shapes import LateShapes

    shapes = LateShapes("app.protocols.sessions.shapes")
    discovery_shapes = LateShapes("app.protocols.sessions.discovery_shapes")
    extension_shapes = LateShapes("app.protocols.sessions.extension_shapes")
    job_shapes = LateShapes("app.protocols.sessions.job_shapes")


__all__ = ["discovery_shapes", "extension_shapes", "job_shapes", "shapes"]
