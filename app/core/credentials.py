"""Credentials that a text gives away by the words around them: `password=...`, `token: ...`, `//user:password@host`.

For the texts of errors and for the process's log, which nobody wrote for others to read. Leaves to the policy package:
secrets that are known by their form or value, in everything that is recorded.
"""

from typing import Final

import re2

_ASSIGNED: Final = re2.compile(
    r"""(?i)((?:password|passwd|pwd|secret|token|api[_-]?key|authorization|credentials?)["']?\s*[=:]\s*"""
    r"""(?:(?:bearer|basic)\s+)?)("[^"]*"|'[^']*'|[^\s,;&"']+)"""
)
_IN_ADDRESS: Final = re2.compile(r"(://[^/\s:@]*:)[^@/\s]+@")


def masked(text: str) -> str:
    """In linear time, whatever the text."""
    text = _ASSIGNED.sub(r"\1[REDACTED:secret]", text)
    masked_text: str = _IN_ADDRESS.sub(r"\1[REDACTED:secret]@", text)
    return masked_text
