"""The error tree.

    HoldfastError            an exception with a stable code; everything we raise on purpose
    |- JsonError             input or output that is not JSON as we accept it      (core.json)
    |- SettingsError         settings that cannot work                             (core.settings)
    |- SchemaNotFound        a schema id that is not in the registry               (core.schemas)
    |- SchemaInvalid         a document that is not a JSON Schema                 (core.schemas)
    |- StoreError            the database cannot do what was asked                 (events.ports)
    |   |- StorageFull       no space left; reads go on                            (events.ports)
    |   |- StorageFailed     the disk refused: an I/O error, no permission         (events.ports)
    |   |- StorageCorrupt    the database's file is damaged                        (events.ports)
    |   `- StorageDown       the database does not answer                          (events.ports)
    `- ...                   a room's own exceptions say so in their module

    Failure                  a domain failure as a value: returned, recorded, never raised

A code is a promise: it is listed in `error_codes`, has a page with a remedy in `docs/errors.md`, and is
never reused for something else. HTTP status is decided by the protocols, not here.
"""

from dataclasses import field
from typing import Any

from app.core.error_codes import CODES, remedy_of
from app.core.value import value


@value(frozen=True, slots=True)
class Failure:
    """What went wrong, as a value that can be returned, recorded in an event and shown to a client."""

    code: str
    message: str
    retryable: bool = False
    detail: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.code in CODES, f"error code {self.code} is not in core/error_codes"

    @property
    def remedy(self) -> str:
        return remedy_of(self.code, listed=False)


class HoldfastError(Exception):
    """Raised when an invariant or the outside world is broken. Carries a `Failure`."""

    def __init__(self, code: str, message: str, *, retryable: bool = False, **detail: Any) -> None:
        super().__init__(message)
        self.failure = Failure(code, message, retryable, detail)

    @property
    def code(self) -> str:
        return self.failure.code

    @property
    def remedy(self) -> str:
        return self.failure.remedy

    def __str__(self) -> str:
        return f"{self.failure.code}: {self.failure.message}"
