"""Projects: named groups of sessions, and which session belongs to which."""

from app.events.catalog.base import EventModel, event


@event("runtime.project.upserted", of_thread=True, everywhere=True)
class ProjectUpserted(EventModel):
    """A project was created or renamed. It is a thread of the system's own, which this event belongs to."""

    project_id: str
    name: str
    working_directory: str
    created_at: str | None = None
    """Of one that was renamed; a new one was created with the event."""


@event("runtime.project.deleted", of_thread=True, everywhere=True)
class ProjectDeleted(EventModel):
    project_id: str
    name: str


@event("runtime.project.session.listed", of_thread=True)
class ProjectSessionListed(EventModel):
    """In the project's log, before the session itself says that it belongs there: where its sessions are looked for."""

    session_id: str


@event("runtime.project.session.assigned", of_thread=True, announced=True)
class ProjectSessionAssigned(EventModel):
    """In the session's log, together with its metadata. Without a project the session belongs to none."""

    session_id: str
    project_id: str | None = None
    previous_project_id: str | None = None
