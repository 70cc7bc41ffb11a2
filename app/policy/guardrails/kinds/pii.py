"""Personal data: card numbers, IBANs, e-mail addresses, telephone numbers and the like, with their checksums."""

from functools import cache
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from app.policy.guardrails.contract import DEFAULT_WINDOW, MAX_WINDOW
from app.policy.guardrails.kind import GuardrailDeps, GuardrailKind, Made, config_of
from app.policy.guardrails.pii import PII, NumberScanner, pii_scanners
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.base import Spec
from app.workspace.specs.others import GuardrailSpec

PiiName = Literal["card", "iban", "email", "phone", "national_id", "ip", "mac", "token"]


class PiiConfig(Spec):
    kinds: Annotated[
        tuple[PiiName, ...], Field(min_length=1, description="What to look for; everything if it is not given.")
    ] = ("card", "iban", "email", "phone", "national_id", "ip", "mac", "token")
    window: Annotated[int, Field(ge=1, le=MAX_WINDOW, description="Characters that may be held back of a stream.")] = (
        DEFAULT_WINDOW
    )

    @model_validator(mode="after")
    def _fits_the_window(self) -> Self:
        for kind in self.kinds:
            longest = _longest(kind)
            if longest > self.window:
                raise ValueError(
                    f"to find `{kind}`, {longest} characters may have to be held back; `window` is too small"
                )
        return self


@cache
def _longest(kind: str) -> int:
    """Of what a kind finds. A secret is looked for in every stream, whatever its rules, so it does not count."""
    return max((one.longest for one in PII[kind]() if isinstance(one, NumberScanner)), default=0)


def make(declared: Named[GuardrailSpec], _workspace: CompiledWorkspace, _deps: GuardrailDeps) -> Made:
    config = config_of(declared, PiiConfig)
    return tuple(pii_scanners(kind for kind in PII if kind in config.kinds))


KIND: Final = GuardrailKind(name="pii", config=PiiConfig, make=make)
