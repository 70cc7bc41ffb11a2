"""Documentation, help texts and messages use ordinary English: no private words, no requirement ids."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from app.core.error_codes import CODES
from scripts.commands import commands, parameters
from scripts.generate import ROOT

PRIVATE: Final = re.compile(
    r"\b(?:told|tells|apology|by and by|at hand|goes by|stands? (?:in|for itself)|rooms?(?! for)|houses?|rivers?"
    r"|beside|anew|of its own accord|fifth source|published session|news travels"
    r"|at most so many|is no (?:answer|command|folder|place))\b",
    re.IGNORECASE,
)
"""Words of the table in our style guide, and others that a new reader stumbles over."""
IDS: Final = re.compile(r"\b(?:(?:SH|HK|OS|CM|PX|CARD|WF|EV)-[A-Z]?\d+\w*|[GS]\d{1,2})\b")
"""Requirements of our own list. Users do not know them."""

PAGES: Final = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("app/*/README.md")),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_has_no_private_words_and_no_requirement_ids(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`|\]\([^)]*\)", " ", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert sorted({found[0] for pattern in (PRIVATE, IDS) for found in pattern.finditer(text)}) == []


def test_help_texts_and_error_codes_have_no_private_words() -> None:
    texts = {f"{name}: {text}" for name, code in CODES.items() for text in (code.meaning, code.remedy)}
    for path, command in commands():
        texts.add(f"{' '.join(path)}: {command.help}")
        texts |= {f"{' '.join(path)}: {getattr(one, 'help', '')}" for one in parameters(command)}
    assert sorted(text for text in texts if PRIVATE.search(text) or IDS.search(text)) == []


def test_messages_of_failures_have_no_private_words() -> None:
    bad = [
        f"{path.relative_to(ROOT)}: {message}"
        for path in sorted((ROOT / "app").rglob("*.py"))
        for message in _messages(path)
        if PRIVATE.search(message) or IDS.search(message)
    ]
    assert bad == []


def test_messages_of_failures_begin_as_sentences() -> None:
    """A message may begin with the name of a field or a file. Diagnostics of the compiler follow a place and a code on
    their line, and begin in lower case as those of other compilers do."""
    bad = [
        f"{path.relative_to(ROOT)}: {message}"
        for path in sorted((ROOT / "app").rglob("*.py"))
        if not path.is_relative_to(ROOT / "app/workspace")
        for message in _messages_of_failures(path)
        if re.match(r"[a-z]+(?:[ ,;:]|$)", message)
    ]
    assert bad == []


def _messages_of_failures(path: Path) -> Iterator[str]:
    for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Failure":
            yield from (_literal(one) for one in call.args[1:2])


def test_sources_name_no_requirement_ids() -> None:
    named = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "app").rglob("*.py")
        if IDS.search(_prose(path)) or "fifth source" in path.read_text(encoding="utf-8")
    }
    assert sorted(named) == []


def _messages(path: Path) -> Iterator[str]:
    """The texts after an error code in any call, such as `Failure("NOT_FOUND", "There is no such run.")`."""
    for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(call, ast.Call):
            code = next(
                (n for n, one in enumerate(call.args) if isinstance(one, ast.Constant) and one.value in CODES), 99
            )
            yield from (_literal(one) for one in call.args[code + 1 :])


def _literal(node: ast.expr) -> str:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return " ".join(str(part.value) for part in parts if isinstance(part, ast.Constant))


def _prose(path: Path) -> str:
    """Comments and texts of a source file; names in code are not prose."""
    source = path.read_text(encoding="utf-8")
    texts = [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return "\n".join([*texts, *re.findall(r"#.*", source)])
