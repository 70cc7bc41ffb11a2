"""Of many who come at once only a few go ahead in one turn of the loop, in their order."""

import asyncio

from app.core.loop_turns import STARTS_PER_TURN, LoopTurns


class Work:
    """Notes in which turn of the loop it was done."""

    def __init__(self) -> None:
        self.turn = 0
        self.done: list[tuple[int, int]] = []
        self.turns = LoopTurns()
        self.count()

    def count(self) -> None:
        self.turn += 1
        asyncio.get_running_loop().call_soon(self.count)

    async def start(self, number: int) -> None:
        if not self.turns.free():
            await self.turns.wait()
        self.done.append((self.turn, number))


async def test_a_crowd_starts_in_its_order_a_few_in_each_turn() -> None:
    work = Work()
    await asyncio.gather(*(work.start(number) for number in range(50)))
    assert [number for _, number in work.done] == list(range(50))
    turns = [turn for turn, _ in work.done]
    assert {turns.count(turn) for turn in turns[: -(50 % STARTS_PER_TURN)]} == {STARTS_PER_TURN}


async def test_who_comes_one_after_the_other_does_not_wait() -> None:
    work = Work()
    for number in range(3 * STARTS_PER_TURN):
        await asyncio.sleep(0)
        assert work.turns.free(), number


async def test_who_is_cancelled_holds_up_nobody() -> None:
    work = Work()
    tasks = [asyncio.create_task(work.start(number)) for number in range(20)]
    await asyncio.sleep(0)
    for task in tasks[STARTS_PER_TURN:12]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert [number for _, number in work.done] == [*range(STARTS_PER_TURN), *range(12, 20)]
    await asyncio.sleep(0)
    assert work.turns.free()
