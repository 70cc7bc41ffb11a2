"""What a tool says when it fails, as a model may see it: one bounded line. Leaves to the recorder: secrets in it."""

from typing import Final

from app.core.credentials import masked

MAX_ERROR_TEXT: Final = 500  # characters


def error_text(text: str, limit: int = MAX_ERROR_TEXT) -> str:
    """Without line breaks and control characters. What is too long ends before a word that does not fit: half a secret
    would not be recognised as one any more."""
    whole = len(text) <= 4 * limit
    words = "".join(char if char.isprintable() else " " for char in text[: 4 * limit]).split()
    if not whole and words and text[4 * limit - 1 : 4 * limit].isprintable():
        words.pop()  # it may go on beyond what was looked at
    line = masked(" ".join(words))
    if whole and len(line) <= limit:
        return line
    cut = line[: limit - 1]
    if len(line) >= limit and not line[limit - 1].isspace():
        cut = cut.rpartition(" ")[0]
    return f"{cut} …".strip()
