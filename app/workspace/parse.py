"""One file to checked documents: all that can be known of a file without looking at another one.

The result depends on the path and the content only, so the compiler keeps it until the file changes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any, Final

from app.core.schemas import SchemaRegistry
from app.core.value import value
from app.workspace.compiled import CompiledTool
from app.workspace.diagnostics import Diagnostic, DocPath
from app.workspace.documents import RawDocument, parse_yaml
from app.workspace.files import SourceFile
from app.workspace.markdown import parse_markdown
from app.workspace.names import did_you_mean
from app.workspace.report import DocumentPlace, Report, Source
from app.workspace.secrets import env_names, is_malformed
from app.workspace.shapes import check_shape
from app.workspace.specs import KINDS
from app.workspace.specs.base import API_VERSION, Document
from app.workspace.specs.tool import ToolDocument
from app.workspace.tools import MakeValidator, compile_tool

MARKDOWN_FOLDERS: Final = ("cycles", "phases", "policies", "personas", "artifacts")
_CONTRACTS: Final = {
    "cycles": "cycle_v1",
    "phases": "phase_v1",
    "policies": "policy_v1",
    "personas": "skill_frontmatter_v1",
}
# Where the environment is read; everything else keeps `${env:...}` as it stands and deserves a warning.
_ENV_FIELDS: Final[dict[str, tuple[DocPath, ...]]] = {
    "Model": (("spec", "apiKey"), ("spec", "baseUrl"), ("spec", "headers", "*")),
    "Profile": tuple(("spec", "models", "*", *rest) for rest in (("apiKey",), ("baseUrl",), ("headers", "*"))),
    "Tool": (
        ("spec", "http", "url"),
        ("spec", "http", "headers", "*"),
        ("spec", "http", "query", "*"),
        ("spec", "subprocess", "env", "*"),
    ),
    "McpServer": (("spec", "url"), ("spec", "env", "*"), ("spec", "headers", "*")),
    "Hook": (("spec", "env", "*"),),
    "Webhook": (("spec", "secret"),),
}


@value(frozen=True, slots=True)
class ParsedDocument:
    """`model` is None when it has mistakes; the name is kept so that references to it stay quiet."""

    kind: str
    name: str
    place: DocumentPlace
    line: int
    model: Document | None
    tool: CompiledTool | None = None
    env: tuple[tuple[DocPath, str], ...] = ()


@value(frozen=True, slots=True)
class ParsedMarkdown:
    """`category` is skill, role, or a folder of workflows/; `ok` says whether its frontmatter is valid."""

    category: str
    id: str
    place: DocumentPlace
    values: Mapping[str, Any]
    body: str
    ok: bool


@value(frozen=True, slots=True)
class ParsedFile:
    documents: tuple[ParsedDocument, ...] = ()
    markdown: ParsedMarkdown | None = None
    diagnostics: tuple[Diagnostic, ...] = ()
    count: int = field(default=0)


def parse_file(file: SourceFile, schemas: SchemaRegistry, validator: MakeValidator) -> ParsedFile:
    if file.path.endswith((".yaml", ".yml")):
        return _parse_documents(file, validator)
    category = markdown_category(file.path)
    if category is not None:
        return _parse_markdown(file, category, schemas)
    parts = file.path.split("/")
    if len(parts) == 3 and parts[0] == "skills" and parts[2].lower() == "skill.md":
        report = Report()
        report.at("FILE_IGNORED", file.path, "a skill's file is named SKILL.md, in capitals", warning=True)
        return ParsedFile(diagnostics=tuple(report.items))
    return ParsedFile()


def markdown_category(path: str) -> str | None:
    parts = path.split("/")
    if not path.endswith(".md") or parts[-1].lower() == "readme.md":
        return None
    if parts[0] == "skills" and len(parts) == 3 and parts[2] == "SKILL.md":
        return "skill"
    if parts[0] == "roles" and len(parts) == 2:
        return "role"
    if parts[0] == "workflows" and len(parts) >= 3 and parts[1] in MARKDOWN_FOLDERS:
        return parts[1]
    return None


def _parse_documents(file: SourceFile, validator: MakeValidator) -> ParsedFile:
    parsed = parse_yaml(file.content)
    report = Report()
    for problem in parsed.problems:
        report.yaml(file.path, problem)
    source = Source(file.path, file.content)
    documents = []
    for raw in parsed.documents:
        document = _check(raw, source, report, validator)
        if document is not None:
            documents.append(document)
    return ParsedFile(tuple(documents), None, tuple(report.items), parsed.count)


def _check(raw: RawDocument, source: Source, report: Report, validator: MakeValidator) -> ParsedDocument | None:
    place = DocumentPlace(source, raw.index)
    value = raw.value
    if not isinstance(value, dict):
        report.error("DOCUMENT_NOT_MAPPING", place, (), "the document is not a mapping", expected="a mapping")
        return None
    if value.get("apiVersion") != API_VERSION:
        message = "the apiVersion is missing or not one of ours"
        report.error("API_VERSION", place, ("apiVersion",), message, expected=f"`apiVersion: {API_VERSION}`")
    kind = value.get("kind")
    model = KINDS.get(kind) if isinstance(kind, str) else None
    if kind is None:
        report.error("KIND_MISSING", place, (), "the document has no kind", expected=f"one of: {', '.join(KINDS)}")
    elif model is None:
        hint = did_you_mean(report.suggest.nearest(str(kind), KINDS))
        expected = f"one of: {', '.join(KINDS)}"
        report.error("KIND_UNKNOWN", place, ("kind",), "there is no such kind", expected=expected, hint=hint)
    if model is None or value.get("apiVersion") != API_VERSION:
        return None
    metadata = value.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    title = f"{kind}/{name}" if isinstance(name, str) else str(kind)
    return _check_kind(raw, model, str(kind), name, DocumentPlace(source, raw.index, title), report, validator)


def _check_kind(
    raw: RawDocument,
    model: type[Document],
    kind: str,
    name: Any,
    place: DocumentPlace,
    report: Report,
    validator: MakeValidator,
) -> ParsedDocument | None:
    env = tuple(_env_references(raw.value, kind, place, report)) if b"${" in place.source.content else ()
    document = check_shape(raw.value, model, place, report)
    if document is None:
        return ParsedDocument(kind, name, place, raw.line, None) if isinstance(name, str) else None
    tool = compile_tool(document, place, report, validator) if isinstance(document, ToolDocument) else None
    return ParsedDocument(kind, document.metadata.name, place, raw.line, document, tool, env)


def _env_references(value: Any, kind: str, place: DocumentPlace, report: Report) -> Iterator[tuple[DocPath, str]]:
    for path, text in _texts(value, ()):
        if "${" not in text or path[:2] == ("spec", "config"):
            continue
        if not any(_matches(path, pattern) for pattern in _ENV_FIELDS.get(kind, ())):
            if env_names(text):
                message = "the environment is not read here; the text stays as it is"
                report.warning("ENV_NOT_HERE", place, path, message)
            continue
        if is_malformed(text):
            message = "the reference to the environment is malformed"
            report.error("ENV_MALFORMED", place, path, message, expected="`${env:NAME}`")
        for name in env_names(text):
            yield path, name


def _matches(path: DocPath, pattern: DocPath) -> bool:
    return len(path) == len(pattern) and all(want in ("*", step) for step, want in zip(path, pattern, strict=True))


def _texts(value: Any, path: DocPath) -> Iterator[tuple[DocPath, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(item, (*path, number))


def _parse_markdown(file: SourceFile, category: str, schemas: SchemaRegistry) -> ParsedFile:
    parsed = parse_markdown(file.content)
    report = Report()
    # An invalid skill is skipped with a warning; in everything else a mistake is an error.
    lenient = category == "skill"
    for problem in parsed.problems:
        report.yaml(file.path, problem, warning=lenient)
    ok = not parsed.problems
    place = DocumentPlace(Source(file.path, parsed.frontmatter, 1), 0, file.path)
    values: Any = parsed.values
    if ok and values is None and category != "role":
        message = "the file has no frontmatter"
        report.at("FRONTMATTER_MISSING", file.path, message, warning=lenient)
        ok = False
    contract = "skill_frontmatter_v1" if category == "skill" else _CONTRACTS.get(category)
    if ok and contract is not None:
        for issue in schemas.validate(contract, values, show_keys=True):
            ok = False
            path = _pointer_path(issue.path, values)
            say = report.warning if lenient else report.error
            code = "SKILL_INVALID" if lenient else "FRONTMATTER_INVALID"
            say(code, place, path, issue.message, expected=f"frontmatter as in {contract}")
    values = values if isinstance(values, dict) else {}
    unit = ParsedMarkdown(category, _unit_id(file.path, category, values), place, values, parsed.body, ok)
    return ParsedFile((), unit, tuple(report.items), 1)


def _unit_id(path: str, category: str, values: Mapping[str, Any]) -> str:
    stem = path.rsplit("/", 1)[-1].removesuffix(".md")
    if category == "skill":
        stem = path.split("/")[1]
    given = values.get("name") if category in ("skill", "personas") else values.get("id")
    if category == "role" or not isinstance(given, str):
        return stem.removesuffix("-template") if category == "artifacts" else stem
    return given


def _pointer_path(pointer: str, value: Any) -> DocPath:
    path: list[str | int] = []
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            path.append(int(name))
            value = value[int(name)]
        else:
            path.append(name)
            value = value.get(name) if isinstance(value, dict) else None
    return tuple(path)
