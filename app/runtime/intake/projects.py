"""Projects: named groups of a tenant's sessions. Create, rename, delete, and move sessions into and out of them.

A project is a thread of the system's own, so that it is stored, replayed and deleted like everything else; a session
says in its metadata which project it belongs to. Leaves to others: status codes and spelling (the protocols).
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from app.core.clock import iso
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.principal import Principal
from app.core.value import value
from app.events import ports
from app.events.catalog import thread as facts
from app.events.catalog.project import (
    ProjectDeleted,
    ProjectSessionAssigned,
    ProjectSessionListed,
    ProjectUpserted,
)
from app.events.ports import Refused
from app.events.recorder import Recorder, Scope
from app.runtime.intake.rejection import Rejected
from app.views.controls import PROJECT, project_of
from app.views.ports import Reader
from app.views.thread import Thread

PREFIX: Final = "sys_project_"
_AFTER_PREFIX: Final = "sys_project`"
"""The text that follows all ids with the prefix."""
FOLDER: Final = "workingDirectory"
MAX_PROJECTS: Final = 1000
"""Of a tenant."""
_LOCKS: Final = 64
_PAGE: Final = 1000


@value(frozen=True, slots=True)
class Project:
    id: str
    name: str
    working_directory: str
    created_at: int
    updated_at: int


class Projects:
    def __init__(self, recorder: Recorder, reader: Reader) -> None:
        self._recorder, self._reader = recorder, reader
        self._naming = [asyncio.Lock() for _ in range(_LOCKS)]

    async def list(self, tenant: str) -> list[Project]:
        """Oldest first."""
        found = await self._reader.threads_between(tenant, PREFIX, _AFTER_PREFIX, MAX_PROJECTS)
        return sorted(map(_project, found), key=lambda one: (one.created_at, one.id))

    async def find(self, tenant: str, project_id: str) -> Project | None:
        found = await self._reader.thread(tenant, PREFIX + project_id)
        return _project(found) if isinstance(found, Thread) and found.deleted_at is None else None

    async def create(self, who: Principal, name: str, working_directory: str = "") -> Project | Rejected:
        """Refused with the project as the winner when the name is taken. Of two that are created at once on two
        servers the older one stays."""
        async with self._lock(who):
            known = await self.list(who.tenant)
            if (taken := _named(known, name)) is not None:
                return _duplicate(taken)
            if len(known) >= MAX_PROJECTS:
                return Rejected(Failure("QUEUE_FULL", f"There are {MAX_PROJECTS} projects already."))
            project_id = new_id("project")
            thread = facts.ThreadCreated(title=name, metadata={FOLDER: working_directory}, owner="system")
            fact = ProjectUpserted(project_id=project_id, name=name, working_directory=working_directory)
            scope = Scope(who.tenant, PREFIX + project_id, actor=who.actor)
            answer = await self._recorder.record(scope, thread, fact, conditions=[ports.ThreadIsNew()])
            if isinstance(answer, Refused):
                return Rejected(answer.failure, answer.winner)
            older = _named(await self.list(who.tenant), name)
            if older is not None and older.id != project_id:
                await self._delete(who, project_id, name)
                return _duplicate(older)
        made = await self.find(who.tenant, project_id)
        return made or _missing()

    async def rename(self, who: Principal, project_id: str, name: str) -> Project | Rejected:
        async with self._lock(who):
            known = await self.list(who.tenant)
            project = next((one for one in known if one.id == project_id), None)
            if project is None:
                return _missing()
            taken = _named(known, name)
            if taken is not None and taken.id != project_id:
                return _duplicate(taken)
            fact = ProjectUpserted(
                project_id=project_id,
                name=name,
                working_directory=project.working_directory,
                created_at=iso(project.created_at),
            )
            scope = Scope(who.tenant, PREFIX + project_id, actor=who.actor)
            answer = await self._recorder.record(scope, facts.ThreadUpdated(title=name), fact)
            if isinstance(answer, Refused):
                return Rejected(answer.failure, answer.winner)
        return await self.find(who.tenant, project_id) or _missing()

    async def delete(self, who: Principal, project_id: str) -> Project | Rejected:
        """Only an empty one: whoever calls says what becomes of the sessions first."""
        project = await self.find(who.tenant, project_id)
        if project is None:
            return _missing()
        refused = await self._delete(who, project_id, project.name)
        return refused or project

    async def _delete(self, who: Principal, project_id: str, name: str) -> Rejected | None:
        scope = Scope(who.tenant, PREFIX + project_id, actor=who.actor)
        fact = ProjectDeleted(project_id=project_id, name=name)
        answer = await self._recorder.record(scope, fact, facts.ThreadDeleted())
        return Rejected(answer.failure, answer.winner) if isinstance(answer, Refused) else None

    # -- sessions ------------------------------------------------------------------------------------

    async def sessions(self, tenant: str, project_id: str) -> Sequence[Thread]:
        """Those that belong to the project now, in the order in which they came."""
        candidates: dict[str, None] = {}
        after = 0
        types = (ProjectSessionListed.type,)
        while page := await self._reader.events_of(tenant, PREFIX + project_id, types, after, 2**62, _PAGE):
            candidates |= {event.payload["sessionId"]: None for event in page}
            after = page[-1].seq
        found: list[Thread] = []
        for session_id in candidates:
            thread = await self._reader.thread(tenant, session_id)
            if isinstance(thread, Thread) and thread.deleted_at is None and project_of(thread.metadata) == project_id:
                found.append(thread)
        return found

    async def assign(self, who: Principal, thread: Thread, project_id: str | None) -> Rejected | None:
        """Into a project, into another one, or out of all. The project's log names the session first: a crash in
        between leaves a name that is looked up in vain."""
        previous = project_of(thread.metadata)
        if previous == project_id:
            return None
        if project_id is not None:
            scope = Scope(who.tenant, PREFIX + project_id, actor=who.actor)
            listed = ProjectSessionListed(session_id=thread.id)
            answer = await self._recorder.record(scope, listed, conditions=[ports.ThreadAccepts()])
            if isinstance(answer, Refused):
                return _missing()
        changed = facts.ThreadUpdated(metadata={PROJECT: project_id})
        fact = ProjectSessionAssigned(session_id=thread.id, project_id=project_id, previous_project_id=previous)
        answer = await self._recorder.record(
            Scope(who.tenant, thread.id, actor=who.actor), changed, fact, conditions=[ports.ThreadAccepts()]
        )
        return Rejected(answer.failure, answer.winner) if isinstance(answer, Refused) else None

    def _lock(self, who: Principal) -> asyncio.Lock:
        return self._naming[hash(who.tenant) % len(self._naming)]


def _project(thread: Thread) -> Project:
    folder = thread.metadata.get(FOLDER)
    return Project(
        thread.id.removeprefix(PREFIX),
        thread.title or "",
        folder if isinstance(folder, str) else "",
        thread.created_at,
        thread.updated_at,
    )


def _named(known: Sequence[Project], name: str) -> Project | None:
    """Names differ in more than their case."""
    return next((one for one in known if one.name.casefold() == name.casefold()), None)


def _missing() -> Rejected:
    return Rejected(Failure("PROJECT_NOT_FOUND", "There is no such project."))


def _duplicate(taken: Project) -> Rejected:
    return Rejected(Failure("PROJECT_EXISTS", "A project has this name already."), taken.id)
