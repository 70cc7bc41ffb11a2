"""Personal data of every kind, replaced in any JSON value: for prompts and traces, as a workspace asks for it."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from app.policy.guardrails.pii import pii_scanners
from app.policy.guardrails.window import ScannerSet
from app.policy.redaction import PERSONAL, without


@cache
def _scanners() -> ScannerSet:
    return ScannerSet(pii_scanners(PERSONAL))


def without_personal_data(value: Any) -> Any:
    """The value with all personal data in its texts replaced; the same value if there is none."""
    if isinstance(value, str):
        return without(value, _scanners())
    if isinstance(value, Mapping):
        return {name: without_personal_data(item) for name, item in value.items()}
    return [without_personal_data(item) for item in value] if isinstance(value, list | tuple) else value
