"""For a bus of your own between servers on one Postgres: a class like `Bus`, and its `BusKind` as an entry point of
`holdfast.buses`."""

from app.bus.contract import Bus, BusDeps, BusDown, BusKind, Receive

__all__ = ["Bus", "BusDeps", "BusDown", "BusKind", "Receive"]
