"""Content that may be forgotten later: a blob with a random salt, so that its hash in the chain says nothing about it.

The chain cannot be edited. It holds only the hash of such content; deleting the blob removes the content, the chain
still verifies, and a reader gets `FORGOTTEN` in its place. Leaves to others: which content that is (the memory room).
"""

import secrets
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Final

from app.core import json
from app.events.ports import BlobDraft

SALTED: Final = "application/vnd.holdfast.salted+json"
"""The type of a blob `{salt, value}`."""

FORGOTTEN: Final = "[FORGOTTEN]"
"""What a reader gets in place of content that was forgotten."""

_SALT_BYTES: Final = 16


def salted(value: Any, records: Sequence[str] = ()) -> tuple[dict[str, Any], BlobDraft]:
    """The reference for a payload, and the blob to store with it. `records` are the memory records whose text it
    holds: forgetting one of them deletes the blob."""
    data = json.dumps({"salt": secrets.token_hex(_SALT_BYTES), "value": value})
    digest = sha256(data).hexdigest()
    reference = {"$blob": {"sha256": digest, "size": len(data), "mime": SALTED}}
    return reference, BlobDraft(digest, data, SALTED, tuple(records))


def unsalted(data: bytes) -> Any:
    return json.loads(data)["value"]
