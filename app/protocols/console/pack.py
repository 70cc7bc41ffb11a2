"""Joins the console's modules into one script and its style sheets into one, so that a page starts with two requests.

Only what the files of this folder use of the language is understood: imports and exports by name, at the start of a
line or of a statement, never in a circle. Leaves to others: which files there are and how they are served (`assets`).
"""

import posixpath
import re
from collections.abc import Mapping
from typing import Final

ENTRY: Final = "src/main.js"
STYLES: Final = (
    "vendor/uplot.css",
    "styles/base.css",
    "styles/layout.css",
    "styles/parts.css",
    "styles/run.css",
)
"""In the order in which their rules count."""

_START: Final = """const __files = new Map(), __made = new Map();
const __need = (name) => {
  let made = __made.get(name);
  if (!made) {
    made = {};
    __files.get(name)((given) => Object.assign(made, given));
    __made.set(name, made);
  }
  return made;
};
"""
_STATEMENT: Final = r"(?:(?<=^)|(?<=;))"
_IMPORT: Final = re.compile(_STATEMENT + r'import\s*(\{[^}]*\}|\w+)\s*from\s*"([^"]+)";?', re.MULTILINE)
_PASSED_ON: Final = re.compile(_STATEMENT + r'export\s*(\{[^}]*\})\s*from\s*"([^"]+)";?', re.MULTILINE)
_LIST: Final = re.compile(r"(?:(?<=^)|(?<=[;}]))export\s*(\{[^}]*\});?", re.MULTILINE)
_DECLARED: Final = re.compile(r"^export (?=(?:async function|function|const|class) (\w+))", re.MULTILINE)
_DEFAULT: Final = re.compile(_STATEMENT + r"export default ", re.MULTILINE)
_LATER: Final = re.compile(r'\bimport\("([^"]+)"\)')
_LEFT_OVER: Final = re.compile(r"^(?:import|export)\b(?!\()", re.MULTILINE)


def script(files: Mapping[str, str]) -> str:
    """One script of the module that starts the page and all it imports. A library that is imported on demand only stays
    a file of its own."""
    packed: dict[str, str] = {}
    _add(ENTRY, files, packed, ())
    modules = (f'__files.set("{name}", (__give) => {{\n{text}\n}});\n' for name, text in packed.items())
    return f'{_START}{"".join(modules)}__need("{ENTRY}");\n'


def style_sheet(files: Mapping[str, str]) -> str:
    return "\n".join(files[name] for name in STYLES)


def _add(name: str, files: Mapping[str, str], packed: dict[str, str], above: tuple[str, ...]) -> None:
    if name in above:
        raise ValueError(f"modules of the console import each other in a circle: {' -> '.join((*above, name))}")
    if name in packed:
        return
    text = files[name]
    for pattern in (_IMPORT, _PASSED_ON):
        for found in pattern.finditer(text):
            _add(_target(name, found[2]), files, packed, (*above, name))
    packed[name] = ""  # its place: after what it imports; a page that is imported later may import it again
    for path in _LATER.findall(text):
        if not _target(name, path).startswith("vendor/"):
            _add(_target(name, path), files, packed, ())
    packed[name] = _rewritten(name, text)


def _rewritten(name: str, text: str) -> str:
    declared = _DECLARED.findall(text)
    if _DEFAULT.search(text):
        text = _DEFAULT.sub("const __default = ", text)
        declared.append("default: __default")
    text = _IMPORT.sub(lambda found: f'const {_names(found[1])} = __need("{_target(name, found[2])}");', text)
    text = _PASSED_ON.sub(
        lambda found: f'{{ const {found[1]} = __need("{_target(name, found[2])}"); __give({found[1]}); }}', text
    )
    text = _LIST.sub(lambda found: f";__give({_names(found[1], outward=True)});", text)
    text = _LATER.sub(lambda found: _later(_target(name, found[1])), _DECLARED.sub("", text))
    if _LEFT_OVER.search(text):
        raise ValueError(f"{name} imports or exports in a way that the pack does not understand")
    return f"{text}\n__give({{ {', '.join(declared)} }});" if declared else text


def _names(said: str, *, outward: bool = False) -> str:
    """`{a as b}` as the pattern `{a: b}`, or as the object `{b: a}` of what is given; a single name is the default."""
    if not said.startswith("{"):
        return f"{{ default: {said} }}"
    pairs = [one.split(" as ") for one in said.strip("{} \n").split(",") if one.strip()]
    made = []
    for pair in pairs:
        first, last = pair[0].strip(), pair[-1].strip()
        made.append(first if first == last else f"{last}: {first}" if outward else f"{first}: {last}")
    return f"{{ {', '.join(made)} }}"


def _later(target: str) -> str:
    return f'import("./{target}")' if target.startswith("vendor/") else f'Promise.resolve("{target}").then(__need)'


def _target(name: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))
