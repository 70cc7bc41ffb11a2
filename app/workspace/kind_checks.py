"""Checks the kinds that documents name: that each can be used, and that its `config` fits the kind's own model."""

from collections.abc import Mapping

from app.workspace.catalog import BrokenKind, Kind, Kinds
from app.workspace.diagnostics import DocPath
from app.workspace.names import did_you_mean
from app.workspace.report import DocumentPlace, Report
from app.workspace.shapes import check_section


def check_kind(
    code: str, known: Kinds[Kind], name: str, place: DocumentPlace, path: DocPath, word: str, report: Report
) -> bool:
    """Whether the kind can be used; `code` is the one of a kind that does not exist."""
    if name not in known:
        hint = did_you_mean(report.suggest.nearest(name, known))
        expected = f"one of: {', '.join(sorted(known))}"
        report.error(code, place, path, f"there is no {word} {name!r}", expected=expected, hint=hint)
        return False
    kind = known[name]
    if isinstance(kind, BrokenKind):
        message = f"the {word} {name!r} of the package {kind.package!r} cannot be used: {kind.reason}"
        report.error("KIND_BROKEN", place, path, message, hint=f"correct or remove the package {kind.package}")
        return False
    if not kind.installed:
        message = f"the {word} {name!r} needs an optional extra that is not installed"
        report.error("KIND_NOT_INSTALLED", place, path, message, hint=kind.remedy)
    return kind.installed


def check_config(
    known: Kinds[Kind],
    name: str,
    config: Mapping[str, object],
    place: DocumentPlace,
    path: DocPath,
    word: str,
    report: Report,
) -> None:
    """A key that the kind does not read has no effect; everything else is for its model to judge."""
    kind = known.usable(name)
    if kind is None:
        return
    keys = {info.alias or field for field, info in kind.config.model_fields.items()}
    unread = set() if kind.config.model_config.get("extra") == "allow" else config.keys() - keys
    for key in sorted(unread):
        hint = did_you_mean(report.suggest.nearest(key, keys))
        expected = f"one of: {', '.join(sorted(keys))}" if keys else "no `config`"
        message = f"the {word} {name!r} does not read `{key}`; it would have no effect"
        report.error("NOT_SERVED", place, (*path, key), message, expected=expected, hint=hint or "remove it", key=True)
    read = {key: value for key, value in config.items() if key not in unread}
    check_section(read, kind.config, place, path, report)
