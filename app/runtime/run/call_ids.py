"""Ids of a run's tool calls: unique within the run, whatever a backend passes, and the same when it is entered again.

Results, approvals, answers of clients and subagents are found by these ids, so two calls must never share one. The ids
of our own models are unique already (`models/toolcalls`); this holds for every backend, also for one that makes up ids.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from app.core import json

_FORM: Final = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


class RunCallIds:
    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._used: set[str] = set()
        self._repeats: Counter[str] = Counter()

    def of(self, asked: str, name: str, arguments: Mapping[str, Any] | str | None, *, taken: bool = False) -> str:
        """The id as it was asked for if it is well-formed and new in this run; else one that follows from the run, the
        call and how often it was repeated, so that re-entry finds it. `taken` says that the log has another call of
        this id: branches that come back in another order get the ids that their calls had."""
        if not taken and asked not in self._used and _FORM.fullmatch(asked) is not None:
            self._used.add(asked)
            return asked
        content = _content(self._run_id, asked, name, arguments)
        while True:
            self._repeats[content] += 1
            made = "call_" + hashlib.sha256(f"{content}\n{self._repeats[content]}".encode()).hexdigest()[:32]
            if made not in self._used:
                self._used.add(made)
                return made


def _content(run_id: str, asked: str, name: str, arguments: object) -> str:
    parts = hashlib.sha256()
    for part in (run_id, asked, name):
        parts.update(hashlib.sha256(part.encode("utf-8", "surrogatepass")).digest())
    try:
        parts.update(json.canonical(arguments))
    except (json.JsonError, RecursionError):
        parts.update(b"-")  # the guard refuses such arguments; the calls are distinguished by how often they came
    return parts.hexdigest()
