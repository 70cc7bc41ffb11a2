"""Where an A2A client wants push notifications of a run, and what they show. Leaves to `automation`: sending them."""

from dataclasses import asdict, field
from typing import Any, Final, Protocol

from app.core.value import value

PREFIX: Final = "a2a:"


@value(frozen=True, slots=True)
class PushConfig:
    run_id: str
    id: str
    url: str
    token: str | None = field(default=None, repr=False)
    """Sent along as it is, so that the receiver knows whose notification it is."""
    scheme: str | None = None
    credentials: str | None = field(default=None, repr=False)
    """With the scheme, what `Authorization` says."""
    base_url: str = ""
    """Where the client reached this server: links in what it is sent begin with it."""
    old: bool = False
    """Of a client that speaks 0.3."""

    @property
    def webhook_id(self) -> str:
        """What its deliveries are stored under."""
        return webhook_id(self.run_id, self.id)

    def to_state(self) -> dict[str, Any]:
        state = asdict(self)
        return {name: state[name] for name in state if name not in ("run_id", "id")}


def webhook_id(run_id: str, config_id: str) -> str:
    return f"{PREFIX}{run_id}:{config_id}"


def is_push(named: str) -> bool:
    """Whether a delivery is for an A2A client; ids and names of webhooks contain no colon, URLs begin otherwise."""
    return named.startswith(PREFIX)


def run_and_id(named: str) -> tuple[str, str]:
    run_id, _, config_id = named.removeprefix(PREFIX).rpartition(":")
    return run_id, config_id


class PushConfigs(Protocol):
    """The stored ones; storing and deleting is part of the command that records it (`PushStored`)."""

    async def of_run(self, tenant: str, run_id: str) -> list[tuple[str, bytes]]:
        """Ids and what is sealed, oldest first."""
        ...

    async def purge(self, created_before: int) -> int:
        """Drop the old ones of runs that have ended or are gone."""
        ...
