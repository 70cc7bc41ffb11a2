"""What of a stored payload a UI event shows: short texts, previews without secrets, and references to what is large."""

from collections.abc import Mapping
from typing import Any, Final

from app.core import json
from app.views.ui import standard

MAX_PREVIEW: Final = 500
"""Characters of a preview; the whole is behind a reference or in the native event."""
MAX_TEXT: Final = 24_000
"""Characters of a text that is inline. Each may be escaped, so a payload with one of them is checked as a whole."""
HIDDEN: Final = "[hidden]"
_MAX_DEPTH: Final = 6


def blob_path(thread_id: str, sha256: str) -> str:
    return f"/api/threads/{thread_id}/blobs/{sha256}"


def inline_text(value: Any) -> str | None:
    """A text that may stand in a payload; None for one that is too long or stored apart."""
    if not isinstance(value, str):
        return None
    return value if len(value) <= MAX_TEXT else None


def preview(value: Any) -> str | None:
    """The beginning of any value, for people. What a key calls a secret is hidden."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(_shown(value, 0)).decode()
    return text if len(text) <= MAX_PREVIEW else text[: MAX_PREVIEW - 1] + "…"


def _shown(value: Any, depth: int) -> Any:
    if isinstance(value, Mapping):
        if depth >= _MAX_DEPTH:
            return "…"
        return {
            str(key)[:80]: HIDDEN if standard.SECRET_KEY.search(str(key)) else _shown(item, depth + 1)
            for key, item in list(value.items())[:50]
        }
    if isinstance(value, list):
        return ["…"] if depth >= _MAX_DEPTH else [_shown(item, depth + 1) for item in value[:50]]
    return value[:MAX_PREVIEW] if isinstance(value, str) else value


def usage(given: Any) -> dict[str, Any] | None:
    """Without the word that the standard takes for a secret."""
    if not isinstance(given, Mapping):
        return None
    names = {"inputTokens": "input", "outputTokens": "output", "reasoningTokens": "reasoning", "costUsd": "costUsd"}
    return {theirs: given[ours] for ours, theirs in names.items() if ours in given}
