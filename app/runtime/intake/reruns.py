"""Reruns: a new run with a recorded input, on a fork of its thread from just before it, so that history is the same.

A replay token says what must not have changed. `strict` refuses when something has, before anything is done, and
fails the rerun at the first prompt or tool call that differs; `compat` goes on with what there is now. Leaves to
others: submitting (the service), forking (threads), what a token holds (views).
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, Protocol

from app import __version__
from app.core.clock import Clock
from app.core.errors import Failure
from app.core.principal import Principal
from app.core.signing import Signer
from app.core.value import value
from app.events.envelope import Event
from app.runtime.intake.capable_models import fingerprint, nearest
from app.runtime.intake.ports import RunClient
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.submission import Submission
from app.runtime.run.inlined import inline, stored_blobs
from app.runtime.workspaces import WorkspaceHistory
from app.views import replay_token as tokens
from app.views.ports import Reader
from app.views.replay_token import ReplayToken
from app.views.run import Run
from app.views.thread import Thread
from app.workspace.compiled import CompiledWorkspace

Workspace = Literal["current", "recorded"]
Mode = Literal["strict", "compat"]

_PAGE: Final = 1000
MAX_EVENTS: Final = 100_000


class Forks(Protocol):
    async def fork(
        self, who: Principal, thread_id: str, seq: int | None = None, *, title: str | None = None
    ) -> Thread | Rejected: ...


@value(frozen=True, slots=True)
class RerunRequest:
    workspace: Workspace = "current"
    token: str | None = None
    mode: Mode = "strict"
    idempotency_key: str | None = None
    body_hash: str = ""
    trace_context: Mapping[str, str] | None = None


class Reruns:
    def __init__(
        self,
        client: RunClient,
        threads: Forks,
        reader: Reader,
        workspaces: WorkspaceHistory,
        signer: Signer,
        clock: Clock,
    ) -> None:
        self._client, self._threads, self._reader, self._workspaces = client, threads, reader, workspaces
        self._signer, self._clock = signer, clock

    async def token(self, who: Principal, run_id: str) -> ReplayToken | Rejected:
        run = await self._reader.run(who.tenant, run_id)
        if run is None:
            return Rejected(Failure("RUN_NOT_FOUND", "There is no such run."))
        return await self._token(run, await self._events(who, run))

    async def _token(self, run: Run, events: Sequence[Event]) -> ReplayToken:
        used = await self._workspaces.of(run.workspace_digest)
        now = self._clock.now_ms()
        return tokens.replay_token(run.id, events, __version__, partial(fingerprint, used), now)

    async def signed_token(self, who: Principal, run_id: str) -> str | Rejected:
        token = await self.token(who, run_id)
        return token if isinstance(token, Rejected) else self.sign(token)

    def sign(self, token: ReplayToken) -> str:
        """The token as a client gets it."""
        return token.encode(self._signer)

    async def rerun(self, who: Principal, run_id: str, request: RerunRequest) -> Run | Rejected:
        run = await self._reader.run(who.tenant, run_id)
        if run is None:
            return Rejected(Failure("RUN_NOT_FOUND", "There is no such run."))
        if run.parent_run_id is not None:
            return Rejected(Failure("RUN_IS_A_SUBAGENT", "Rerun the root run."), run.parent_run_id)
        if run.undo_of is not None:
            return Rejected(Failure("RUN_IS_AN_UNDO", "The run is an undo; rerun the run that it undid."), run.undo_of)
        workspace = await self._workspace(run, request.workspace)
        if workspace is None:
            return Rejected(Failure("WORKSPACE_GONE", "The workspace of this run cannot be compiled any more."))
        events = await self._events(who, run)
        strict = request.token is not None and request.mode == "strict"
        differs: dict[str, Any] | None = None
        if request.token is not None:
            recorded = await self._token(run, events)
            given = tokens.decode(request.token, self._signer)
            refused = given if isinstance(given, Failure) else _compare(given, recorded, workspace, events)
            if refused is not None and (strict or refused.code != "REPLAY_MISMATCH"):
                return Rejected(refused)
            if refused is not None:
                found = await self._compatible(run, events, workspace, refused)
                if isinstance(found, Rejected):
                    return found
                differs = found
        forked = await self._threads.fork(who, run.thread_id, run.first_seq - 1)
        if isinstance(forked, Rejected):
            return forked
        asked = events[0].payload
        submission = _submission(run, asked, workspace, forked.id, strict, events, request)
        if differs is not None:
            submission.replay_differs = differs
            submission.model_plan = differs["model"]["model"] if "model" in differs else submission.model_plan
        return await self._client.submit(who, submission)

    async def _compatible(
        self, run: Run, events: Sequence[Event], workspace: CompiledWorkspace, refused: Failure
    ) -> dict[str, Any] | Rejected:
        """What a compatible rerun does differently; a model that is gone is replaced by the nearest that can do the
        same."""
        differs: dict[str, Any] = {"differs": refused.detail["mismatches"]}
        used = [event.payload["model"] for event in events if event.type == "runtime.model.requested"]
        gone = next((name for name in used if name not in workspace.models), None)
        if gone is None:
            return differs
        required = frozenset(
            word for event in events if event.type == "runtime.model.negotiated" for word in event.payload["required"]
        )
        before = await self._workspaces.of(run.workspace_digest)
        found = nearest(workspace, gone, before, required)
        if found is None:
            lacking = ", ".join(sorted(required)) or "no model at all"
            return Rejected(Failure("REPLAY_MISMATCH", f"No model of the workspace has what the run needs: {lacking}."))
        return {**differs, "model": found.to_json()}

    async def _workspace(self, run: Run, which: Workspace) -> CompiledWorkspace | None:
        if which == "recorded":
            return await self._workspaces.of(run.workspace_digest)
        return await self._workspaces.for_new_run()

    async def _events(self, who: Principal, run: Run) -> list[Event]:
        load = stored_blobs(self._reader, who.tenant, run.thread_id)
        events: list[Event] = []
        after = 0
        while len(events) < MAX_EVENTS and (page := await self._reader.run_events(who.tenant, run.id, after, _PAGE)):
            events += [await inline(event, load) for event in page]
            after = page[-1].seq
        return events


def _compare(
    token: ReplayToken, recorded: ReplayToken, workspace: CompiledWorkspace, events: Sequence[Event]
) -> Failure | None:
    """The token against the log, then against what a rerun would meet now."""
    if token.run_id != recorded.run_id:
        return Failure("REPLAY_TOKEN_INVALID", "The token belongs to another run.")
    differs = [name for name in ("request", "prompt", "tools") if getattr(token, name) != getattr(recorded, name)]
    used = {
        (e.payload["model"], e.payload["provider"], e.payload["providerModel"])
        for e in events
        if e.type == "runtime.model.requested"
    }
    known = {(name, named.spec.provider, named.spec.model) for name, named in workspace.models.items()}
    able = fingerprint(workspace, {name for name, _, _ in used})
    if token.provider != recorded.provider or not used <= known or able != token.provider:
        differs.append("provider")
    if token.runtime != f"{__version__}/{workspace.digest}":
        differs.append("runtime")
    if not differs:
        return None
    message = f"The rerun would differ in: {', '.join(differs)}."
    return Failure("REPLAY_MISMATCH", message, detail={"mismatches": differs})


def _submission(
    run: Run,
    asked: Mapping[str, Any],
    workspace: CompiledWorkspace,
    thread_id: str,
    strict: bool,
    events: Sequence[Event],
    request: RerunRequest,
) -> Submission:
    replay = None
    if strict:
        prompts, calls = tokens.first_prompts(events), tokens.recorded_calls(events)
        prompt = prompts[0] if prompts else None
        replay = {"prompt": prompt, "prompts": prompts, "calls": calls.hashes, "after": calls.after}
    return Submission(
        run.agent,
        asked.get("input"),
        tool=run.tool,
        workflow=run.workflow,
        mode=asked.get("mode"),
        thread_id=thread_id,
        metadata=run.metadata,
        labels=run.labels,
        model_plan=(asked.get("modelPlan") or {}).get("model"),
        limits=asked.get("limits"),
        instructions=asked.get("instructions"),
        client_tools=asked.get("clientTools") or (),
        response_schema=asked.get("responseSchema"),
        parameters=asked.get("parameters"),
        tool_choice=asked.get("toolChoice"),
        approval_policy=asked.get("approvalPolicy"),
        session_limits=asked.get("sessionLimits"),
        rerun_of=run.id,
        workspace=workspace,
        replay=replay,
        idempotency_key=request.idempotency_key,
        body_hash=request.body_hash,
        trace_context=request.trace_context,
    )
