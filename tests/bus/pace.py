"""A backend that goes on when a test says so, on whichever server its runs are."""

import asyncio

from app.backends.contract import Context, Result, Resume


class Paced:
    """Its runs say a word for each `step`; the run's input is how many words it says before it ends."""

    kind = "echo"
    resume: Resume = "replay"

    def __init__(self) -> None:
        self._words = asyncio.Semaphore(0)
        self._free = False
        self.entered: asyncio.Queue[str] = asyncio.Queue()

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            self._words.release()

    def finish(self) -> None:
        """From now on nothing waits."""
        self._free = True
        self.step(1000)

    async def run(self, ctx: Context) -> Result:
        self.entered.put_nowait(ctx.run_id)
        said = 0
        while said < int(str(ctx.input)):
            if not self._free:
                await self._words.acquire()
            await ctx.say("msg_1", f"word {said} ")
            said += 1
        return "done"
