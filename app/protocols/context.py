"""What the protocols are given: ports of the rooms below, put together by wiring."""

from collections.abc import Awaitable, Callable, Container, Mapping
from contextlib import AbstractContextManager
from typing import Literal, Protocol

from app.core.clock import Clock
from app.core.json import JsonObject
from app.core.metrics import Metrics
from app.core.settings import Settings
from app.core.value import value
from app.evals.services import EvalServices
from app.events.hub import EventSource
from app.events.recorder import Recorder
from app.extensions.registry import ExtensionRegistry
from app.protocols.auth.access import Access
from app.runtime.automation.push_desk import PushDesk
from app.runtime.automation.schedule_desk import ScheduleDesk
from app.runtime.automation.session_jobs import SessionJobs
from app.runtime.automation.webhook_desk import WebhookDesk
from app.runtime.intake.amendments import AmendmentDesk
from app.runtime.intake.commands import Commands
from app.runtime.intake.embedding_desk import EmbeddingDesk
from app.runtime.intake.interrupts import InterruptAnswers
from app.runtime.intake.keys import Keys
from app.runtime.intake.ledger import Ledger
from app.runtime.intake.mcp_logins import McpLogins
from app.runtime.intake.memory_desk import MemoryDesk
from app.runtime.intake.ports import RunClient, RunLifecycle
from app.runtime.intake.projects import Projects
from app.runtime.intake.reruns import Reruns
from app.runtime.intake.skill_desk import SkillDesk
from app.runtime.intake.threads import Threads
from app.runtime.intake.todo_list import TodoList
from app.runtime.intake.undo import Undo
from app.runtime.run.toolsets import Toolsets
from app.runtime.workspaces import CurrentWorkspace
from app.views.file import Files
from app.views.ports import Reader
from app.workspace.compiled import CompiledAgent, CompiledWorkspace


class SharedRates(Protocol):
    on_use: Callable[[tuple[str, str], int], None] | None

    def used_elsewhere(self, who: tuple[str, str], count: int) -> None: ...


class Standby(Protocol):
    """A copy of the database that is a little behind; positions are those of its log."""

    served: int
    refused: int

    @property
    def staleness_seconds(self) -> float: ...

    async def position(self) -> int: ...

    async def may_serve(self, position: int) -> bool: ...

    def reading(self) -> AbstractContextManager[None]:
        """Within it, reads of the current task may go to the standby."""
        ...


@value(frozen=True, slots=True)
class ServerContext:
    service: RunClient
    lifecycle: RunLifecycle
    commands: Commands
    reruns: Reruns
    undo: Undo
    todos: TodoList
    threads: Threads
    projects: Projects
    session_jobs: SessionJobs
    recorder: Recorder
    extensions: ExtensionRegistry
    amendments: AmendmentDesk
    interrupts: InterruptAnswers
    memory: MemoryDesk
    embeddings: EmbeddingDesk
    skills: SkillDesk
    reader: Reader
    hub: EventSource
    metrics: Metrics
    workspace: CurrentWorkspace
    workspace_files: Callable[[str], Awaitable[Mapping[str, bytes] | None]]
    """The files of a workspace that runs used, by its digest."""
    toolsets: Toolsets
    files: Files
    evals: EvalServices
    webhooks: WebhookDesk
    pushes: PushDesk
    schedules: ScheduleDesk
    mcp_logins: McpLogins
    max_upload_bytes: int
    workspace_of: Callable[[str | None], Awaitable[CompiledWorkspace | None]]
    """The compiled workspace of a digest, if it can still be compiled."""
    adapters: Container[str]
    """The workflow adapters that this installation can run."""
    backends: Container[str]
    """The kinds of backend that this installation can run."""
    nodes_of: Callable[[CompiledAgent], Awaitable[frozenset[str] | None]]
    """The nodes of the graph that an agent brings along; None where it brings none, or they cannot be known."""
    media_of: Callable[[CompiledAgent], frozenset[str]]
    """What an agent's model takes and makes, as `input.image` or `output.audio`; nothing where it has none."""
    access: Access
    keys: Keys
    ledger: Ledger
    settings: Settings
    clock: Clock
    ping: Callable[[], Awaitable[None]]
    sandbox: Callable[[], JsonObject | None]
    """How complete the sandbox of programs is; None while that is being looked up."""
    doctor: Callable[[], Awaitable[JsonObject]]
    """The checks of `holdfast doctor`, as this server sees them."""
    bus: Callable[[], JsonObject | None] = lambda: None
    """How this server hears of others on the same database; None where there can be none."""
    share_rates: Callable[[SharedRates], None] = lambda rates: None
    """Makes callers' limits hold at all servers together."""
    standby: Standby | None = None
    """Answers reports, where the settings name one."""
    on_disconnect: Literal["detach", "cancel"] = "detach"
    """What becomes of a run whose OpenAI client goes away, unless the request says it."""
