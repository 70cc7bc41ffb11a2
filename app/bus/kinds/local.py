"""No bus: a server that is alone, or several on one Postgres that find each other's news by polling."""

from collections.abc import Callable, Sequence

from app.bus.contract import Bus, BusDeps, BusDown, BusKind, Receive


class LocalBus:
    connected = False

    def start(self, receive: Receive, on_connected: Callable[[], None]) -> None:
        return

    async def listen(self, subject: str) -> None:
        return

    async def leave(self, subject: str) -> None:
        return

    async def publish(self, messages: Sequence[tuple[str, bytes]]) -> None:
        raise BusDown("this server has no bus (HOLDFAST_BUS=local)")

    async def request(self, subject: str, message: bytes, seconds: float) -> bool:
        raise BusDown("this server has no bus (HOLDFAST_BUS=local)")

    def reconnect(self) -> None:
        return

    async def close(self) -> None:
        return


def _make(deps: BusDeps) -> Bus:
    return LocalBus()


KIND = BusKind(name="local", make=_make)
