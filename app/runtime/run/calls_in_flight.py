"""The calls that a run's backend has begun and that have not ended.

A call that waits for a person lets its siblings end first, so that none of them is cut off in the middle of an effect;
from then on no call begins, and the run is suspended whatever its backend makes of the exception. What an upstream
framework cancels while the run goes on is finished all the same. Leaves to the context: what a call does.
"""

import asyncio
from collections.abc import Coroutine
from contextvars import ContextVar, Token
from types import TracebackType
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
        self._quiet: asyncio.Event | None = None
        """Made when somebody first waits for the calls to end."""
        self._closed = False
        self._kept: set[asyncio.Task[Any]] = set()
        """Calls in tasks of their own, which outlive the cancellation of their caller."""
        self._callers: set[asyncio.Task[Any]] = set()
        """Tasks of the backend's own that are within a call which ends with them."""
        self.suspended: Suspended | None = None

    def open(self) -> None:
        """Called by the task that runs the backend."""
        self._main, self._closed = asyncio.current_task(), False

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
        try:
            self._check_open()
        except BaseException:
            work.close()
            raise

    def _check_open(self) -> None:
        if self.suspended is not None:
            raise self.suspended
        if self._closed:
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
            self._ended_one()
        await self._until_quiet()
        raise self.suspended

    def _ended_one(self) -> None:
        self._acting -= 1
        if not self._acting and self._quiet is not None:
            self._quiet.set()

    async def _until_quiet(self) -> None:
        while self._acting:
            if self._quiet is None:
                self._quiet = asyncio.Event()
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
        if not self._acting:
            return
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


class CountedCall:
    """The scope of one call that ends with its caller, such as a model call: `async with CountedCall(calls):`. One
    within another call is part of that."""

    __slots__ = ("_caller", "_calls", "_outside")

    def __init__(self, calls: CallsInFlight) -> None:
        self._calls = calls
        self._outside: Token[CallsInFlight | None] | None = None
        self._caller: asyncio.Task[Any] | None = None

    async def __aenter__(self) -> None:
        calls = self._calls
        if calls.suspended is not None or calls._closed:
            calls._check_open()
        if _WITHIN.get() is calls:
            return
        caller = asyncio.current_task()
        if caller is not None and caller is not calls._main:
            self._caller = caller
            calls._callers.add(caller)
        calls._acting += 1
        self._outside = _WITHIN.set(calls)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._outside is None:
            return
        calls = self._calls
        _WITHIN.reset(self._outside)
        calls._ended_one()
        try:
            if isinstance(error, Suspended):
                calls.suspended = calls.suspended or error
                await calls._until_quiet()
                if calls.suspended is not error:
                    raise calls.suspended
        finally:
            if self._caller is not None:
                calls._callers.discard(self._caller)
