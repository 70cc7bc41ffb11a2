"""The append port: what the recorder hands to the log, and what comes back.

A command is all or nothing. Its conditions are tested inside the transaction that appends it; when one
fails, nothing of the command is appended and the answer names who won. The store implements `EventLog`.
"""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, final

from uuid_utils import uuid7

from app.core.errors import Failure, HoldfastError
from app.core.keys import ApiKey
from app.core.value import mutable, value
from app.events.envelope import Event


class StoreError(HoldfastError):
    """The database could not do what was asked; nothing of it was stored unless the code says otherwise."""


class StorageFull(StoreError):
    def __init__(self) -> None:
        super().__init__("STORAGE_FULL", "there is no space left for new events", retryable=True)


class StorageDown(StoreError):
    def __init__(self, message: str = "the database does not answer") -> None:
        super().__init__("STORAGE_DOWN", message, retryable=True)


class StorageUnreachable(StorageDown):
    """Nothing takes connections at that address, or not with that name and password: waiting would hardly help."""


class StorageFailed(StoreError):
    """The disk or its file system refused: an I/O error or a missing permission, not a lack of space."""

    def __init__(self, message: str) -> None:
        super().__init__("STORAGE_FAILED", message, retryable=True)


class StorageCorrupt(StoreError):
    """The database's own file is damaged: what else of it can be read is unknown."""

    def __init__(self, message: str) -> None:
        super().__init__("STORAGE_CORRUPT", message)


class StorageBroken(StoreError):
    """A failed sync: what the disk holds is unknown, so the process must stop rather than try again."""

    def __init__(self) -> None:
        super().__init__("STORAGE_BROKEN", "syncing data to the disk failed")


@final
class Draft:
    """An event before it has a place in the log; written out for the reason that `Event` is."""

    __slots__ = (
        "actor",
        "apart",
        "at",
        "blobs",
        "checked",
        "encoded",
        "id",
        "parent_id",
        "payload",
        "prevalidated",
        "run_id",
        "screened",
        "type",
    )

    def __init__(
        self,
        type: str,
        payload: dict[str, Any],
        run_id: str | None = None,
        actor: str = "system",
        parent_id: str | None = None,
        screened: bool = False,
        prevalidated: bool = False,
        blobs: "tuple[BlobDraft, ...]" = (),
        apart: tuple[str, ...] = (),
        at: int = 0,
        encoded: bytes = b"",
    ) -> None:
        self.id = "evt_" + uuid7().hex
        """As `new_id` makes them: every append makes one."""
        self.type = type
        self.payload = payload
        self.run_id = run_id
        self.actor = actor
        self.parent_id = parent_id
        self.screened = screened
        """Looked through for secrets, with what is around it."""
        self.prevalidated = prevalidated
        """Of a catalog payload that was checked as it was built, or that a typed builder made."""
        self.blobs = blobs
        self.apart = apart
        """Fields that leave the payload for a blob, however small they are."""
        self.at = at
        self.encoded = encoded
        """The canonical payload, as the recorder checked it."""
        self.checked = False
        """Redacted and validated: set by the recorder alone."""


@value(frozen=True, slots=True)
class BlobDraft:
    """Content that leaves its payload because it is large; stored in the same transaction as its event."""

    sha256: str
    data: bytes
    mime: str
    records: tuple[str, ...] = ()
    """The memory records whose text it holds: it is deleted when one of them is forgotten."""


@value(frozen=True, slots=True)
class Fence:
    """The right of an executor to append for its run: a newer epoch makes it stale."""

    run_id: str
    epoch: int


# -- conditions ---------------------------------------------------------------------------------------


@value(frozen=True, slots=True)
class ThreadIsNew:
    """The thread does not exist yet, and never did (a tombstone counts)."""

    minted: bool = False
    """Its id was made for it a moment ago, and so were those of its runs: nobody can have used them, and the database
    is not asked."""


@value(frozen=True, slots=True)
class ThreadAccepts:
    """The thread exists and is neither closed nor deleted. With `create`, it may also be new."""

    create: bool = False


@value(frozen=True, slots=True)
class ThreadHasRoom:
    """Fewer than `limit` root runs of the thread are active; `limit=1` means free."""

    limit: int


@value(frozen=True, slots=True)
class ThreadIdleSince:
    """The thread has had no event after this time, in milliseconds."""

    at_ms: int


@value(frozen=True, slots=True)
class RunNotTerminal:
    run_id: str


@value(frozen=True, slots=True)
class RunUnclaimed:
    """The run is queued or waiting: no executor works on it."""

    run_id: str


@value(frozen=True, slots=True)
class RunAtWork:
    """The run is running: an executor works on it, or did until it died."""

    run_id: str


@value(frozen=True, slots=True)
class RunEnded:
    run_id: str


@value(frozen=True, slots=True)
class EntryShows:
    """The transcript's entry still shows what whoever wants to change it has seen."""

    message_id: str
    content: Any
    details: Any


@value(frozen=True, slots=True)
class CommandsSeen:
    """The run was sent no more than so many commands that it must have seen before it may complete."""

    run_id: str
    count: int


@value(frozen=True, slots=True)
class NotCancelled:
    """No cancel of the run was accepted. Whoever got the answer that it will be cancelled finds it so."""

    run_id: str


@value(frozen=True, slots=True)
class InterruptOpen:
    interrupt_id: str


@value(frozen=True, slots=True)
class KeyUnused:
    """Stores the Idempotency-Key with the command; a used key is refused and names the run it stands for."""

    route: str
    key: str
    body_hash: str
    run_id: str
    expires_at: int


@value(frozen=True, slots=True)
class ClaimRun:
    """Takes the run's lease with the next epoch; refused while another owner's lease is alive.

    The command's event must have the same epoch: the fold of the log is what fences are checked against.
    """

    run_id: str
    owner: str
    epoch: int
    seconds: float
    claimed_at_submit: bool = False
    """The run comes into being with this very command, on a thread where nothing else is active."""
    suspect: int = 0
    """How many owners in a row died of nothing known while they had the run, and it had completed no step."""
    deaths: int = 0
    """How many of them had no other suspect at work."""
    previous: str | None = None
    """The last of them."""


@value(frozen=True, slots=True)
class ProjectTurn:
    """It is the run's turn in its project's line: no other job of the line runs, and none is before it."""

    project_id: str
    run_id: str


@value(frozen=True, slots=True)
class ApiKeyStored:
    """Stores an API key with the command, so that a key and the word of it are one commit."""

    key: ApiKey


@value(frozen=True, slots=True)
class ApiKeyRevoked:
    """Revokes an API key with the command; refused unless the tenant has it and it still counts."""

    key_id: str
    at: int


@value(frozen=True, slots=True)
class EvaluationDue:
    """Notes with the end of a run that its shadow gates are still to judge it, so that no crash forgets them."""

    run_id: str


@value(frozen=True, slots=True)
class EvaluationDone:
    """Takes that note away with the verdicts; refused when it is gone, because the verdicts are stored already."""

    run_id: str


@value(frozen=True, slots=True)
class WebhookStored:
    """Stores a webhook with the command, or deletes it (no `state`). Its secrets are sealed, and in no event."""

    webhook_id: str
    state: bytes | None
    secrets: bytes | None = None
    """None leaves them as they are."""
    if_new: bool = False
    """One that is there already is left as it is."""


@value(frozen=True, slots=True)
class PushStored:
    """Stores where an A2A client wants notifications of a run, sealed, or deletes it (None). It is in no event."""

    run_id: str
    config_id: str
    at: int
    sealed: bytes | None


@value(frozen=True, slots=True)
class McpGrantStored:
    """Stores a tenant's grant for an MCP server with the command, sealed, or deletes it (None). It is in no event."""

    server: str
    sealed: bytes | None


@value(frozen=True, slots=True)
class ScheduleStored:
    """Changes where a schedule stands with the command that says so. One that exists is not created again."""

    name: str
    change: Literal["created", "changed", "deleted", "paused", "resumed"]
    at: int
    spec: bytes | None = None
    """Of one that is created or changed."""
    attached: bytes | None = None
    """How its runs are submitted besides, as JSON."""


@value(frozen=True, slots=True)
class BlobShared:
    """Makes the thread another one that needs a stored blob, without a copy of its content."""

    sha256: str


@value(frozen=True, slots=True)
class DropDeltas:
    """Removes stored events with the command that commits to them. Refused when others were removed meanwhile."""

    ranges: tuple[tuple[int, int], ...]
    """The first and the last `seq` of each."""
    compacted: int
    """The thread's `compacted` when they were chosen."""


@value(frozen=True, slots=True)
class MemoryIs:
    """The memory record has one of these statuses; with none given, it does not exist yet."""

    record_id: str
    statuses: frozenset[str] = frozenset()


@value(frozen=True, slots=True)
class MemoryIndexed:
    """Enters a memory record into the search index with the command."""

    record_id: str
    terms: Mapping[str, int]
    """Each term with how often it occurs."""
    fingerprint: str
    """Equal for records that say the same."""
    slot: str | None = None
    """Equal for records of which only the newest is in force."""


@value(frozen=True, slots=True)
class MemoryUnindexed:
    """Takes memory records out of the search index with the command. With `erase`, also deletes their content and
    every blob that repeats it."""

    record_ids: tuple[str, ...]
    erase: bool = False


Condition: TypeAlias = (
    ThreadIsNew
    | ThreadAccepts
    | ThreadHasRoom
    | ThreadIdleSince
    | RunNotTerminal
    | RunUnclaimed
    | RunAtWork
    | RunEnded
    | EntryShows
    | CommandsSeen
    | NotCancelled
    | InterruptOpen
    | KeyUnused
    | ClaimRun
    | ProjectTurn
    | ApiKeyStored
    | ApiKeyRevoked
    | DropDeltas
    | EvaluationDue
    | EvaluationDone
    | WebhookStored
    | PushStored
    | McpGrantStored
    | ScheduleStored
    | BlobShared
    | MemoryIs
    | MemoryIndexed
    | MemoryUnindexed
)


@mutable(slots=True)
class Command:
    """Events of one thread that are appended together, or not at all."""

    tenant: str
    thread_id: str
    drafts: list[Draft]
    conditions: Sequence[Condition] = ()
    fence: Fence | None = None


@value(frozen=True, slots=True)
class Appended:
    events: tuple[Event, ...]


@value(frozen=True, slots=True)
class Refused:
    """A condition did not hold. `winner` is who or what stands in the way: a run, an interrupt, an owner."""

    failure: Failure
    winner: str | None = None
    winner_thread: str | None = None
    """Where that run is, if it is on another thread."""


Answer: TypeAlias = Appended | Refused


class EventLog(Protocol):
    def append(self, command: Command) -> Awaitable[Answer]:
        """Takes the command now: what is appended later comes later in the log, whether this is awaited first or not.
        The answer is there when the events are durable and published, or the command was refused."""
        ...
