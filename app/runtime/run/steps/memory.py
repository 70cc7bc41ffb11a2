"""Memory before and after the backend. Leaves to the memory room: what is kept and what is found."""

from app.runtime.run.steps.run_scope import RunScope


async def recall(run_scope: RunScope) -> None:
    tenant = run_scope.log.scope.tenant
    run_scope.notes = await run_scope.services.memory.recall(tenant, run_scope.given, run_scope.agent)


async def learn(run_scope: RunScope) -> None:
    assert run_scope.output is not None
    said = [{"role": "user", "content": str(run_scope.given)}, {"role": "assistant", "content": run_scope.output.text}]
    await run_scope.services.memory.learn(run_scope.log.scope.tenant, said, run_scope.agent)
