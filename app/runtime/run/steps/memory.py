"""Memory before and after the backend. Leaves to the memory room: what is kept and what is found."""

from app.runtime.run.steps.passage import Passage


async def recall(passage: Passage) -> None:
    tenant = passage.log.scope.tenant
    passage.notes = await passage.services.memory.recall(tenant, passage.given, passage.agent)


async def learn(passage: Passage) -> None:
    assert passage.output is not None
    said = [{"role": "user", "content": str(passage.given)}, {"role": "assistant", "content": passage.output.text}]
    await passage.services.memory.learn(passage.log.scope.tenant, said, passage.agent)
