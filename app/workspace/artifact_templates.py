"""Compiles the templates of `workflows/artifacts`: how a deliverable is named, checked and written.

The naming rule is a template of its own in the frontmatter, never prose. Every place is `{{ root.name }}`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from app.core.schemas import SchemaRegistry, Validator
from app.workspace.compiled_cycles import ArtifactTemplate
from app.workspace.diagnostics import DocPath
from app.workspace.names import did_you_mean
from app.workspace.templates import Template, TemplateProblem, compile_template
from app.workspace.tools import MakeValidator, compile_schema
from app.workspace.unit_fields import UnitCheck

ROOTS: Final = ("output", "input", "cycle", "phase", "mode", "generation", "date", "slug", "run", "review_aggregate")
_MAX_FRONTMATTER: Final = 100


def compile_artifact(check: UnitCheck, schemas: SchemaRegistry, validator: MakeValidator) -> ArtifactTemplate | None:
    values = check.unit.values
    check.fields()
    naming = _template(check, ("naming",), values.get("naming"))
    if "naming" not in values:
        message = "the template does not say how its artifacts are named"
        check.error("FIELD_MISSING", (), message, expected="`naming`", hint="write `naming: {{ date }}-{{ slug }}.md`")
    elif naming is not None and not naming.source.strip():
        check.error("VALUE_INVALID", ("naming",), "the name is empty")
    schema, checked = _schema(check, values.get("schema"), schemas, validator)
    frontmatter = _frontmatter(check)
    body = _template(check, (), check.unit.body, "the text of the template: ")
    if naming is None or checked is None or body is None:
        return None
    return ArtifactTemplate(check.unit.id, naming, schema, checked, frontmatter, body, check.unit.place.source.file)


def _schema(
    check: UnitCheck, given: Any, schemas: SchemaRegistry, validator: MakeValidator
) -> tuple[str | None, Validator | None]:
    """The id of a published schema, or a schema that is written out."""
    if isinstance(given, str):
        return given, published_schema(check, ("schema",), given, schemas)
    if isinstance(given, dict):
        return None, compile_schema(given, ("schema",), check.unit.place, check.report, validator)
    code = "FIELD_MISSING" if "schema" not in check.unit.values else "VALUE_INVALID"
    path: DocPath = ("schema",) if "schema" in check.unit.values else ()
    expected = "`schema`: the id of a published schema, such as brainstorm_v1, or a JSON Schema"
    check.error(code, path, "the template does not say what its artifacts must be", expected=expected)
    return None, None


def published_schema(check: UnitCheck, path: DocPath, name: str, schemas: SchemaRegistry) -> Validator | None:
    known = schemas.contracts()
    if name in known:
        return schemas.validator(name)
    hint = did_you_mean(check.report.suggest.nearest(name, known)) or ""
    expected = f"one of: {', '.join(known)}"
    check.error("SCHEMA_UNKNOWN", path, f"there is no published schema {name!r}", expected=expected, hint=hint)
    return None


def _frontmatter(check: UnitCheck) -> Mapping[str, Any]:
    given = check.unit.values.get("frontmatter", {})
    if not isinstance(given, dict) or len(given) > _MAX_FRONTMATTER:
        expected = f"a mapping with at most {_MAX_FRONTMATTER} entries"
        check.error("VALUE_INVALID", ("frontmatter",), "the frontmatter is not a mapping", expected=expected)
        return MappingProxyType({})
    made = {
        name: _template(check, ("frontmatter", name), value) if isinstance(value, str) else value
        for name, value in given.items()
    }
    return MappingProxyType(made)


def _template(check: UnitCheck, path: DocPath, text: Any, about: str = "") -> Template | None:
    if not isinstance(text, str):
        if text is not None:
            check.error("VALUE_INVALID", path, "this is not a text", expected="a template")
        return None
    made = compile_template(text, ROOTS)
    if isinstance(made, TemplateProblem):
        check.error("TEMPLATE_INVALID", path, about + made.message, hint="write each place as `{{ output.title }}`")
        return None
    return made
