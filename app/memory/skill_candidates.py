"""Skills that runs suggest: the same tools, in the same order, for inputs with the same words, again and again.

A pure fold over completed runs; the same runs give the same candidates. Nothing is installed by itself: a candidate is
a proposed SKILL.md that a person accepts. Leaves to others: reading the runs, recording, writing the file.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

from app.core.value import value
from app.memory.terms import terms

LEAST_RUNS: Final = 3
"""Runs that have to agree before a skill is proposed."""
LEAST_TOOLS: Final = 2
_COMMON_SHARE: Final = 0.8
"""The share of the inputs that have a word which counts as their intent."""
_MAX_TRIGGERS: Final = 3
_MAX_CITED: Final = 10
_WORD: Final = re.compile(r"[^\W\d_]{4,}")
"""Shorter words and numbers say too little to choose a skill by."""
_NAME: Final = re.compile(r"[^a-z0-9]+")


@value(frozen=True, slots=True)
class CompletedRun:
    """What the fold looks at."""

    id: str
    agent: str
    input: str
    tools: tuple[str, ...]
    """Called with success, in order; one that is called several times in a row counts once."""


@value(frozen=True, slots=True)
class SkillCandidate:
    id: str
    agent: str
    name: str
    triggers: tuple[str, ...]
    tools: tuple[str, ...]
    runs: tuple[str, ...]
    """The evidence, newest first."""
    confidence: float

    @property
    def path(self) -> str:
        return f"skills/{self.name}/SKILL.md"


def skill_candidates(runs: Iterable[CompletedRun]) -> list[SkillCandidate]:
    """Best first. Runs come newest first."""
    known = list(runs)
    groups: defaultdict[tuple[str, tuple[str, ...]], list[CompletedRun]] = defaultdict(list)
    for run in known:
        if len(run.tools) >= LEAST_TOOLS:
            groups[run.agent, run.tools].append(run)
    found = [_candidate(agent, tools, group, known) for (agent, tools), group in groups.items()]
    made = [candidate for candidate in found if candidate is not None]
    return sorted(made, key=lambda candidate: (-candidate.confidence, -len(candidate.runs), candidate.id))


def _candidate(
    agent: str, tools: tuple[str, ...], group: Sequence[CompletedRun], known: Sequence[CompletedRun]
) -> SkillCandidate | None:
    counted = Counter(word for run in group for word in _words(run.input))
    common = [word for word, count in counted.items() if count >= max(LEAST_RUNS, _COMMON_SHARE * len(group))]
    if not common:
        return None
    # The rarest words of the agent's inputs say most about this intent.
    everywhere = Counter(word for run in known if run.agent == agent for word in _words(run.input))
    triggers = tuple(sorted(common, key=lambda word: (everywhere[word], word))[:_MAX_TRIGGERS])
    meant = [run for run in group if any(word in _words(run.input) for word in triggers)]
    alike = [run for run in known if run.agent == agent and any(word in _words(run.input) for word in triggers)]
    if len(meant) < LEAST_RUNS:
        return None
    digest = sha256("\x00".join((agent, *tools, "", *triggers)).encode()).hexdigest()
    name = _NAME.sub("-", f"{'-'.join(triggers[:2])}".casefold()).strip("-") or f"skill-{digest[:8]}"
    share = len(meant) / len(alike)
    confidence = round(share * (1 - 1 / (1 + len(meant))), 3)
    return SkillCandidate(f"skc_{digest[:24]}", agent, name, triggers, tools, tuple(r.id for r in meant), confidence)


def _words(text: str) -> frozenset[str]:
    return frozenset(term for term in terms(text) if _WORD.fullmatch(term))


def skill_file(candidate: SkillCandidate) -> str:
    """The SKILL.md: valid frontmatter, the steps, and the runs that are the evidence."""
    # Letters only; in quotes, because YAML takes a few words for something else.
    quoted = ", ".join(f'"{word}"' for word in candidate.triggers)
    listed = ", ".join(dict.fromkeys(candidate.tools))
    steps = "\n".join(f"{number}. Call `{tool}`." for number, tool in enumerate(candidate.tools, 1))
    cited = "\n".join(f"- `{run}`" for run in candidate.runs[:_MAX_CITED])
    more = len(candidate.runs) - _MAX_CITED
    rest = f"\n- and {more} more" if more > 0 else ""
    return (
        "---\n"
        f'name: "{candidate.name}"\n'
        f"description: Does what {len(candidate.runs)} runs of {candidate.agent} did for the same kind of request.\n"
        f"triggers: [{quoted}]\n"
        f"allowed-tools: [{listed}]\n"
        "version: 1\n"
        "schema_version: v1\n"
        "---\n\n"
        f"These steps solved requests about {', '.join(candidate.triggers)} before. Take the arguments from the "
        "request and from the results of earlier steps.\n\n"
        f"{steps}\n\n"
        f"Evidence (confidence {candidate.confidence}):\n\n{cited}{rest}\n"
    )


def collapsed(tools: Iterable[str]) -> tuple[str, ...]:
    """Several calls of one tool in a row are one step."""
    made: list[str] = []
    for tool in tools:
        if not made or made[-1] != tool:
            made.append(tool)
    return tuple(made)
