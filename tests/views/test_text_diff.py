"""A diff says how to get from one text to the other, whatever they are."""

from hypothesis import given
from hypothesis import strategies as st

from app.views import text_diff
from app.views.text_diff import unified_diff

LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\n", "d\n"]), max_size=30).map("".join)


def patched(before: str, diff: str) -> str:
    """The text after applying a unified diff to it."""
    old, made, at = before.splitlines(keepends=True), list[str](), 0
    for line in diff.splitlines(keepends=True)[2:]:
        if line.startswith("@@"):
            start = line.split()[1][1:]
            first, _, count = start.partition(",")
            begin = int(first) - (0 if count == "0" else 1)
            made += old[at:begin]
            at = begin
        elif line[0] in " -":
            assert old[at] == line[1:]
            made += [line[1:]] if line[0] == " " else []
            at += 1
        else:
            made.append(line[1:])
    return "".join(made + old[at:])


@given(LINES, LINES)
def test_applying_a_diff_gives_the_second_text(before: str, after: str) -> None:
    assert patched(before, unified_diff(before, after, "a", "b")) == after


def test_texts_that_differ_too_much_are_shown_as_replaced() -> None:
    before = "same\n" + "".join(f"{n}\n" for n in range(3000))
    after = "same\n" + "".join(f"-{n}\n" for n in range(3000))
    assert text_diff.MAX_COMPARISONS < 3000 * 3000
    diff = unified_diff(before, after, "a", "b")
    assert diff.startswith("--- a\n+++ b\n@@ -2,3000 +2,3000 @@\n-0\n") and patched(before, diff) == after
