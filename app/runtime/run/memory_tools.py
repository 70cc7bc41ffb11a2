"""What the tools remember, recall and forget do for the run that calls them.

A call acts on the memories of its agent, for the user of its run, and on nothing else. Leaves to the gate: whether the
tool may be called; to the memory room: what becomes of a candidate.
"""

from typing import Final

from app.core.errors import Failure
from app.core.json import Json, JsonObject
from app.events.catalog import memory as facts
from app.events.catalog import tool as tool_facts
from app.events.ports import RunNotTerminal
from app.events.recorder import Recorder, Scope
from app.memory.candidates import MODEL_CONFIDENCE, TOOL_CONFIDENCE
from app.memory.contract import MemoryCandidate, RunIdentity, Submitted
from app.memory.service import MemoryService
from app.runtime.run.memory_events import candidate_events
from app.runtime.run.run_memory import RunMemories, RunMemory
from app.runtime.workspaces import WorkspaceHistory
from app.tools.contract import JsonResult, Result, ToolContext
from app.tools.memory_tools import memory_tools_of
from app.views.ports import Reader
from app.views.run import Run
from app.workspace.compiled import CompiledMemory, CompiledWorkspace
from app.workspace.namespaces import filled

_LATEST: Final = 2**62
_MAX_DEPTH: Final = 10


class RunMemoryTools:
    def __init__(
        self,
        memory: MemoryService,
        recorder: Recorder,
        reader: Reader,
        history: WorkspaceHistory,
        runs: RunMemories,
    ) -> None:
        self._memory, self._recorder, self._reader, self._history = memory, recorder, reader, history
        self._runs = runs

    async def remember(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        found = await self._of_call(arguments, ctx, write=True)
        if isinstance(found, Failure):
            return found
        run, memory, identity, workspace = found
        tainted = await self._saw_output(run, ctx.tenant, memory_tools_of(workspace))
        confidence = float(arguments.get("confidence", MODEL_CONFIDENCE))
        candidate = MemoryCandidate(
            arguments["text"],
            memory.spec.type,
            "tool" if tainted else "model",
            min(confidence, TOOL_CONFIDENCE) if tainted else confidence,
            slot=arguments.get("about"),
        )
        lent = self._runs.of(ctx.tenant, ctx.run_id) or RunMemory()
        learned = await self._memory.submit(
            identity,
            memory,
            [candidate],
            f"call:{ctx.run_id}:{ctx.call_id}",
            check=lent.check,
            embeddings=lent.embeddings,
        )
        (submitted,) = learned.submitted
        await self._record(run, ctx, submitted, lent)
        made: JsonObject = {"outcome": submitted.outcome, "reason": submitted.reason}
        if submitted.record_id is not None:
            made["id"] = submitted.record_id
        return JsonResult(made)

    async def recall(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        found = await self._of_call(arguments, ctx, write=False)
        if isinstance(found, Failure):
            return found
        run, memory, identity, _ = found
        namespace = filled(memory.spec.namespace, memory.spec.type, identity.values(memory.name))
        limit = int(arguments.get("limit", memory.spec.recall.top_k))
        recollection, lent = self._memory.recollection, self._runs.of(ctx.tenant, ctx.run_id) or RunMemory()
        ranked = await recollection.search(
            ctx.tenant, memory, namespace, arguments["query"], limit, embeddings=lent.embeddings
        )
        if spent := lent.spent():
            await self._recorder.record(self._scope(run, ctx), *spent, conditions=[RunNotTerminal(run.id)])
        contents = await recollection.contents(ctx.tenant, [one.record for one in ranked])
        records: list[Json] = [
            {"id": one.record.id, "text": contents[one.record.id]["text"], "score": round(one.score, 4)}
            for one in ranked
            if one.record.id in contents and one.score >= memory.spec.recall.min_score
        ]
        return JsonResult({"records": records})

    async def forget(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        found = await self._of_call(arguments, ctx, write=True)
        if isinstance(found, Failure):
            return found
        _, memory, identity, _ = found
        namespace = filled(memory.spec.namespace, memory.spec.type, identity.values(memory.name))
        known = [await self._memory.table.record(ctx.tenant, record_id) for record_id in arguments["ids"]]
        if any(record is None or record.namespace != namespace for record in known):
            return Failure("MEMORY_NOT_FOUND", "This memory has no record with one of these ids.")
        some = await self._memory.forgetting.with_history(
            ctx.tenant, [record for record in known if record is not None]
        )
        gone = await self._memory.forget(ctx.tenant, some, reason="the agent asked for it", by=identity.actor)
        await self._memory.trim_indexes(ctx.tenant, {memory.name: memory}, gone)
        return JsonResult({"forgotten": [record.id for record in some]})

    async def _of_call(
        self, arguments: JsonObject, ctx: ToolContext, *, write: bool
    ) -> tuple[Run, CompiledMemory, RunIdentity, CompiledWorkspace] | Failure:
        run = await self._reader.run(ctx.tenant, ctx.run_id)
        workspace = await self._history.of(run.workspace_digest) if run is not None else None
        agent = workspace.acting(run.agent, run.workflow) if run is not None and workspace is not None else None
        if run is None or workspace is None or agent is None:
            return Failure("MEMORY_NOT_AVAILABLE", "Only an agent can use this tool.")
        own = [workspace.memories[name] for name in agent.spec.memory]
        usable = [memory for memory in own if not write or memory.spec.write != "off"]
        wanted = arguments.get("memory")
        if wanted is not None:
            usable = [memory for memory in usable if memory.name == wanted]
        # Facts before episodes and scratchpads, unless the call names one.
        usable.sort(key=lambda memory: memory.spec.type != "semantic")
        if not usable:
            return Failure("MEMORY_NOT_AVAILABLE", f"The agent {agent.name} has no such memory.")
        user = await self._user(ctx.tenant, run)
        identity = RunIdentity(ctx.tenant, agent.name, user, run.thread_id, run.id, f"agent:{agent.name}")
        return run, usable[0], identity, workspace

    async def _user(self, tenant: str, run: Run) -> str:
        """Of the root run: a subagent works for the same user."""
        for _ in range(_MAX_DEPTH):
            parent = await self._reader.run(tenant, run.parent_run_id) if run.parent_run_id is not None else None
            if parent is None:
                break
            run = parent
        (queued,) = await self._reader.run_events(tenant, run.id, run.first_seq - 1, 1)
        return str(queued.payload.get("user") or queued.actor.removeprefix("user:"))

    async def _saw_output(self, run: Run, tenant: str, own: frozenset[str]) -> bool:
        """Whether another tool has said anything in the thread: it is in the history that the model was given."""
        types = [tool_facts.ToolResulted.type]
        after = 0
        while page := await self._reader.events_of(tenant, run.thread_id, types, after, _LATEST, 200):
            if any(event.payload["tool"] not in own for event in page):
                return True
            after = page[-1].seq
        return False

    async def _record(self, run: Run, ctx: ToolContext, submitted: Submitted, lent: RunMemory) -> None:
        """Once: a call that is repeated after a crash finds what it recorded."""
        types = [facts.MemoryCandidateSubmitted.type]
        stored = await self._reader.events_of(ctx.tenant, run.thread_id, types, run.first_seq - 1, _LATEST, 1000)
        repeated = any(event.payload["candidate"].get("callId") == ctx.call_id for event in stored)
        entries = [*lent.spent(), *(() if repeated else candidate_events(submitted, ctx.call_id))]
        if entries:
            await self._recorder.record(self._scope(run, ctx), *entries, conditions=[RunNotTerminal(run.id)])

    def _scope(self, run: Run, ctx: ToolContext) -> Scope:
        return Scope(ctx.tenant, run.thread_id, run.id, actor=f"tool:{ctx.tool}")
