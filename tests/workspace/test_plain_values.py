"""What is read for every call is a plain value with the fields of its document."""

from app.workspace.specs.model import ModelSpec, Timeouts
from app.workspace.specs.plain import plain

SPEC = {"provider": "openai", "model": "m", "timeouts": {"idleSeconds": 5.0}, "parameters": {"temperature": 0.5}}


def test_a_plain_value_has_the_fields_and_properties_of_its_document_and_of_those_within() -> None:
    document = ModelSpec.model_validate(SPEC)
    made = plain(document)
    assert all(getattr(made, name) == getattr(document, name) for name in ("provider", "model", "fallbacks", "config"))
    assert (made.timeouts.idle_seconds, made.guardrails.stages) == (5.0, document.guardrails.stages)
    assert made.parameters.model_fields_set == {"temperature"}


def test_a_plain_value_is_read_from_slots() -> None:
    made = plain(Timeouts())
    assert not hasattr(type(made), "__getattr__") and not hasattr(made, "__dict__")
    assert made == plain(Timeouts()) != plain(Timeouts.model_validate({"idleSeconds": 5.0}))
