"""What is wrong with a body, as a short list: at most twenty places, whatever was sent.

The validation library makes an object for every error before any can be looked at, so a body is refused without a list
when it has too many of them. Leaves to others: parsing (`body`), the shape of the answer (`errors`).
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError

from app.core.errors import Failure
from app.core.schemas import Issue, json_pointer
from app.protocols.http.errors import MAX_ISSUES, HttpProblem

_MAX_LISTED: Final = 1000
"""Errors that are looked at for the twenty that are listed: a few milliseconds."""
_MAX_NAME: Final = 64
"""Characters of a name that the sender chose and that is repeated; a longer one shows as `*`."""


def refuse_unknown_fields(value: Any, model: type[BaseModel]) -> None:
    """For a closed model, before it makes an error of each of very many names."""
    if model.model_config.get("extra") != "forbid" or not isinstance(value, dict):
        return
    known = _names(model)
    if len(unknown := value.keys() - known) > MAX_ISSUES:
        issues = [Issue(json_pointer([shown(name)]), unknown_name(name, known)) for name in _some(unknown)]
        raise HttpProblem(
            Failure("INVALID_REQUEST", f"The body has {len(unknown)} fields that this call does not take."), issues
        )


def problem_of(error: ValidationError, model: type[BaseModel]) -> HttpProblem:
    count = error.error_count()
    if count > _MAX_LISTED:
        return HttpProblem(Failure("INVALID_REQUEST", f"{count} fields are missing or wrong, too many to be listed"))
    found = error.errors(include_url=False, include_context=False, include_input=False)
    issues = [_issue(one["type"], one["loc"], one["msg"], model) for one in found[:MAX_ISSUES]]
    more = f"; the first {MAX_ISSUES} of {count} are listed" if count > MAX_ISSUES else ""
    return HttpProblem(Failure("INVALID_REQUEST", f"A field is missing or wrong{more}."), issues)


def unknown_name(name: str, known: Iterable[str]) -> str:
    """The message for a name that is not known, with the nearest one that is."""
    nearest = get_close_matches(name[:_MAX_NAME], list(known), 1)
    return f"is not known here; did you mean `{nearest[0]}`?" if nearest else "is not known here"


def shown(name: str) -> str:
    return name if len(name) <= _MAX_NAME and name.isprintable() else "*"


def _some(names: Iterable[str]) -> list[str]:
    return sorted(names)[:MAX_ISSUES]


def _issue(kind: str, place: Sequence[str | int], message: str, model: type[BaseModel]) -> Issue:
    path = json_pointer([step if isinstance(step, int) else shown(step) for step in place]) or "/"
    if kind == "extra_forbidden":
        inner = _model_at(model, place[:-1])
        return Issue(path, unknown_name(str(place[-1]), () if inner is None else _names(inner)))
    return Issue(path, message.removeprefix("Value error, ") if kind == "value_error" else message)


def _model_at(model: type[BaseModel], place: Sequence[str | int]) -> type[BaseModel] | None:
    for step in place:
        field = next((it for name, it in model.model_fields.items() if step in (name, it.alias)), None)
        inner = None if field is None else _model_in(field.annotation)
        if inner is None:
            return None
        model = inner
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _model_in(inner)) is not None), None)


def _names(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}
