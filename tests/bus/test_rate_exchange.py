"""Requests that servers without a bus count together: each counts the others' once, and its own never."""

import random
from collections.abc import Sequence

from app.bus.rate_exchange import MAX_SILENT, RateExchange, Use

WHO = ("default", "key_1")


class Sums:
    """As the database keeps them."""

    def __init__(self) -> None:
        self.of: dict[tuple[str, str], int] = {}

    async def count(self, used: Sequence[Use]) -> list[Use]:
        for tenant, caller, number in used:
            self.of[tenant, caller] = self.of.get((tenant, caller), 0) + number
        return [(tenant, caller, self.of[tenant, caller]) for tenant, caller, _ in used]


async def test_every_server_hears_of_all_that_the_others_let_through() -> None:
    chance, sums = random.Random(16), Sums()
    servers = [RateExchange() for _ in range(3)]
    own, heard = [0, 0, 0], [0, 0, 0]
    for server in servers:
        server.used_here(WHO, 1)
        await server.exchange(sums.count)
    first = sums.of[WHO]
    for n in (0, 1):  # which came before somebody else began
        assert await servers[n].exchange(sums.count) == ((*WHO, first - n - 1),)
    for _ in range(500):
        number = chance.randrange(3)
        if chance.random() < 0.6:
            count = chance.randrange(1, 20)
            servers[number].used_here(WHO, count)
            own[number] += count
        else:
            heard[number] += sum(one[2] for one in await servers[number].exchange(sums.count))
    for _ in range(2):
        for number, server in enumerate(servers):
            server.used_here(WHO, 1)
            own[number] += 1
            heard[number] += sum(one[2] for one in await server.exchange(sums.count))
    # The last exchange of one may be before that of another: at most what was said after it is missing.
    for number in range(3):
        others = sum(own) - own[number]
        assert others - 4 <= heard[number] <= others


async def test_a_caller_that_went_away_is_no_longer_asked_for() -> None:
    sums, server = Sums(), RateExchange()
    server.used_here(WHO, 5)
    for _ in range(MAX_SILENT + 2):
        assert await server.exchange(sums.count) == ()
    del sums.of[WHO]  # the database has forgotten it too
    assert await server.exchange(sums.count) == () and WHO not in sums.of
