"""What of a run is worth offering as memory: statements of the user, the episode, the scratchpad.

Rules only, no model: the same run always offers the same. A model proposes more with the tool `remember`. Leaves to
`decisions`: what becomes of it.
"""

import re
from typing import Final

from app.memory.contract import MemoryCandidate, RecordSource, Said
from app.memory.terms import folded

MAX_STATEMENTS: Final = 8
"""Of one run."""
_SHORTEST, _LONGEST = 8, 500
_EXCERPT: Final = 600
"""Characters of each side of an episode."""

USER_CONFIDENCE: Final = 0.9
MODEL_CONFIDENCE: Final = 0.6
TOOL_CONFIDENCE: Final = 0.3

# Full stops, exclamation and question marks: of Latin, CJK (also at full width), Arabic and Devanagari.
_ENDS: Final = ".!?\u3002\uff01\uff1f\u061f\u0964"
_SENTENCE: Final = re.compile(rf"[^{_ENDS}\n]+(?:\.(?=\S)[^{_ENDS}\n]+)*[{_ENDS}]*")
_QUESTION: Final = re.compile("[?\uff1f\u061f]\\s*$")
# Words by which somebody speaks of themselves, in languages that are written with Latin letters; elsewhere every
# statement counts, because a word list would need every language.
_SELF: Final = re.compile(
    r"\b(?:i|i'm|i've|my|mine|me|we|our|us|ich|mein\w*|mir|wir|unser\w*|je|j'\w+|mon|ma|mes|nous|notre|nos|yo|mi|mis|"
    r"nosotros|nuestr\w+|io|mio|mia|miei|noi|nostr\w+|eu|meu|minha|nós|nosso|nossa|ik|mijn|wij|ons|onze|jag|min|mitt|vi|"
    r"vår|benim|ben|ja|mój|moja|moje)\b"
)
_ASKED: Final = re.compile(
    r"^(?:please |kindly )?(?:(?:remember|keep in mind|don't forget)(?: that|:)?|note(?: that|:))\s+", re.I
)
_REQUEST: Final = re.compile(
    r"^(?:please|can you|could you|would you|will you|i want you|i need you|i'd like you|let me|let's|tell me|show me|"
    r"give me|help me|write me|bitte|kannst du|können sie|peux-tu|pouvez-vous|puedes)\b"
)
_LATIN: Final = re.compile(r"[a-zà-öø-ÿ]")
_SLOTS: Final = (
    re.compile(r"^((?:my|our|the) [\w' -]{1,60}?)\s+(?:is|are|was|were|=)\s+\S"),
    re.compile(r"^(?:i|we) (live|work|study|am from|come from|am called|prefer|drive|speak)\b"),
    re.compile(r"^((?:mein|meine|unser|unsere) [\w' -]{1,60}?)\s+(?:ist|sind|war)\s+\S"),
    re.compile(r"^((?:mon|ma|mes|notre) [\w' -]{1,60}?)\s+(?:est|sont)\s+\S"),
    re.compile(r"^((?:mi|mis|nuestro|nuestra) [\w' -]{1,60}?)\s+(?:es|son)\s+\S"),
)


def statements(text: str) -> list[str]:
    """The sentences by which a user says something about themselves, or asks to remember it."""
    found: list[str] = []
    for sentence in _SENTENCE.findall(text[:20_000]):
        stripped = sentence.strip()
        if _QUESTION.search(stripped) or not len(stripped.encode()) >= _SHORTEST or len(stripped) > _LONGEST:
            continue
        plain = folded(stripped)
        asked = _ASKED.match(stripped)
        if asked is not None:
            stripped = stripped[asked.end() :]
        elif _LATIN.search(plain) and (_REQUEST.match(plain) or not _SELF.search(plain)):
            continue
        if stripped and stripped not in found:
            found.append(stripped)
        if len(found) == MAX_STATEMENTS:
            break
    return found


def slot_of(text: str) -> str | None:
    """What a plain statement is about, such as `my favourite colour`; None where the wording does not say."""
    plain = re.sub(r"\s+", " ", folded(text)).strip()
    for pattern in _SLOTS:
        hit = pattern.match(plain)
        if hit is not None:
            return hit[1]
    return None


def offered(type_: str, said: Said) -> list[MemoryCandidate]:
    """The candidates of one run for a memory of that type."""
    source: RecordSource = "tool" if said.tools else "model"
    cited = tuple(event for event in (said.given_event, said.output_event) if event is not None)
    confidence = TOOL_CONFIDENCE if said.tools else MODEL_CONFIDENCE
    if type_ == "semantic":
        given = (said.given_event,) if said.given_event is not None else ()
        if said.by_user:
            source, confidence = "user", USER_CONFIDENCE
        return [
            MemoryCandidate(text, "semantic", source, confidence, sources=given, slot=slot_of(text))
            for text in statements(said.given)
        ]
    if not said.given.strip() and not said.output.strip():
        return []
    episode = f"Asked: {_excerpt(said.given)}\nAnswered: {_excerpt(said.output)}"
    return [MemoryCandidate(episode, type_, source, confidence, sources=cited)]


def _excerpt(text: str) -> str:
    text = re.sub(r"\s+", " ", text).strip()
    return text if len(text) <= _EXCERPT else f"{text[: _EXCERPT - 3]}..."
