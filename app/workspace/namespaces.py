"""Namespaces: templates such as `{tenant}/{agent}/{user}`, filled so that no value reaches into another's segment.

Every namespace begins with the tenant, whether its template says so or not.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Final
from urllib.parse import quote

VARIABLES: Final = ("tenant", "agent", "user", "thread", "memory")
DEFAULTS: Final = {
    "working": "{tenant}/{agent}/{thread}",
    "episodic": "{tenant}/{agent}/{user}",
    "semantic": "{tenant}/{agent}/{user}",
}
"""By type of memory."""

_VARIABLE: Final = re.compile(r"\{([^{}]*)\}")
_PREFIX: Final = "{tenant}/"
_MAX_SEGMENT: Final = 200
_SAFE: Final = "@:+,;=!$"


def template_problem(template: str) -> str | None:
    """Why this is no template of a namespace; None if it is one."""
    unknown = [name for name in _VARIABLE.findall(template) if name not in VARIABLES]
    if unknown:
        return f"there is no variable {{{unknown[0]}}}; the variables are {', '.join(f'{{{v}}}' for v in VARIABLES)}"
    if "{" in _VARIABLE.sub("", template) or "}" in _VARIABLE.sub("", template):
        return "a brace is not closed"
    if any(not part.strip() for part in template.split("/")):
        return "a part between two slashes is empty"
    if "{tenant}" in template and not template.startswith("{tenant}"):
        return "the tenant is the first part of every namespace"
    if template.startswith("{tenant}") and not template.startswith(_PREFIX):
        return "`{tenant}` is a part of its own; write `{tenant}/...`"
    return None


def filled(template: str | None, type_: str, values: Mapping[str, str]) -> str:
    """The namespace. Values are escaped: a slash in a user's name begins no new part."""
    text = template or DEFAULTS[type_]
    if not text.startswith(_PREFIX):
        text = _PREFIX + text
    return _VARIABLE.sub(lambda found: segment(values[found[1]]), text)


@lru_cache(maxsize=1024)
def segment(value: str) -> str:
    """One part of a namespace. A long value is shortened to a hash, so that two never become one."""
    text = quote(value, safe=_SAFE) or "-"
    if text == "-" and value:
        text = "%2D"
    return text if len(text) <= _MAX_SEGMENT else f"{text[:100]}~{sha256(value.encode()).hexdigest()}"


def has_variable(template: str | None, type_: str, name: str) -> bool:
    return f"{{{name}}}" in (template or DEFAULTS[type_])
