"""Markdown with frontmatter: the YAML block between two `---` lines, and the text after it.

Leaves to others: which frontmatter a file needs and what its text is for.
"""

from typing import Any

from app.core.value import value
from app.workspace.documents import YamlProblem, parse_yaml

_FENCE = b"---"


@value(frozen=True, slots=True)
class MarkdownFile:
    """`values` is None when there is no frontmatter; `frontmatter` is its text, which begins on line 2."""

    values: Any
    body: str
    frontmatter: bytes = b""
    problems: tuple[YamlProblem, ...] = ()


def parse_markdown(content: bytes) -> MarkdownFile:
    try:
        content.decode()
    except UnicodeDecodeError:
        problem = YamlProblem("FILE_ENCODING", 1, 1, "the file is not UTF-8 text")
        return MarkdownFile(None, "", problems=(problem,))
    content = content.removeprefix(b"\xef\xbb\xbf")
    lines = content.splitlines(keepends=True)
    if not lines or lines[0].rstrip() != _FENCE:
        return MarkdownFile(None, content.decode())
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip() == _FENCE:
            block = b"".join(lines[1:number])
            return _with_frontmatter(block, b"".join(lines[number + 1 :]))
    problem = YamlProblem("FRONTMATTER_OPEN", 1, 1, "the frontmatter is not closed by a line `---`")
    return MarkdownFile(None, "", problems=(problem,))


def _with_frontmatter(block: bytes, body: bytes) -> MarkdownFile:
    parsed = parse_yaml(block, line_offset=1)
    text = body.decode().strip("\r\n")
    if parsed.problems:
        return MarkdownFile(None, text, block, parsed.problems)
    values = parsed.documents[0].value if parsed.documents else {}
    if not isinstance(values, dict):
        problem = YamlProblem("DOCUMENT_NOT_MAPPING", 2, 1, "the frontmatter is not a mapping")
        return MarkdownFile(None, text, block, (problem,))
    return MarkdownFile(values, text, block)
