"""Personal data: card numbers, IBANs, e-mail addresses, telephone numbers and the like, with their checksums."""

from typing import Annotated, Final, Literal

from pydantic import Field

from app.policy.guardrails.contract import DEFAULT_WINDOW, MAX_WINDOW
from app.policy.guardrails.kind import GuardrailDeps, GuardrailKind, Made, config_of
from app.policy.guardrails.pii import PII, pii_scanners
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.base import Spec
from app.workspace.specs.others import GuardrailSpec

PiiName = Literal["card", "iban", "email", "phone", "national_id", "ip", "mac", "token"]


class PiiConfig(Spec):
    kinds: Annotated[
        tuple[PiiName, ...], Field(min_length=1, description="What to look for; everything if it is not given.")
    ] = ("card", "iban", "email", "phone", "national_id", "ip", "mac", "token")
    window: Annotated[
        int, Field(ge=DEFAULT_WINDOW, le=MAX_WINDOW, description="Characters that may be held back of a stream.")
    ] = DEFAULT_WINDOW


def make(declared: Named[GuardrailSpec], _workspace: CompiledWorkspace, _deps: GuardrailDeps) -> Made:
    config = config_of(declared, PiiConfig)
    return tuple(pii_scanners(kind for kind in PII if kind in config.kinds))


KIND: Final = GuardrailKind(name="pii", config=PiiConfig, make=make)
