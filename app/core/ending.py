"""A scope that can be ended from outside, such as by a timer or a signal of its owner's own.

What `asyncio.timeout` does, without a time and without awaiting anything: a model call has one and a run has one, and
most of them never end that way. A cancellation of the task itself is never mistaken for ours.
"""

import asyncio
from types import TracebackType
from typing import Self


class Ending:
    """`with Ending() as scope:` until somebody calls `end`; then the scope raises `TimeoutError`."""

    __slots__ = ("_asked", "_cancelling", "_task", "ended")

    def __init__(self) -> None:
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._asked = False
        self.ended = False

    def end(self) -> None:
        """Whatever is awaited in the scope is cancelled; nothing happens outside of it, or a second time."""
        if self._task is not None and not self._asked:
            self._asked = True
            # Never while the task itself is running: the cancel would wait for whatever it awaits after the scope.
            asyncio.get_running_loop().call_soon(self._interrupt)

    def _interrupt(self) -> None:
        if self._task is not None:
            self.ended = True
            self._task.cancel()

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None, "only a task can be ended"
        self._task, self._cancelling = task, task.cancelling()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task, self._task = self._task, None
        # Who else cancelled the task meanwhile has the last word.
        if self.ended and task is not None and task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from error
