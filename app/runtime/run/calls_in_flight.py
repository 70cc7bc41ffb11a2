"""The calls that a run's backend has begun and that have not ended.

A call that waits for a person lets its siblings end first, so that none of them is cut off in the middle of an effect;
from then on no call begins, and the run is suspended whatever its backend makes of the exception. What an upstream
framework cancels while the run goes on is finished all the same. Leaves to the context: what a call does.
"""

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from app.core.suspend import Suspended
from app.runtime.run.child_request import Branch

T = TypeVar("T")

_WITHIN: Final[ContextVar["CallsInFlight | None"]] = ContextVar("within", default=None)
"""Whose call the present code is part of: a call within a call is no sibling of it, and does not wait for it."""


class CallsInFlight:
    def __init__(self) -> None:
        self._main: asyncio.Task[Any] | None = None
        self._acting = 0
        self._quiet = asyncio.Event()
        self._closed = False
        self._kept: set[asyncio.Task[Any]] = set()
        """Calls in tasks of their own, which outlive the cancellation of their caller."""
        self._callers: set[asyncio.Task[Any]] = set()
        """Tasks of the backend's own that are within a call which ends with them."""
        self.suspended: Suspended | None = None

    def open(self) -> None:
        """Called by the task that runs the backend."""
        self._main, self._closed = asyncio.current_task(), False

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """A call that ends with its caller, such as a model call."""
        self._admit(work)
        if _WITHIN.get() is self:
            return await work
        caller = asyncio.current_task()
        if caller is None or caller is self._main:
            return await self._counted(work)
        self._callers.add(caller)
        try:
            return await self._counted(work)
        finally:
            self._callers.discard(caller)

    async def effect(self, work: Coroutine[Any, Any, T]) -> T:
        """A call that may change something outside: only the runtime ends it early, no upstream does."""
        self._admit(work)
        if _WITHIN.get() is self:
            return await work
        if self._main is None or asyncio.current_task() is self._main:
            return await self._counted(work)
        task = asyncio.ensure_future(self._counted(work))
        self._kept.add(task)
        task.add_done_callback(self._forget)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if self._main.cancelling() and not task.done():
                task.cancel()
                await asyncio.wait({task})
            raise

    async def branch(self, work: Coroutine[Any, Any, T], branch: Branch) -> T:
        """A call that ends with its caller and records its end by itself, such as the run of a workflow's step."""
        self._admit(work)
        task = asyncio.ensure_future(self._counted(work))
        self._kept.add(task)
        task.add_done_callback(self._forget)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            leaving = self._main is not None and self._main.cancelling()
            branch.ended = not leaving
            if not task.done():
                task.cancel()
                if leaving:
                    await asyncio.wait({task})
            raise

    def _admit(self, work: Coroutine[Any, Any, Any]) -> None:
        if self.suspended is not None:
            work.close()
            raise self.suspended
        if self._closed:
            work.close()
            raise asyncio.CancelledError("the run's backend has returned")

    async def _counted(self, work: Coroutine[Any, Any, T]) -> T:
        self._acting += 1
        outside = _WITHIN.set(self)
        try:
            return await work
        except Suspended as suspended:
            self.suspended = self.suspended or suspended
        finally:
            _WITHIN.reset(outside)
            self._acting -= 1
            if not self._acting:
                self._quiet.set()
        await self._until_quiet()
        raise self.suspended

    async def _until_quiet(self) -> None:
        while self._acting:
            self._quiet.clear()
            await self._quiet.wait()

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._kept.discard(task)
        if not task.cancelled():
            task.exception()  # its caller has it, or was cancelled and has no use for it

    async def quiet(self) -> None:
        """Returns when no call is at work."""
        await self._until_quiet()

    async def close(self) -> None:
        """After the backend returned or raised: what it left behind ends, and nothing begins any more."""
        self._closed = True
        for caller in list(self._callers):
            caller.cancel()
        try:
            await self._until_quiet()
        except asyncio.CancelledError:
            for task in list(self._kept):
                task.cancel()
            if self._kept:
                await asyncio.wait(set(self._kept))
            raise

    def check(self) -> None:
        """Raises what the backend swallowed: that the run waits, or that it is to end."""
        if self.suspended is not None:
            raise self.suspended
        if self._main is not None and self._main.cancelling():
            raise asyncio.CancelledError
