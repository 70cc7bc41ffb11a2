"""The model calls of one run: recorded ones come back, new ones go through the router within the run's budget.

Leaves to others: providers, retries, fallbacks (the models room), what a backend does with an answer.
"""

import hashlib
from collections.abc import Awaitable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from app.backends.contract import CallOptions, CallRequest, ModelAnswer, StepFailed
from app.core import json
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.json import JsonObject
from app.events.catalog import Payload
from app.events.catalog.adapter import OUTPUT_DELTA, AdapterEvent
from app.events.catalog.builders import BuiltDelta, BuiltModelCompleted
from app.events.catalog.execution import BudgetExceeded
from app.events.catalog.model import ASIDES, DRAFT, GUARDRAIL, JUDGE, ModelCompleted, ModelNegotiated, ModelRequested
from app.events.placed import HELD
from app.events.ports import StoreError
from app.events.recorder import PayloadEntry
from app.models.collect import MAX_DELTA
from app.models.completion import (
    CompletionRequest,
    CompletionResponse,
    Message,
    ToolDef,
    estimate_tokens,
    message_from_json,
    request_hash,
)
from app.models.contract import Budget, ContentPolicy, DeltaScreen
from app.models.negotiate import ModelChoice, Negotiation
from app.models.prepare import input_room
from app.models.router import ModelRouter
from app.policy.evaluator import JudgeAnswer, JudgeQuestion
from app.policy.personal_data import without_personal_data
from app.runtime.run.inlined import Load, inline
from app.runtime.run.media import RunMedia
from app.runtime.run.memo import StoredPayload
from app.runtime.run.message_screen import MessageScreen, SecretScreen
from app.runtime.run.parameters import RequestedParameters, reasoning_level, requested_parameters, sampling
from app.runtime.run.run_guardrails import RunGuardrails, SecretScanners
from app.runtime.run.run_log import CutOff, RunLog, Superseded
from app.runtime.run.toolsets import Toolset
from app.runtime.run.unused import NOTHING_UNUSED, Unused, not_recorded
from app.tools.contract import ToolDefinition, definition_hash
from app.views.history import answer_parts, recorded_call
from app.workspace.compiled import CompiledAgent
from app.workspace.specs.agent import ModelPlan
from app.workspace.specs.runtime import Redaction

REQUEST_WAITS_SECONDS: Final = 0.005
"""How long the note that a model is being asked may wait for the first of its answer, to be stored together."""
# Looked at for every payload of a call: an attribute of a model's class costs ten times as much to read.
_SIGNAL: Final = AdapterEvent.type
_NEGOTIATED: Final = ModelNegotiated.type
_REQUESTED: Final = ModelRequested.type
_COMPLETED: Final = ModelCompleted.type
_ANY_TOOL: Final = (None, "auto", "none", "required")
_NO_HASHES: Final[dict[str, str]] = {}
MAX_JUDGEMENT_TOKENS: Final = 1000
_HELD_BACK: Final = ("text", "reasoning", "thoughts", "messages", "parts")
"""Fields in which a model's words would reach whoever follows the log before a gate has decided about them."""
_BUDGETS: Final = {"tokens": "tokens", "cost": "cost", "calls": "model_calls"}


class ModelCalls:
    def __init__(
        self,
        log: RunLog,
        agent: CompiledAgent,
        toolset: Toolset,
        router: ModelRouter,
        budget: Budget,
        load: Load,
        secrets: SecretScanners,
        guardrails: RunGuardrails | None = None,
    ) -> None:
        self._log, self._agent, self._toolset, self._setup = log, agent, toolset, toolset.setup_of(agent)
        self._router, self._budget, self._load = router, budget, load
        self._secrets, self._guardrails = secrets, guardrails
        self.held_back = False
        """Whether a gate decides about the answer first: until then no client sees what the model says."""
        self._negotiated: Negotiation | None = None
        self.number = 0
        """How many were made; the next one is known by this number."""
        self.model: str | None = None
        """The model that somebody switched to; None keeps the agent's plan."""
        self.response_schema = self._setup.output_schema
        self.parallel = self._setup.parallel_tools
        self._offered: tuple[Sequence[ToolDefinition], tuple[ToolDef, ...]] = ((), ())
        """Tools, and the same as a model is shown them: nearly every call of a run offers the same."""
        self._asked: JsonObject = {}
        self._requested: RequestedParameters | None = None
        """None as long as the client wants nothing of its own."""
        self._choice: str | None = None
        self._foreign, self._recorded = False, NOTHING_UNUSED
        if answers := log.memo.answers:
            self._foreign = any("messagesHash" in answer for answer in answers)
            self._recorded = Unused(
                (answer.get("messagesHash") or answer.get("requestHash") or "", answer) for answer in answers
            )

    @cached_property
    def _media(self) -> RunMedia:
        return RunMedia(self._load)

    def _content(self, reference: Any) -> bytes:
        """What was loaded of a message's parts."""
        return self._media.get(reference)

    def ask(self, request: Mapping[str, Any]) -> None:
        """What the client wants of the answering calls from now on; its choice of a tool holds for the next one only,
        because a model that must always call never answers."""
        if (parameters := request.get("parameters")) is not None and self._agent.spec.client_parameters:
            self._asked |= parameters
            self._requested = requested_parameters(self._agent.spec, self._asked)
            self.parallel = self._requested.parallel
        choice = request.get("toolChoice")
        self._choice = choice["name"] if isinstance(choice, Mapping) else choice

    def take_over(self, other: "ModelCalls") -> None:
        """Go on where others ended that belong to the same run: each recorded answer is used once."""
        self.number, self._recorded = other.number, other._recorded

    @property
    def has_recorded(self) -> bool:
        """Whether answers are recorded that this entry of the run has not used."""
        return bool(self._recorded)

    async def recorded(
        self, messages: Sequence[JsonObject], tools: Sequence[ToolDefinition], options: CallOptions
    ) -> ModelAnswer | None:
        """The answer to this call from before, if it was made; each is used once."""
        if not self._recorded:
            return None
        tools, choice = _with_extra(tools, options), self._choice
        plan, request = self._plan(options.model), await self._request(messages, tools, options, options.role is None)
        found = self._take(plan, request)
        if found is None:
            self._choice = choice  # it is for the call that is made now
        else:
            self.number += 1
        return found

    def _take(self, plan: ModelChoice, request: CompletionRequest) -> ModelAnswer | None:
        document = request.to_json(plan.primary.name)
        found = self._recorded.take(request_hash(document))
        if found is None and self._foreign:
            # What an MCP server offers may have changed since: that is the server's doing, and not the backend's.
            found = self._recorded.take(_without_tools(document))
        return None if found is None else _recorded_answer(found)

    async def call(
        self, messages: Sequence[JsonObject], tools: Sequence[ToolDefinition], options: CallOptions
    ) -> ModelAnswer:
        self.number += 1
        tools = _with_extra(tools, options)
        plan, request = self._plan(options.model), await self._request(messages, tools, options, options.role is None)
        if self._recorded:
            found = self._take(plan, request)
            if found is not None:
                return found
            if self._log.strict:
                raise StepFailed(not_recorded(f"Model call {self.number}"))
        if self._guardrails is not None:
            self._guardrails.go_on()
            held = self._guardrails.pending(request_hash(request.to_json(plan.primary.name)))
            if held is not None:
                return await self._approved(held)
        await self._log.begin_step()
        role = options.role or (DRAFT if self.held_back else None)
        marks = {"role": role} if role else {}
        foreign = foreign_tools(tools)
        hashes = (
            {}
            if foreign is None
            else {"toolsHash": foreign, "messagesHash": _without_tools(request.to_json(plan.primary.name))}
        )
        return _answer(await self._complete(plan, request, marks, hashes))

    async def _approved(self, held: Mapping[str, Any]) -> ModelAnswer:
        """A message that waited for a person, published as if nothing had happened."""
        assert self._guardrails is not None
        completed = await self._guardrails.approved(held)
        adapter_name = self._log.scope.actor.removeprefix("backend:")
        for start in range(0, 0 if self.held_back else len(completed["text"]), MAX_DELTA):
            piece = completed["text"][start : start + MAX_DELTA]
            await self._log.record(BuiltDelta(adapter_name, OUTPUT_DELTA, completed["messageId"], 0, piece))
        await self._log.record(ModelCompleted.unchecked(completed | ({"role": DRAFT} if self.held_back else {})))
        return _recorded_answer(completed)

    async def guarded(self, said: Any, command_id: str) -> Any:
        """What somebody says to the run while it works, as the model may see it."""
        return said if self._guardrails is None else await self._guardrails.message(said, command_id)

    async def judge_content(self, model: str, instructions: str, content: str, schema: JsonObject) -> JsonObject:
        """One question to a model about a content, for a rule. Outside the conversation, so it has no number; what it
        is asked is not stored, because it is what the rule may have to keep from being stored."""
        if self._setup.hides_personal_data:
            content = without_personal_data(content)
        request = CompletionRequest(
            messages=(Message("system", instructions), Message("user", content)), response_schema=schema
        )
        plan = self._plan(model)
        recorded = self._log.memo.judgements.get(request_hash(request.to_json(plan.primary.name)))
        if recorded is not None:
            answer: JsonObject = json.loads(recorded["text"])
            return answer
        try:
            response = await self._complete(plan, request, {"role": GUARDRAIL})
        except (StoreError, Superseded) as error:
            raise CutOff(error) from error
        made: JsonObject = response.value
        return made

    def room(self, tools: Sequence[ToolDefinition]) -> int | None:
        """What messages may come to, by the smallest model that might be asked; None when none of them says."""
        plan = self._plan(None)
        knobs = self._agent.spec.parameters if self._requested is None else self._requested.within(plan)
        max_tokens = knobs.max_tokens
        rooms = [input_room(model, max_tokens) for model in (plan.primary, *plan.fallbacks)]
        known = [room for room in rooms if room is not None]
        if not known:
            return None
        return max(
            0,
            min(known)
            - estimate_tokens(
                CompletionRequest(messages=(), tools=self._shown(tools), response_schema=self.response_schema)
            ),
        )

    def _shown(self, tools: Sequence[ToolDefinition]) -> tuple[ToolDef, ...]:
        if self._offered[0] is not tools:
            shown = tuple([ToolDef(tool.name, tool.description, dict(tool.input)) for tool in tools])
            self._offered = (tools, shown)
        return self._offered[1]

    async def mend(self, call_id: str, messages: Sequence[JsonObject], tool: ToolDefinition) -> ModelAnswer | None:
        """One try to get a better tool call; outside the conversation, so it has no number."""
        recorded = self._log.memo.repairs.get(call_id)
        if recorded is not None:
            return _recorded_answer(recorded)
        request = await self._request(messages, [tool], CallOptions(), False)
        try:
            return _answer(await self._complete(self._plan(None), request, {"role": "repair", "repairs": call_id}))
        except StepFailed:
            return None  # the refusal of the first call stands

    async def judge(self, question: JudgeQuestion, key: str) -> JudgeAnswer | Failure:
        """What a judging model says about the run; outside the conversation, so it has no number."""
        recorded = self._log.memo.asides.get(key)
        if recorded is not None:
            return _recorded_judgement(recorded)
        asked = judge_request(question, self._toolset.workspace.runtime.redaction)
        before, self._negotiated = self._negotiated, None
        try:
            plan = self._plan(question.model)
            response = await self._complete(plan, asked, {"role": JUDGE, "aside": key})
        except StepFailed as failed:
            return failed.failure
        finally:
            self._negotiated = before
        return judge_answer(response, request_hash(asked.to_json(plan.primary.name)))

    def _plan(self, switched_to: str | None) -> ModelChoice:
        name = switched_to or self.model
        if name is None and self._setup.plan is not None:
            return self._setup.plan
        chosen = self._agent.model_plan
        if name is not None and (switched_to is not None or chosen is None):
            chosen = ModelPlan(primary=name)
        elif name is not None and chosen is not None:  # a request chooses the model; what the agent requires stays
            chosen = chosen.model_copy(update={"primary": name, "fallbacks": ()})
        if chosen is None:
            raise StepFailed(Failure("AGENT_HAS_NO_MODEL", f"Agent {self._agent.name!r} names no model."))
        if chosen.primary not in self._toolset.workspace.models:
            raise StepFailed(Failure("MODEL_NOT_FOUND", "The workspace has no such model."))
        return self._toolset.plans.plan(chosen)

    async def _complete(
        self, plan: ModelChoice, request: CompletionRequest, marks: dict[str, str], hashes: dict[str, str] = _NO_HASHES
    ) -> CompletionResponse:
        scope = self._log.scope
        held: list[Payload] = []

        def record(payload: Payload) -> "Awaitable[Payload | None]":
            if isinstance(payload, BuiltDelta) and not marks:
                # Nearly every payload: one for each token.
                if payload.closing and self._log.hold(payload) is not None:
                    return HELD
                return self._log.place(payload) or recorded(payload)
            if payload.type == _NEGOTIATED and "model" in payload.to_json():
                held.append(payload)  # goes with the request that follows: one commit less before the first token
                return HELD
            return recorded(payload)

        async def recorded(payload: Payload) -> "Payload | None":
            made = payload
            if marks:
                if self.held_back and payload.type == _SIGNAL:
                    return None
                marked = _marked(payload, marks)
                if marked is None:
                    return None
                payload = marked
            if payload.type == _REQUESTED:
                if self.held_back:
                    await self._log.record(*held, PayloadEntry(payload, apart=_HELD_BACK))
                # Stored in one commit with the first of the answer, unless that takes its time (ADR 12).
                elif self._log.hold(*held, payload, within=REQUEST_WAITS_SECONDS) is None:
                    await self._log.record(*held, payload)
                held.clear()
                return None
            if payload.type == _COMPLETED:
                if hashes:
                    payload = ModelCompleted.unchecked(payload.to_json() | hashes)
                return await self._record_answer(payload, made)
            await self._log.record(payload)
            return None

        def screen(message_id: str) -> DeltaScreen:
            unseen = marks.get("role") in ASIDES and marks.get("role") != DRAFT
            if self._guardrails is None or self._guardrails.scanners is None or unseen:
                return SecretScreen(self._secrets.streamed)
            return MessageScreen(self._guardrails, message_id)

        contents = self._setup.contents
        if marks.get("role") == GUARDRAIL:
            contents = ContentPolicy("count", contents.reasoning)
        negotiation = self._router.negotiate(plan, request)
        outcome = await self._router.complete(
            plan,
            request,
            record=record,
            message_id=new_id("message"),
            cancelled=self._log.control.cancelled,
            tenant=scope.tenant,
            adapter=scope.actor.removeprefix("backend:"),
            contents=contents,
            negotiated=self._negotiated,
            negotiation=negotiation,
            budget=self._budget,
            outside=self._log.control.outside,
            screen=screen,
        )
        if held:
            await self._log.record(*held)
        self._negotiated = negotiation
        self._log.stop_if_cancelled()
        if not isinstance(outcome, Failure):
            return outcome
        if outcome.code == "GUARDRAIL_DENIED" and self._guardrails is not None:
            self._guardrails.go_on()
        if outcome.code == "BUDGET_EXCEEDED":
            raise await self._over_budget(outcome)
        raise StepFailed(outcome)

    async def _over_budget(self, failure: Failure) -> StepFailed:
        detail: dict[str, Any] = dict(failure.detail or {})
        budget, limit = _BUDGETS[detail["budget"]], detail["limit"]
        payload = BudgetExceeded.model_validate(
            {"budget": budget, "scope": detail.get("scope", "run"), "limit": limit, "used": detail.get("used", limit)}
        )
        return await self._log.exceeded(payload)

    async def _record_answer(self, payload: Payload, made_as: Payload) -> Payload | None:
        """Returns a model's answer as it is stored, so that a resumed run sees what this one saw. `made_as` is the
        payload before it was marked, with the content of its media."""
        media = made_as.media if isinstance(made_as, BuiltModelCompleted) else ()
        if self.held_back:
            event = (await self._log.record(PayloadEntry(payload, blobs=media, apart=_HELD_BACK))).events[0]
            return ModelCompleted.model_validate((await inline(event, self._load)).payload)
        made = payload.to_json()
        words_only = not made["toolCalls"] and "reasoning" not in made
        drafts = None
        if words_only and not media and not self._log.control.cancelled.is_set:
            # The run's end usually follows at once, in the same commit; what it learns comes a moment later.
            drafts = self._log.hold(payload, within=REQUEST_WAITS_SECONDS if self._setup.learns else 0.0)
        if drafts is None:
            event = (await self._log.record(PayloadEntry(payload, blobs=media) if media else payload)).events[0]
            stored, encoded = event.payload, event.payload_bytes
        else:
            stored, encoded = drafts[0].payload, drafts[0].encoded
        if encoded.find(b'"$blob"') >= 0 or (words_only and stored["text"] == made["text"]):
            return None
        return ModelCompleted.model_validate(stored)

    async def _request(
        self, messages: Sequence[JsonObject], tools: Sequence[ToolDefinition], options: CallOptions, answering: bool
    ) -> CompletionRequest:
        setup = self._setup
        knobs, reasoning, parallel = setup.sampling, setup.reasoning, setup.parallel_tools
        requested, choice = (self._requested, self._choice) if answering else (None, None)
        if requested is not None:
            knobs = sampling(requested.within(self._plan(options.model)))
            reasoning, parallel = reasoning_level(requested.reasoning), requested.parallel
        if choice is not None:
            self._choice = None
        if choice not in _ANY_TOOL and all(tool.name != choice for tool in tools):
            choice = None  # the tool is not offered here, and no provider takes the choice of one that it does not know
        offered = self._shown(tools) if tools else ()
        if self._setup.hides_personal_data:
            messages = [_without_personal_data(message) for message in messages]
        for message in messages:
            if "parts" in message:
                await self._media.load(message["parts"])
        return CompletionRequest(
            messages=tuple([message_from_json(message, self._content) for message in messages]),
            tools=offered,
            tool_choice=choice if offered else None,
            parallel_tool_calls=parallel if offered else None,
            **knobs,
            reasoning=reasoning,
            response_schema=options.response_schema or (self.response_schema if options.role is None else None),
        )


def _without_personal_data(message: JsonObject) -> JsonObject:
    """What the workspace's author wrote is left alone; references to content are not texts."""
    if message["role"] == "system":
        return message
    hidden: JsonObject = {}
    for name in ("content", "tool_calls"):
        if name in message:
            hidden[name] = without_personal_data(message[name])
    if "parts" in message:
        hidden["parts"] = [
            part | {"text": without_personal_data(part["text"])} if part["type"] == "text" else part
            for part in message["parts"]
        ]
    return message | hidden


def judge_request(question: JudgeQuestion, redaction: Redaction) -> CompletionRequest:
    text = without_personal_data(question.text) if redaction.in_prompts else question.text
    messages = (Message("system", question.instructions), Message("user", text))
    return CompletionRequest(messages=messages, temperature=0.0, seed=question.seed, max_tokens=MAX_JUDGEMENT_TOKENS)


def judge_answer(response: CompletionResponse, digest: str | None) -> JudgeAnswer:
    usage = {
        "inputTokens": response.usage.input_tokens,
        "outputTokens": response.usage.output_tokens,
        "costUsd": response.usage.cost_usd,
    }
    known = {name: value for name, value in usage.items() if value is not None}
    return JudgeAnswer(response.text, response.model, digest, known)


def _recorded_judgement(payload: StoredPayload) -> JudgeAnswer:
    return JudgeAnswer(payload["text"], payload["model"], payload.get("requestHash"), payload["usage"])


def foreign_tools(tools: Sequence[ToolDefinition]) -> str | None:
    """What MCP servers said of the tools that a model is offered; None when none of them is theirs."""
    pinned = sorted([definition_hash(tool) for tool in tools if tool.pin is not None]) if tools else ()
    return hashlib.sha256("".join(pinned).encode()).hexdigest() if pinned else None


def _without_tools(document: JsonObject) -> str:
    return request_hash({name: value for name, value in document.items() if name != "tools"})


def _with_extra(tools: Sequence[ToolDefinition], options: CallOptions) -> Sequence[ToolDefinition]:
    """What the backend runs itself comes last; a name that is taken would leave open who is meant."""
    if not options.extra_tools:
        return tools
    names = {tool.name for tool in tools}
    for extra in options.extra_tools:
        if extra.name in names:
            message = f"The backend offers a tool named {extra.name!r}, which the agent has already."
            raise StepFailed(Failure("TOOL_NAME_TAKEN", message))
        names.add(extra.name)
    return [*tools, *(ToolDefinition(it.name, it.description, input=it.input) for it in options.extra_tools)]


def _marked(payload: Payload, marks: Mapping[str, str]) -> Payload | None:
    """The payload of a call that is not the run's own, with who it is for; None for what is not to be recorded."""
    if payload.type == _SIGNAL and "role" in marks:
        if marks["role"] in ASIDES:
            return None  # nobody is to take the pieces of it for the answer
        return AdapterEvent.unchecked({"event": payload.to_json()["event"] | {"role": marks["role"]}})
    for model in (ModelRequested, ModelCompleted):
        if payload.type == model.type:
            fields = {name: mark for name, mark in marks.items() if name in model.model_fields}
            return model.unchecked(payload.to_json() | fields)
    return payload


def _answer(response: CompletionResponse) -> ModelAnswer:
    made = response.tool_calls
    if not (made or response.parts or response.thoughts):  # nearly every answer is only a text
        text = response.text
        return ModelAnswer(text, (), {"role": "assistant", "content": text}, response.message_id)
    calls = tuple([CallRequest(c.id, c.name, c.args, c.raw_args) for c in made])
    message = response.as_message().to_json()
    return ModelAnswer(response.text, calls, message, response.message_id, tuple(message.get("parts", ())))


def _recorded_answer(payload: StoredPayload) -> ModelAnswer:
    calls = tuple(CallRequest(c["id"], c["name"], c["args"], c.get("rawArgs")) for c in payload["toolCalls"])
    message: JsonObject = {"role": "assistant", "content": payload["text"]}
    if calls:
        message["tool_calls"] = [recorded_call(call) for call in payload["toolCalls"]]
    if payload.get("parts"):
        message["parts"] = answer_parts(payload["text"], payload["parts"])
    if payload.get("thoughts"):
        message["thoughts"] = payload["thoughts"]
    return ModelAnswer(payload["text"], calls, message, payload["messageId"], tuple(message.get("parts", ())))
