"""Settings of servers that a bus joins, as the tests of the bus have them."""

from tests.bus.conftest import joined, nats_server, shared

__all__ = ["joined", "nats_server", "shared"]
