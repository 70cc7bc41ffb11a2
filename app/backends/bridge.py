"""Between a run's context and an agent framework of somebody else: the rules that hold for all of them.

Frameworks cancel whatever runs in parallel with a call that fails, hand a cancellation to the model as an error of a
tool, or swallow exceptions. So each call of the context runs in a task of its own that nobody upstream can cancel, the
first failure is kept and raised again at the end, and nothing new begins after it. A call that the model asked for
reaches the gate as the model wrote it, also when its tool does not exist or its arguments do not parse.
Leaves to each kind: messages, models and tools in the framework's own shapes.
"""

import asyncio
import hashlib
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from app.backends.contract import CallOptions, CallRequest, CallResult, Context, ModelAnswer, Output, StepFailed
from app.backends.conversation import ANSWER_AGAIN
from app.core import json
from app.core.errors import Failure
from app.core.json import JsonObject
from app.views.history import memory_message, user_message

T = TypeVar("T")
Turn = Callable[[list[JsonObject]], Awaitable[Output]]
"""Hands new messages to the framework and returns what it answered."""

UNLISTED: Final = "holdfast_unlisted_tool"
"""What a call of a tool that does not exist is named towards a framework, which would refuse the real name itself.
It is offered to no model; the gate gets the call under the name that the model wrote."""

_current: ContextVar["Bridge | None"] = ContextVar("holdfast_bridge", default=None)


def current_bridge() -> "Bridge":
    """The bridge of the run that is being worked on here."""
    bridge = _current.get()
    if bridge is None:
        message = "Models and tools of Holdfast work only while a run of an agent is being served."
        raise StepFailed(Failure("BACKEND_OUTSIDE_RUN", message))
    return bridge


@contextmanager
def bridging(bridge: "Bridge") -> Iterator[None]:
    """Within it, models and tools of Holdfast act for the bridge's run."""
    token = _current.set(bridge)
    try:
        yield
    finally:
        _current.reset(token)


class Bridge:
    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.tools = ctx.tool_definitions
        self._owner = asyncio.current_task()
        self._loop = asyncio.get_running_loop()
        self._pending: set[asyncio.Task[Any]] = set()
        self._failure: BaseException | None = None
        self._calls: dict[str, CallRequest] = {}
        """What the model asked for, by the id of the call."""
        self._undone: dict[str, deque[str]] = {}
        """Ids of what the model asked for and nobody has called yet, by content."""
        self._answers: dict[str, ModelAnswer] = {}
        self._answer_of_call: dict[str, ModelAnswer] = {}
        self._known = ctx.memory
        """Of memory: what was recalled before the run, and before its answer."""
        self._given = user_message(ctx.input)
        said = [*ctx.history, self._given]
        self._with_parts = {message["content"]: message for message in said if message.get("parts")}
        self._turns = 0
        self._steered: list[tuple[int, JsonObject]] = []
        """What was said to the run, each with the number of messages that it came after."""

    # -- calls of the context ------------------------------------------------------------------------

    async def model(self, messages: Sequence[JsonObject], options: CallOptions = CallOptions()) -> ModelAnswer:
        answer = await self.shielded(self._ask(list(messages), options))
        self._answers[answer.message_id] = answer
        for call in answer.calls:
            self._calls[call.id], self._answer_of_call[call.id] = call, answer
            self._undone.setdefault(_content(call.name, call.args), deque()).append(call.id)
        return answer

    async def _ask(self, messages: list[JsonObject], options: CallOptions) -> ModelAnswer:
        if self._turns >= self.ctx.max_turns:
            raise StepFailed(Failure("MAX_TURNS", f"No answer within {self.ctx.max_turns} turns."))
        self._turns += 1
        # Branches that run in parallel come back in any order: what was said is taken up by content, not by number.
        key = hashlib.sha256(json.canonical(messages)).hexdigest()
        self._steered += [(len(messages), said) for said in await self.ctx.steering(key)]
        return await self.ctx.call_model(self._with_memory(self._with_steering(messages)), options)

    def _with_steering(self, messages: list[JsonObject]) -> list[JsonObject]:
        """Each message that was said on the way at its place, never between a call and its results."""
        for place, said in reversed(self._steered):
            at = min(place, len(messages))
            while at < len(messages) and messages[at]["role"] == "tool":
                at += 1
            messages.insert(at, said)
        return messages

    def _with_memory(self, messages: list[JsonObject]) -> list[JsonObject]:
        """What was recalled stands between the history and what is new in this run; no framework keeps it."""
        known = self._known
        if known:
            own = [at for at, message in enumerate(messages) if message == self._given]
            first = next((at for at, message in enumerate(messages) if message["role"] != "system"), len(messages))
            messages.insert(own[-1] if own else first, memory_message(known))
        return messages

    async def tool(self, call_id: str | None, name: str, args: Mapping[str, Any]) -> CallResult:
        """Through the gate, under the name and with the arguments that the model wrote."""
        call_id = call_id or self._undone_id(name, args)
        asked = self._asked(call_id, name, args)
        if asked is None:
            # Of the framework's own accord, or changed by the graph's author on the way.
            asked = CallRequest(call_id or f"direct-{name}", name, dict(args))
        self._did(call_id)
        return (await self.shielded(self.ctx.call_tools([asked])))[0]

    def _undone_id(self, name: str, args: Mapping[str, Any]) -> str | None:
        """Of a tool that a graph calls with the arguments alone: the id of the model's call that it is for, if any."""
        undone = self._undone.get(_content(name, args))
        return undone[0] if undone else None

    def _did(self, call_id: str | None) -> None:
        call = self._calls.get(call_id or "")
        undone = self._undone.get(_content(call.name, call.args)) if call is not None else None
        if call is not None and undone and call.id in undone:
            undone.remove(call.id)

    async def calls(self, calls: Sequence[CallRequest], tools: frozenset[str] | None = None) -> list[CallResult]:
        return await self.shielded(self.ctx.call_tools(calls, tools))

    async def shielded(self, work: Coroutine[Any, Any, T]) -> T:
        """Goes on to its end whatever the framework cancels; nothing begins after a failure."""
        return await asyncio.shield(self.start(work))

    def start(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        try:
            self.check()
        except BaseException:
            work.close()
            raise
        task = self._loop.create_task(work)
        self._pending.add(task)
        task.add_done_callback(self._ended)
        return task

    def from_thread(self, work: Coroutine[Any, Any, T]) -> T:
        """The same for synchronous code of a framework, which runs in a thread of its own."""
        return asyncio.run_coroutine_threadsafe(self.shielded(work), self._loop).result()

    def _ended(self, task: "asyncio.Task[Any]") -> None:
        self._pending.discard(task)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None and self._failure is None:
            self._failure = error

    def check(self) -> None:
        """Raises the first failure again, and the cancellation that a framework may have swallowed."""
        if self._failure is not None:
            raise self._failure
        if self.ctx.cancelled or (self._owner is not None and self._owner.cancelling()):
            raise asyncio.CancelledError

    def fail(self, error: BaseException) -> BaseException:
        """Keeps an error of the adapter's own as the first failure, so that no framework can swallow it."""
        if self._failure is None:
            self._failure = error
        return error

    # -- shapes --------------------------------------------------------------------------------------

    def upstream_name(self, call: CallRequest, others: frozenset[str] = frozenset()) -> str:
        """The name under which a framework finds the call's tool; `others` are the framework's own."""
        return call.name if call.name in self.tools or call.name in others else UNLISTED

    def user_message(self, text: str) -> JsonObject:
        """What a person said, with the parts that the framework was not given."""
        return self._with_parts.get(text) or {"role": "user", "content": text}

    def assistant_message(
        self, text: str, calls: Sequence[CallRequest] = (), message_id: str | None = None, **more: Any
    ) -> JsonObject:
        """An answer of the framework's history: as the model gave it if it is one of this run, else put together."""
        asked = tuple(self._asked(call.id, call.name, call.args) or call for call in calls)
        answer = self._answers.get(message_id or "") or (self._answer_of_call.get(asked[0].id) if asked else None)
        if answer is not None and answer.text == text and answer.calls == asked:
            return answer.message
        made: JsonObject = {"role": "assistant", "content": text}
        if asked:
            made["tool_calls"] = [_call(call) for call in asked]
        return made | {name: value for name, value in more.items() if value}

    def _asked(self, call_id: str | None, name: str, args: Mapping[str, Any]) -> CallRequest | None:
        """The call as the model wrote it, unless the framework changed it."""
        asked = self._calls.get(call_id or "")
        return asked if asked is not None and (name == UNLISTED or dict(args) == asked.args) else None

    def tool_message(self, call_id: str, name: str, content: str) -> JsonObject:
        asked = self._calls.get(call_id)
        return {"role": "tool", "content": content, "tool_call_id": call_id, "name": asked.name if asked else name}

    def output(self, text: str) -> Output:
        """The answer whose deltas carried this text already is named, so that it is not sent twice."""
        said = (answer.message_id for answer in reversed(self._answers.values()) if answer.text == text)
        return Output(text, message_id=next(said, None))

    # -- the run -------------------------------------------------------------------------------------

    async def converse(self, turn: Turn) -> Output:
        """Turns until nobody asks for another one: the input's, then what was said meanwhile or a hook wants."""
        messages = [self._given]
        try:
            while True:
                output = await turn(messages)
                await self._settle()
                self.check()
                if self._turns >= self.ctx.max_turns:
                    return output
                messages = await self.ctx.steering()
                if messages:
                    continue
                if known := await self.ctx.before_finalize(output.text):
                    self._known = "\n\n".join(text for text in (self._known, known) if text)
                    messages = [user_message(ANSWER_AGAIN)]
                    continue
                go_on = await self.ctx.go_on(self._turns, output.text)
                if go_on is None:
                    return output
                messages = [user_message(go_on)]
        except BaseException as error:
            await self._settle()
            if self._failure is not None and self._failure is not error:
                raise self._failure from None
            raise

    async def _settle(self) -> None:
        """Waits for every call that a framework gave up on; the end of the run itself ends them too."""
        cut_off = False
        while self._pending:
            if self._owner is not None and self._owner.cancelling():
                for task in self._pending:
                    task.cancel()
            try:
                await asyncio.wait(self._pending)
            except asyncio.CancelledError:
                cut_off = True
        if cut_off:
            raise asyncio.CancelledError


def _content(name: str, args: Mapping[str, Any]) -> str:
    try:
        return hashlib.sha256(json.canonical([name, args])).hexdigest()
    except json.JsonError:
        return ""  # arguments that are no JSON; the gate refuses them


def _call(call: CallRequest) -> JsonObject:
    made: JsonObject = {"id": call.id, "name": call.name, "args": call.args}
    return made if call.raw_args is None else made | {"raw_args": call.raw_args}


def calls_of(message: JsonObject) -> list[CallRequest]:
    """The calls of an assistant's message."""
    return [
        CallRequest(call["id"], call["name"], call["args"], call.get("raw_args"))
        for call in message.get("tool_calls", ())
    ]
