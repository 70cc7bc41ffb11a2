"""Signs deliveries as the standard-webhooks specification says: HMAC-SHA256 over id, time and body.

Leaves to others: where secrets are kept.
"""

import base64
import hmac
import secrets
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

PREFIX: Final = "whsec_"
_BYTES: Final = 32


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(_BYTES)).decode()


def signed_headers(keys: Sequence[str], event_id: str, now_ms: int, body: bytes) -> dict[str, str]:
    """One signature for each secret, so that receivers verify before and after a rotation."""
    seconds = str(now_ms // 1000)
    content = b".".join((event_id.encode(), seconds.encode(), body))
    signatures = [f"v1,{base64.b64encode(_mac(key, content)).decode()}" for key in keys]
    return {
        "content-type": "application/json",
        "webhook-id": event_id,
        "webhook-timestamp": seconds,
        "webhook-signature": " ".join(signatures),
    }


def _mac(key: str, content: bytes) -> bytes:
    return hmac.new(base64.b64decode(key.removeprefix(PREFIX)), content, sha256).digest()
