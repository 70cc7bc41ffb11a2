"""The conversation so far: the messages of a thread's ended runs, as a model is sent them again.

A run that failed or was cancelled leaves what it had done up to its last completed step; one that was rolled back
leaves nothing, and neither do the runs of subagents. A tool call and its result stay together.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final

from app.core import json
from app.core.value import mutable, value
from app.events.catalog import artifact, execution, model, policy, request, thread, tool
from app.events.envelope import Event
from app.views.amendments import AMENDED, Amendments
from app.views.state_updates import updated_state
from app.views.undo_note import UndoNote

Message = dict[str, Any]

TYPES: Final = frozenset(
    {
        thread.ThreadCreated.type,
        thread.ThreadForked.type,
        request.RequestQueued.type,
        *request.TERMINAL,
        execution.StepCompleted.type,
        execution.CommandInjected.type,
        execution.ContextCompacted.type,
        model.ModelCompleted.type,
        tool.ToolResulted.type,
        policy.HookFired.type,
        policy.GuardrailTriggered.type,
        thread.ThreadStateSaved.type,
        thread.ThreadStateUpdated.type,
        thread.ThreadRolledBack.type,
        thread.ThreadCompacted.type,
        artifact.UndoPlanned.type,
        artifact.UndoActionCompleted.type,
        AMENDED,
    }
)
"""All that a conversation is made of; whoever reads for it may leave out the rest, such as every single token."""
MAX_SIZE: Final = 8 * 1024 * 1024
"""Characters of the newest messages that a run is sent, about two million tokens: no window holds more."""

GUARDED_INPUT: Final = "guardrails:input"
"""The key of the step that records an input as guardrails left it."""
_BROUGHT: Final = "UserPromptSubmit:history-"
_GUARDED_HISTORY: Final = "input:history-"
_MEMORY: Final = "memory"
_SUMMARY: Final = "Summary of the conversation so far:\n"
_UNANSWERED: Final = "The run ended before this call had a result."
_VALUE_SIZE: Final = 64
"""What any value weighs in addition to its characters, so that many small ones count as well."""


@mutable(slots=True)
class _RunMessages:
    """One run's part of the conversation while it is folded."""

    since: int
    """Its first `seq`."""
    messages: list[Message]
    agent: str | None = None
    open_calls: dict[str, str] = field(default_factory=dict)
    """Calls without a result, by id, with the tool's name."""
    rolled_back: bool = False
    keeps_partial: bool = False
    """Whether an answer that was cut off stays in the conversation."""
    undo: UndoNote | None = None
    """Of a run that takes back what another did."""
    amended: set[str] = field(default_factory=set)
    """The calls whose results were amended, and `input`: what hooks and guardrails made of the former text is gone."""

    def answer(self, call_id: str, name: str, content: str) -> None:
        self.messages.append({"role": "tool", "content": content, "tool_call_id": call_id, "name": name})
        del self.open_calls[call_id]

    def close(self) -> list[Message]:
        """As a model may be sent it: every call has its result."""
        if self.undo is not None:
            return self.undo.messages()
        closing = [
            {"role": "tool", "content": _UNANSWERED, "tool_call_id": call_id, "name": name}
            for call_id, name in self.open_calls.items()
        ]
        return [] if self.rolled_back else [*self.messages, *closing]


@value(frozen=True, slots=True)
class _Sent:
    since: int
    """The first `seq` of the run that it comes from."""
    message: Message
    size: int


class History:
    """One thread's conversation as one agent is sent it, event by event.

    What this agent summed up in an earlier run it is sent as that summary; another agent, and none, is sent all of it.
    Of more than `max_size` the oldest goes. Messages are handed out as they are kept: nobody changes them.
    """

    def __init__(
        self, agent: str | None = None, max_size: int | None = None, amendments: Amendments | None = None
    ) -> None:
        self._agent, self._max_size = agent, max_size
        self._amendments = amendments or Amendments()
        self._runs: dict[str, _RunMessages] = {}
        self._sent: list[_Sent] = []
        self.began_with: str | None = None
        """The type of the thread's first event."""
        self.seq = 0
        """The newest event that was folded."""
        self.state: Any = None
        """What the agent's last run left for the next one; a large one is a reference to its blob."""
        self.size = 0
        """Characters, about."""
        self.outdated = False
        """Whether something was amended that was folded as it had been said: it has to be folded again."""

    def apply(self, event: Event) -> None:
        self.seq = event.seq
        if event.type not in TYPES:
            return
        if event.type == AMENDED:
            self.outdated = self.outdated or event.seq > self._amendments.seq
            return
        event = self._amendments.amended(event)
        if event.type in (thread.ThreadCreated.type, thread.ThreadForked.type):
            self.began_with = event.type
            self._add(event.seq, event.payload.get("history") or ())
            self.state = (event.payload.get("states") or {}).get(self._agent)
        elif event.type == thread.ThreadRolledBack.type:
            gone = set(event.payload["seqs"])
            self._replace([sent for sent in self._sent if sent.since not in gone])
        elif event.type == thread.ThreadCompacted.type:
            message, through = summary_message(event.payload["summary"]), event.payload["throughSeq"]
            later = [sent for sent in self._sent if sent.since > through]
            self._replace([_Sent(0, message, _size(message)), *later])
        elif event.type == thread.ThreadStateSaved.type:
            if event.payload["agent"] == self._agent:
                self.state = event.payload["state"]
        elif event.type == thread.ThreadStateUpdated.type:
            self._update(event)
        elif event.run_id is not None:
            self._apply_to_run(event, event.run_id, event.payload)

    def anew(self, amendments: Amendments) -> "History":
        """The same one before its first event."""
        return History(self._agent, self._max_size, amendments)

    def messages(self, before: int | None = None) -> list[Message]:
        """In the shape of completion_request_v1's messages, in the order of the runs' ends. With `before`, of the
        runs that were queued before this `seq`: one that was cancelled in the queue may have ended too early."""
        if not self._sent:
            return []
        return [sent.message for sent in self._sent if before is None or sent.since < before]

    def by_run(self) -> list[tuple[int, list[Message]]]:
        """The messages of each run that ended, with the run's first `seq`; what the thread began with has its own."""
        parts: list[tuple[int, list[Message]]] = []
        for sent in self._sent:
            if not parts or parts[-1][0] != sent.since:
                parts.append((sent.since, []))
            parts[-1][1].append(sent.message)
        return parts

    @property
    def weight(self) -> int:
        """The size of all that is held, runs included that have not ended."""
        return self.size + sum(_size(run.messages) for run in self._runs.values())

    def _apply_to_run(self, event: Event, run_id: str, payload: Message) -> None:
        if event.type == request.RequestQueued.type and not payload.get("parentRunId") and not payload.get("tool"):
            if payload.get("undoOf"):
                self._runs[run_id] = _RunMessages(event.seq, [], undo=UndoNote())
            else:
                begun = _RunMessages(event.seq, [user_message(payload.get("input"))], payload.get("agent"))
                begun.keeps_partial = payload.get("partialAnswers") == "keep"
                self._runs[run_id] = begun
        run = self._runs.get(run_id)
        if run is None:
            return
        if event.seq in self._amendments and event.type in (request.RequestQueued.type, tool.ToolResulted.type):
            run.amended.add(str(payload.get("callId", "input")))
        if run.undo is not None:
            run.undo.apply(event)
        else:
            _apply(run, event)
        if event.type == policy.HookFired.type and payload.get("key", "").startswith(_BROUGHT):
            self._heed_brought(payload)
        if event.type == policy.GuardrailTriggered.type and payload.get("key", "").startswith(_GUARDED_HISTORY):
            if payload.get("blocked"):
                self._replace([])
        elif event.type == execution.StepCompleted.type and payload["key"] == GUARDED_INPUT and self._sent:
            self._heed_guarded(payload["result"].get("history", ()))
        if event.type == execution.ContextCompacted.type and self._agent is not None and run.agent == self._agent:
            self._sum_up(run, payload)
        if event.type in request.TERMINAL:
            self._add(run.since, run.close())
            del self._runs[run_id]

    def _update(self, event: Event) -> None:
        payload = event.payload
        if payload["replaces"]:
            self._replace([])
        self._add(event.seq, ({k: v for k, v in said.items() if k != "id"} for said in payload["messages"]))
        if payload.get("agent") is not None and payload["agent"] == self._agent:
            self.state = updated_state(self.state, payload)

    def _add(self, since: int, messages: Iterable[Message]) -> None:
        for message in messages:
            sent = _Sent(since, message, _size(message))
            self._sent.append(sent)
            self.size += sent.size
        self._trim()

    def _replace(self, sent: list[_Sent]) -> None:
        self._sent, self.size = sent, sum(one.size for one in sent)
        self._trim()

    def _trim(self) -> None:
        """A conversation that loses its beginning begins with what somebody asked."""
        if self._max_size is None or self.size <= self._max_size:
            return
        gone = 0
        for sent in self._sent:
            if self.size <= self._max_size and sent.message["role"] == "user":
                break
            gone += 1
            self.size -= sent.size
        del self._sent[:gone]

    def _sum_up(self, run: _RunMessages, payload: Message) -> None:
        """The summary replaces all that the run was sent but the newest messages, which it kept."""
        kept = payload.get("keptMessages")
        if kept is None or not isinstance(payload.get("summary"), str):
            return
        seen = [sent for sent in self._sent if sent.since < run.since]
        unseen = [sent for sent in self._sent if sent.since >= run.since]
        message = summary_message(payload["summary"])
        summary = _Sent(0, message, _size(message))
        self._replace([summary, *seen[max(0, len(seen) - kept) :], *unseen])

    def _heed_guarded(self, changed: Iterable[tuple[int, Message]]) -> None:
        sent = list(self._sent)
        for number, message in changed:
            sent[number] = _Sent(sent[number].since, message, _size(message))
        self._replace(sent)

    def _heed_brought(self, fired: Message) -> None:
        """What hooks say of a request holds, message by message, of a history that came with one; of a denied one
        nothing is sent."""
        changed = fired.get("output") or {}
        if fired["decision"] == "deny":
            self._replace([])
        elif changed and self._sent:
            number = int(fired["key"].removeprefix(_BROUGHT))
            message = user_message(changed["input"] if "input" in changed else changed["prompt"])
            sent = list(self._sent)
            sent[number] = _Sent(sent[number].since, message, _size(message))
            self._replace(sent)


def history(events: Iterable[Event], agent: str | None = None) -> list[Message]:
    """The conversation of a whole thread, however long."""
    found = list(events)
    fold = History(agent, amendments=Amendments(found))
    for event in found:
        fold.apply(event)
    return fold.messages()


def summary_message(text: str) -> Message:
    """A user's message, not the system's: what a summary says comes from the conversation and instructs nobody."""
    return {"role": "user", "content": _SUMMARY + text}


def is_summary(message: Message) -> bool:
    return bool(message["role"] == "user" and message["content"].startswith(_SUMMARY))


def _apply(run: _RunMessages, event: Event) -> None:
    payload = event.payload
    match event.type:
        case execution.StepCompleted.type if payload["step"] == "commands":
            run.messages += steered(payload["result"])
        case execution.StepCompleted.type if payload["step"] == "tool" and payload["key"] in run.open_calls:
            made = payload["result"]
            content = _text(made.get("output")) if made["ok"] else made["error"]["message"]
            run.answer(payload["key"], made["tool"], content)
        case execution.CommandInjected.type if payload["arguments"].get("rollback"):
            run.rolled_back = True
        case model.ModelCompleted.type if payload["toolCalls"] and payload.get("role") in (None, model.DRAFT):
            calls = [recorded_call(call) for call in payload["toolCalls"]]
            run.messages.append(_answered(payload["text"], payload.get("parts")) | {"tool_calls": calls})
            run.open_calls |= {call["id"]: call["name"] for call in calls}
        case tool.ToolResulted.type if payload["callId"] in run.open_calls:
            content = _text(payload.get("output")) if payload["ok"] else payload["error"]["message"]
            run.answer(payload["callId"], payload["tool"], content)
        case execution.StepCompleted.type if payload["key"] == GUARDED_INPUT and "input" in payload["result"]:
            if "input" not in run.amended:
                run.messages[0] = user_message(payload["result"]["input"])
        case policy.GuardrailTriggered.type if payload.get("blocked") and payload["stage"] == "input":
            run.rolled_back = True
        case policy.HookFired.type:
            _heed(run, payload)
        case request.RequestCompleted.type:
            run.messages.append(_output(payload["output"], payload.get("parts")))
        case request.RequestCancelled.type | request.RequestFailed.type if run.keeps_partial and payload.get("output"):
            _close_calls(run)
            why = "was cancelled" if event.type == request.RequestCancelled.type else "failed"
            text = f"{_text(payload['output'])}\n\n[The answer ends here: the run {why}.]"
            run.messages.append({"role": "assistant", "content": text})


def _close_calls(run: _RunMessages) -> None:
    for call_id, name in list(run.open_calls.items()):
        run.answer(call_id, name, _UNANSWERED)


def _heed(run: _RunMessages, fired: Message) -> None:
    """What a hook kept from the model of this run, it keeps from those of later ones."""
    changed, denied = fired.get("output") or {}, fired["decision"] == "deny"
    # What a person said on the way has a longer key, and stands in the command as the hooks left it.
    match fired["hook"], fired.get("key"):
        case ("SessionStart" | "UserPromptSubmit") as hook, key if denied and key == hook:
            run.rolled_back = True
        case "UserPromptSubmit", "UserPromptSubmit" if changed and "input" not in run.amended:
            run.messages[0] = user_message(changed["input"] if "input" in changed else changed["prompt"])
        case "PostToolUse", _ if (changed or denied) and fired.get("callId") not in run.amended:
            content = fired.get("reason", "") if denied else _text(changed.get("output"))
            for number, message in enumerate(run.messages):
                if message.get("tool_call_id") == fired.get("callId"):
                    run.messages[number] = message | {"content": content}


def memory_message(text: str) -> Message:
    """What a model gets to know from memory. Its text is recorded nowhere but in the run's recall: it may be forgotten
    later."""
    return {"role": "system", "content": text, "name": _MEMORY}


def is_memory(message: Mapping[str, Any]) -> bool:
    return message["role"] == "system" and message.get("name") == _MEMORY


def user_message(given: Any) -> Message:
    """What a client gave a run, as a message: text, message parts, or an object as JSON."""
    if isinstance(given, list) and given and all(isinstance(part, dict) and "type" in part for part in given):
        text = "\n".join(part["text"] for part in given if part["type"] == "text")
        return {"role": "user", "content": text, "parts": given}
    return {"role": "user", "content": _text(given)}


def answer_parts(text: str, made: list[Message]) -> list[Message]:
    """An answer whose media the log names beside its text, as message parts."""
    return [{"type": "text", "text": text}, *made] if text else made


def _answered(text: Any, made: list[Message] | None) -> Message:
    message: Message = {"role": "assistant", "content": _text(text)}
    return message | {"parts": answer_parts(message["content"], made)} if made else message


def _output(output: Any, parts: list[Message] | None) -> Message:
    message: Message = {"role": "assistant", "content": _text(output)}
    return message | {"parts": parts} if parts else message


def steered(commands: Iterable[dict[str, Any]]) -> list[Message]:
    """Messages of the steering commands among those that a run took up."""
    messages = []
    for sent in commands:
        arguments = sent["arguments"]
        if sent["command"] != "steer":
            continue
        # Neither is there when a hook denied it.
        if "hint" in arguments:
            messages.append({"role": "system", "content": arguments["hint"]})
        if "message" in arguments:
            messages.append(user_message(arguments["message"]))
    return messages


def recorded_call(call: dict[str, Any]) -> dict[str, Any]:
    """A call of a recorded answer, in the shape of a message's tool calls."""
    made = {"id": call["id"], "name": call["name"], "args": call["args"]}
    if "rawArgs" in call:
        made["raw_args"] = call["rawArgs"]
    if "upstreamId" in call:
        made["upstream_id"] = call["upstreamId"]
    return made


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value).decode()


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return _VALUE_SIZE + sum(map(_size, value.values()))
    return sum(map(_size, value)) if isinstance(value, list | tuple) else _VALUE_SIZE
