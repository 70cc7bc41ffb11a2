"""Embeddings without a server, for tests and measurements of what stores and finds them."""

from collections.abc import Sequence

from app.core.errors import Failure
from app.models.embeddings import scripted_vector


class ScriptedEmbeddings:
    def __init__(self, tenant: str = "default") -> None:
        self.tenant = tenant

    def identity(self, model: str) -> str | None:
        return model

    async def embed(self, model: str, texts: Sequence[str]) -> list[bytes] | Failure:
        return [scripted_vector(text) for text in texts]
