"""References to the environment, `${env:NAME}`: found at load, resolved at the moment of use.

The compiled workspace holds only the reference. Which names may be used is listed in the Runtime document.
"""

import re
from collections.abc import Mapping

from app.core.errors import Failure

ENV_NAME_PATTERN = r"[A-Za-z_][A-Za-z0-9_]{0,127}"
SECRET_PATTERN = r"^\$\{env:" + ENV_NAME_PATTERN + r"\}$"

_REFERENCE = re.compile(r"\$\{env:(" + ENV_NAME_PATTERN + r")\}")
_LOOKALIKE = re.compile(r"\$\{[^}]*\}?|\$\(env")


def env_names(text: str) -> list[str]:
    """The names a text refers to, in order."""
    return _REFERENCE.findall(text)


def is_malformed(text: str) -> bool:
    """Whether something in the text looks like a reference and is none."""
    return _LOOKALIKE.search(_REFERENCE.sub("", text)) is not None


def resolve_env(text: str, environ: Mapping[str, str]) -> str | Failure:
    """The text with each reference replaced; a variable that is not set is a failure that names it."""
    missing = [name for name in env_names(text) if name not in environ]
    if missing:
        return Failure(
            "SECRET_MISSING", f"the environment variable {missing[0]} is not set", detail={"name": missing[0]}
        )
    return _REFERENCE.sub(lambda found: environ[found[1]], text)
