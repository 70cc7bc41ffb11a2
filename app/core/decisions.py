"""What a hook or a policy answers: allow, deny, or transform. Values only; whoever asked performs them."""

from dataclasses import field
from typing import Any, TypeAlias

from app.core.value import contract_value


@contract_value(frozen=True, slots=True)
class Allow:
    reason: str | None = None


@contract_value(frozen=True, slots=True)
class Deny:
    reason: str
    by: str | None = None
    """The handler that denied, when it may be named."""


@contract_value(frozen=True, slots=True)
class Transform:
    """Go on with these fields of the subject replaced. Whoever asked validates them again."""

    changes: dict[str, Any] = field(default_factory=dict)
    by: str | None = None
    reason: str | None = None


Decision: TypeAlias = Allow | Deny | Transform

ALLOW = Allow()
"""The one instance most answers are."""


@contract_value(frozen=True, slots=True)
class Approved:
    by: str | None = None
    interrupt_id: str | None = None
    """The question whose answer allows the call."""


@contract_value(frozen=True, slots=True)
class NotApproved:
    """A person (or an expiry) said no, or what was approved is not what is asked for."""

    reason: str | None = None
    by: str | None = None
    code: str = "APPROVAL_DENIED"


Approval: TypeAlias = Approved | NotApproved
