"""Embeddings on the account of a run or of a tenant: within its budget, by the Models of its workspace.

What was used is collected for whoever records it. Leaves to the models room: asking the provider.
"""

from collections.abc import Mapping, Sequence

from app.core.errors import Failure
from app.events.catalog.memory import MemoryEmbeddingCompleted
from app.models.config import ModelConfig, model_config
from app.models.contract import Budget
from app.models.embeddings import Embedded, Embedder, embedding_identity
from app.workspace.compiled import Named
from app.workspace.specs.model import ModelSpec


class EmbeddingCalls:
    def __init__(
        self, embedder: Embedder, models: Mapping[str, Named[ModelSpec]], budget: Budget | None, tenant: str
    ) -> None:
        self._embedder, self._models, self._budget, self._tenant = embedder, models, budget, tenant
        self.spent: list[MemoryEmbeddingCompleted] = []
        """What is to be recorded."""
        self.failures: dict[str, Failure] = {}
        """By Model: why vectors could not be made."""

    def identity(self, model: str) -> str | None:
        config = self._config(model)
        return None if config is None else embedding_identity(config)

    async def embed(self, model: str, texts: Sequence[str]) -> list[bytes] | Failure:
        config = self._config(model)
        if config is None:
            return Failure("MODEL_NOT_FOUND", f"The workspace has no Model named {model!r}.")
        made = await self._embedder.embed(config, texts, self._budget, self._tenant)
        if made.requests:
            self.spent.append(embedding_event(config, made))
        if made.failure is not None:
            self.failures[model] = made.failure
            return made.failure
        return made.vectors

    def taken(self) -> list[MemoryEmbeddingCompleted]:
        """What was spent since it was last asked."""
        spent, self.spent = self.spent, []
        return spent

    def _config(self, model: str) -> ModelConfig | None:
        named = self._models.get(model)
        return None if named is None else model_config(model, named.spec)


def embedding_event(config: ModelConfig, made: Embedded) -> MemoryEmbeddingCompleted:
    return MemoryEmbeddingCompleted.model_validate(
        {
            "model": config.name,
            "provider": config.provider,
            "text_count": made.texts,
            "request_count": made.requests,
            "usage": {"input_tokens": made.usage.input_tokens, "cost_usd": made.usage.cost_usd},
        }
    )
