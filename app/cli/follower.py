"""Follows a run until it ends: shows its events, prompts for answers, cancels on Ctrl-C.

Also returns when the run waits for an answer that cannot be given here.
"""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Iterator
from typing import Any, Final, Literal, TypeAlias

import typer

from app.cli.client import path_of
from app.cli.command_session import WAITS, CommandSession
from app.cli.prompts import ask, can_ask
from app.cli.screen import Screen
from app.core import json
from app.core.errors import HoldfastError
from app.events.catalog.request import TERMINAL

_CLOSED: Final = frozenset({"runtime.interrupt.resolved", "runtime.interrupt.expired"})

Approve: TypeAlias = Literal["ask", "always", "never"]


async def patterns(session: CommandSession, given: list[str] | None) -> list[str]:
    """The event types to show: those of `--events`, else those of the workspace (`runtime.cli.events.include`)."""
    if given:
        return given
    workspace = await session.client.get("/api/workspace")
    include: list[str] = ((workspace.get("cli") or {}).get("events") or {}).get("include") or []
    return include


async def first_seq(session: CommandSession, run_id: str) -> int:
    page = await session.client.get(f"{path_of('runs', run_id)}/events", limit=1)
    return int(page["items"][0]["seq"])


class Follower:
    def __init__(self, session: CommandSession, screen: Screen | None, approve: Approve = "ask") -> None:
        """Without a screen, each event is a JSON line on standard output."""
        self._session, self._screen, self._approve = session, screen, approve
        self._depths: dict[str, int] = {}
        self._message: str | None = None

    async def follow(self, run_id: str, after: int) -> dict[str, Any]:
        """The run when it has ended, or when it waits for an answer that cannot be given here."""
        self._depths = {run_id: 0}
        run = await self._session.client.get(path_of("runs", run_id))
        events = self._session.client.events(run["threadId"], after)
        async with contextlib.aclosing(events):
            async for event in events:
                if not self._concerns(event):
                    continue
                self._show(event)
                if event["runId"] == run_id and event["type"] in TERMINAL:
                    self._message = event["payload"].get("messageId")
                    break
                if event["type"] == "runtime.interrupt.raised" and not await self._answered(event):
                    break
        run = await self._session.client.get(path_of("runs", run_id))
        if self._screen is not None:
            self._screen.ended(run, self._message)
        return dict(run)

    def _concerns(self, event: dict[str, Any]) -> bool:
        """Whether the event belongs to the run or to one of its subagents' runs, which are on the same thread."""
        run_id = event["runId"]
        if event["type"] == "runtime.request.queued" and run_id not in self._depths:
            parent = event["payload"].get("parentRunId")
            if parent in self._depths:
                self._depths[run_id] = self._depths[parent] + 1
        return run_id in self._depths

    def _show(self, event: dict[str, Any]) -> None:
        if self._screen is None:
            typer.echo(json.dumps(event))
        else:
            self._screen.show(event, depth=self._depths[event["runId"]])

    async def _answered(self, event: dict[str, Any]) -> bool:
        """Whether the run continues. An earlier interrupt may already have been answered."""
        raised = event["payload"]
        path = path_of("interrupts", raised["interruptId"])
        if not await self._is_open(raised["interruptId"]):
            return True
        answer: dict[str, Any] | None = None
        if raised["kind"] == "approval" and self._approve != "ask":
            answer = {"decision": "approve" if self._approve == "always" else "deny"}
        elif self._screen is not None and can_ask():
            self._screen.close()
            asking = asyncio.create_task(ask(raised))
            if not await self._first(asking, self._closed_elsewhere(event)):
                typer.echo("", err=True)  # ends the line of the abandoned prompt
                return True
            answer = asking.result()
        if answer is None:
            return False
        try:
            await self._session.client.post(f"{path}/answer", answer)
        except HoldfastError as error:
            if error.code != "INTERRUPT_NOT_OPEN":
                raise
            self._session.notes.print("  already answered elsewhere")
        return True

    async def _first(self, asking: "asyncio.Task[Any]", elsewhere: Coroutine[Any, Any, None]) -> bool:
        """Whether the person here answered first. Otherwise the prompt is abandoned."""
        watching = asyncio.create_task(elsewhere)
        try:
            await asyncio.wait({asking, watching}, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return True
            watching.result()
            return False
        finally:
            for task in (asking, watching):
                task.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _closed_elsewhere(self, raised: dict[str, Any]) -> None:
        """Return when the interrupt was answered or expired, or its run ended.

        Uses a second stream; the main one continues afterwards with the events in between.
        """
        interrupt_id, run_id = raised["payload"]["interruptId"], raised["runId"]
        events = self._session.client.events(raised["threadId"], raised["seq"])
        async with contextlib.aclosing(events):
            async for event in events:
                closed = event["type"] in _CLOSED and event["payload"]["interruptId"] == interrupt_id
                if closed or (event["type"] in TERMINAL and event["runId"] == run_id):
                    return

    async def _is_open(self, interrupt_id: str) -> bool:
        async for interrupt in self._session.client.pages("/api/interrupts", status="open"):
            if interrupt["id"] == interrupt_id:
                return True
        return False


async def follow_in_process(session: CommandSession, run_id: str) -> None:
    """Wait until the run ends or waits again: the server that executes it stops with this command."""
    screen = Screen(session.notes, (), answer=not session.as_json)
    await Follower(session, screen).follow(run_id, await first_seq(session, run_id) - 1)


@contextlib.contextmanager
def cancelling(session: CommandSession, run_id: str) -> Iterator[None]:
    """Ctrl-C cancels the run, which is then followed to its end. A second Ctrl-C exits at once."""
    loop = asyncio.get_running_loop()
    following = asyncio.current_task()
    tasks: list[asyncio.Task[Any]] = []

    def interrupted() -> None:
        if tasks and following is not None:
            following.cancel()
        else:
            session.notes.print("  cancelling; press Ctrl-C again to exit at once")
            tasks.append(loop.create_task(session.client.post(f"{path_of('runs', run_id)}/cancel")))

    loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def leave_with(session: CommandSession, run: dict[str, Any]) -> None:
    """Set the exit code by the run's status, and print how to answer a run that waits."""
    if run["status"] == "completed":
        return
    if run["status"] in ("failed", "cancelled"):
        raise typer.Exit(1)
    for interrupt in run["waitingOn"]:
        session.notes.print(f"  waiting: holdfast approvals decide {interrupt} approve")
    raise typer.Exit(WAITS)
