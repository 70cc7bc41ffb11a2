"""Embeddings for clients, by the exposed Models of the workspace: within the tenant's budget, redacted, recorded.

Leaves to the models room: asking the provider; to the protocols: how a client asks.
"""

from collections.abc import Callable, Sequence
from typing import Final

from app.core.errors import Failure
from app.core.principal import Principal
from app.memory.record_log import RecordLog
from app.models.config import model_config
from app.models.embeddings import Embedded, Embedder
from app.runtime.run.budgets import BudgetAccounts, Used
from app.runtime.run.embedding_calls import embedding_event
from app.runtime.workspaces import CurrentWorkspace
from app.workspace.plain_models import PREFIX
from app.workspace.specs.base import Limits

MAX_TEXT: Final = 32_768
"""Characters of one text: about the 8,191 tokens that the longest models take."""


class EmbeddingDesk:
    def __init__(
        self,
        embedder: Embedder,
        workspace: CurrentWorkspace,
        budgets: BudgetAccounts,
        records: RecordLog,
        clean: Callable[[str], str],
    ) -> None:
        self._embedder, self._workspace, self._budgets = embedder, workspace, budgets
        self._records, self._clean = records, clean

    async def embed(
        self, who: Principal, model: str, texts: Sequence[str], dimensions: int | None = None
    ) -> Embedded | Failure:
        """One vector per text. A provider gets no secret that the log would not get."""
        workspace = self._workspace.current
        named = workspace.models.get(model.removeprefix(PREFIX)) if model.startswith(PREFIX) else None
        if named is None or not named.spec.expose:
            return Failure("MODEL_NOT_FOUND", "There is no such model.")
        spec = named.spec
        if dimensions is not None:
            if spec.provider != "openai":
                return Failure("INVALID_REQUEST", f"Models of the provider {spec.provider} take no dimensions.")
            body = {**(spec.config.get("body") or {}), "dimensions": dimensions}
            spec = spec.model_copy(update={"config": {**spec.config, "body": body}})
        config = model_config(named.name, spec)
        budget = await self._budgets.of(who.tenant, Limits(), None, Used(), workspace.runtime.budgets.tenant)
        cleaned = [self._clean(text) for text in texts]
        made = await self._embedder.embed(config, cleaned, budget, who.tenant, longest=MAX_TEXT)
        if made.requests or made.failure is None:
            # Also what was known already: the log says who asked.
            await self._records.append(who.tenant, [embedding_event(config, made)], actor=who.actor)
        return made.failure or made
