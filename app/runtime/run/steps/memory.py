"""Memory before the backend, before the final answer, and after the run. Leaves to the memory room: what is kept and
what is found.

Each of the three is recorded once, in one commit; a run that is entered again gets what was recorded.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from app.events.catalog import Payload
from app.events.catalog import memory as facts
from app.events.catalog.memory import MemoryHook
from app.events.catalog.tool import ToolResulted
from app.events.catalog.values import ErrorValue
from app.events.recorder import PayloadEntry
from app.events.salted import FORGOTTEN, salted
from app.memory.contract import Recalled, RunIdentity, Said
from app.memory.service import Learned
from app.models.router import error_value
from app.policy.points import text_of
from app.runtime.run.embedding_calls import EmbeddingCalls
from app.runtime.run.memory_events import candidate_events
from app.runtime.run.run_memory import RunMemory
from app.runtime.run.steps.run_scope import RunScope
from app.tools.memory_tools import memory_tools_of
from app.workspace.compiled import CompiledMemory

_READ_AT: Final[Mapping[MemoryHook, str]] = {
    "read-before-plan": "beforePlan",
    "read-before-finalize": "beforeFinalize",
}


_LATEST: Final = 2**62
_PAGE: Final = 200


async def recall(run_scope: RunScope) -> None:
    if run_scope.agent.spec.memory:
        _lent(run_scope)
        run_scope.memory = await recalled_at(run_scope, "read-before-plan", text_of(run_scope.given))


async def recall_before_finalize(run_scope: RunScope) -> None:
    """For backends that did not ask before they answered: what is known is recorded for whoever reads the run."""
    assert run_scope.output is not None
    if run_scope.agent.spec.memory and not run_scope.finalized:
        await before_finalize(run_scope, run_scope.output.text)


async def before_finalize(run_scope: RunScope, answer: str) -> str:
    """What memory adds to an answer that is about to be given: records that the run has not seen. Asked once."""
    if run_scope.finalized:
        return ""
    run_scope.finalized = True
    return await recalled_at(run_scope, "read-before-finalize", f"{text_of(run_scope.given)}\n{answer}")


async def learn(run_scope: RunScope) -> None:
    """Before the run's terminal event, and without waiting for anybody: a question to a person stays behind."""
    memories = [memory for memory in _memories(run_scope) if memory.spec.write != "off"]
    if not memories or _recorded(run_scope, "write-after-run"):
        return
    assert run_scope.output is not None and run_scope.tools is not None
    by_user = _is_users(run_scope)
    heard = _tools_heard(run_scope, run_scope.tools.used)
    said = Said(
        text_of(run_scope.given),
        run_scope.output.text,
        heard if by_user or heard else await _tools_of_thread(run_scope),
        by_user,
        given_event=next((e.id for e in run_scope.family if e.run_id == run_scope.run.id), None),
    )

    lent = _lent(run_scope)
    learned = await run_scope.services.memory.learn(
        identity_of(run_scope),
        memories,
        said,
        f"run:{run_scope.run.id}",
        lent.check,
        run_scope.stale,
        lent.embeddings,
        run_scope.log.send_held,
    )
    entries: list[Payload | PayloadEntry] = [facts.MemoryLifecycle(hook="write-after-run"), *lent.spent()]
    for one in learned:
        entries += _learned_events(one)
    # The run's end usually follows at once, in the same commit. Learning again with the same key stores nothing twice.
    if run_scope.log.hold(*entries) is None:
        await run_scope.log.record(*entries)


async def recalled_at(run_scope: RunScope, hook: MemoryHook, query: str) -> str:
    """The text for the model; empty if nothing is known."""
    memories = [memory for memory in _memories(run_scope) if _READ_AT[hook] in memory.spec.read]
    if not memories:
        return ""
    if _recorded(run_scope, hook):
        stored = run_scope.log.memo.facts.get(facts.MemoryRecallCompleted.type, ())
        found = [payload for payload in stored if payload.get("hook") == hook]
        known = [record for payload in found for record in payload["recordIds"]]
        run_scope.recalled += known
        run_scope.stale += known
        return _joined([_context(payload["context"]) for payload in found])
    lent = _lent(run_scope)
    recalled = await run_scope.services.memory.recall(
        identity_of(run_scope), memories, query, frozenset(run_scope.recalled), lent.embeddings
    )
    spent = lent.spent()
    entries: list[Payload | PayloadEntry] = [facts.MemoryLifecycle(hook=hook), *spent]
    for one in recalled:
        one = _with_failure(one, run_scope.workspace.memories[one.memory], lent)
        entries += _recalled_events(one, hook, run_scope.workspace.memories[one.memory])
        run_scope.recalled += one.record_ids
        run_scope.stale += one.stale
    if hook == "read-before-plan" and not spent:
        await run_scope.log.open_with(*entries)  # in the log before a model is given any of it
    else:
        await run_scope.log.record(*entries)
    return _joined([one.context for one in recalled])


def _lent(run_scope: RunScope) -> RunMemory:
    """What the run lends to memory; its tools find it from then on."""
    if run_scope.memory_access is None:
        services, scope = run_scope.services, run_scope.log.scope
        embeddings = None
        if services.embedder is not None:
            embeddings = EmbeddingCalls(services.embedder, run_scope.workspace.models, run_scope.budget, scope.tenant)
        run_scope.memory_access = RunMemory(run_scope.guardrails, embeddings)
        services.memory_runs.enter(scope.tenant, run_scope.run.id, run_scope.memory_access)
    return run_scope.memory_access


def _with_failure(recalled: Recalled, memory: CompiledMemory, lent: RunMemory) -> Recalled:
    """A search whose vectors could not be made found by words alone; the run records why."""
    model = memory.spec.embedding
    failed = lent.embeddings.failures.pop(model, None) if lent.embeddings is not None and model is not None else None
    return recalled if failed is None else replace(recalled, failure=failed)


def identity_of(run_scope: RunScope) -> RunIdentity:
    scope = run_scope.log.scope
    first = run_scope.family[0] if run_scope.family else None
    actor = first.actor if first is not None else "system"
    delegated = first.payload.get("user") if first is not None else None
    user = delegated or actor.removeprefix("user:")
    return RunIdentity(
        scope.tenant, run_scope.agent.name, user, scope.thread_id, run_scope.run.id, f"agent:{run_scope.agent.name}"
    )


def _tools_heard(run_scope: RunScope, used: set[str]) -> frozenset[str]:
    """The tools whose output the model saw, in this run or in the history; those of memory itself do not count."""
    heard = used | {str(said.get("name")) for said in run_scope.history if said["role"] == "tool"}
    return frozenset(heard - memory_tools_of(run_scope.workspace))


def _is_users(run_scope: RunScope) -> bool:
    """Whether the input is what the user wrote. That of a subagent or of a workflow's step was written by a model,
    unless it hands on the user's own words."""
    if run_scope.run.parent_run_id is None:
        return True
    asked = run_scope.family[0].payload.get("input") if run_scope.family else None
    words = text_of(run_scope.given)
    return words == text_of(asked) or _contains(asked, words)


def _contains(value: Any, words: str) -> bool:
    if isinstance(value, Mapping):
        return any(_contains(one, words) for one in value.values())
    return any(_contains(one, words) for one in value) if isinstance(value, list) else value == words


async def _tools_of_thread(run_scope: RunScope) -> frozenset[str]:
    """What a model wrote to another may come from any tool that answered in the thread."""
    scope, own = run_scope.log.scope, memory_tools_of(run_scope.workspace)
    after, found = 0, set[str]()
    while page := await run_scope.services.reader.events_of(
        scope.tenant, scope.thread_id, [ToolResulted.type], after, _LATEST, _PAGE
    ):
        after = page[-1].seq
        found |= {str(event.payload["tool"]) for event in page}
    return frozenset(found - own)


def _memories(run_scope: RunScope) -> list[CompiledMemory]:
    return [run_scope.workspace.memories[name] for name in run_scope.agent.spec.memory]


def _recorded(run_scope: RunScope, hook: MemoryHook) -> bool:
    stored = run_scope.log.memo.facts.get(facts.MemoryLifecycle.type, ())
    return any(payload["hook"] == hook for payload in stored)


def _context(stored: Any) -> str:
    """What was recalled may have been forgotten since; the run goes on with the mark in its place."""
    return stored if isinstance(stored, str) else FORGOTTEN


def _joined(contexts: list[str]) -> str:
    return "\n\n".join(context for context in contexts if context)


def _recalled_events(recalled: Recalled, hook: MemoryHook, memory: CompiledMemory) -> list[Payload | PayloadEntry]:
    made: list[Payload | PayloadEntry] = []
    if recalled.failure is not None:
        made.append(_plugin_failed(memory, recalled.namespace, error_value(recalled.failure)))
    reference, blob = salted(recalled.context, recalled.record_ids)
    completed = facts.MemoryRecallCompleted(
        namespace=recalled.namespace,
        record_ids=list(recalled.record_ids),
        context=reference if recalled.context else "",
        hook=hook,
        memory_id=recalled.memory,
    )
    made.append(PayloadEntry(completed, blobs=(blob,)) if recalled.context else completed)
    return made


def _learned_events(learned: Learned) -> list[Payload | PayloadEntry]:
    made: list[Payload | PayloadEntry] = []
    provider, memory = learned.indexed_by, learned.memory
    if provider is not None:
        plugin = {"memory_id": memory.name, "provider": provider, "namespace": learned.namespace}
        made.append(facts.MemoryPluginStarted.model_validate(plugin))
    for one in learned.submitted:
        made += candidate_events(one)
    if provider is not None:
        if learned.failure is not None:
            made.append(_plugin_failed(memory, learned.namespace, error_value(learned.failure)))
        else:
            count = len(learned.submitted)
            made.append(facts.MemoryPluginCompleted.model_validate({**plugin, "candidate_count": count}))
    return made


def _plugin_failed(memory: CompiledMemory, namespace: str, error: ErrorValue) -> facts.MemoryPluginFailed:
    return facts.MemoryPluginFailed(memory_id=memory.name, provider=memory.spec.kind, namespace=namespace, error=error)
