"""Of many who come at once only a few go ahead in one turn of the loop, in their order."""

import asyncio

from app.core.loop_turns import SLICE_SECONDS, STARTS_PER_TURN, LoopTurns


class Work:
    """Takes a slice's time on a clock of its own, and notes in which turn of the loop it was done."""

    def __init__(self) -> None:
        self.now = 0.0
        self.turn = 0
        self.done: list[tuple[int, int]] = []
        self.turns = LoopTurns(lambda: self.now)

    def count(self) -> None:
        self.turn += 1
        asyncio.get_running_loop().call_soon(self.count)

    async def start(self, number: int, seconds: float = SLICE_SECONDS) -> None:
        if not self.turns.free():
            await self.turns.wait()
        self.now += seconds
        self.done.append((self.turn, number))


async def test_a_crowd_starts_in_its_order_a_few_in_each_turn() -> None:
    work = Work()
    work.count()
    await asyncio.gather(*(work.start(number) for number in range(50)))
    assert [number for _, number in work.done] == list(range(50))
    turns = [turn for turn, _ in work.done]
    assert max(map(turns.count, turns)) == STARTS_PER_TURN
    assert turns.count(turns[0]) == 1  # the first one used up the slice
    assert turns[-1] - turns[0] >= 49 // STARTS_PER_TURN


async def test_what_takes_little_time_does_not_wait() -> None:
    work = Work()
    work.count()
    await asyncio.gather(*(work.start(number, SLICE_SECONDS / 100) for number in range(50)))
    assert len({turn for turn, _ in work.done}) == 1


async def test_who_is_cancelled_holds_up_nobody() -> None:
    work = Work()
    tasks = [asyncio.create_task(work.start(number)) for number in range(20)]
    await asyncio.sleep(0)
    for task in tasks[2:12]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert [number for _, number in work.done] == [0, 1, *range(12, 20)]
    assert work.turns.free()
