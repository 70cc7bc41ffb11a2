"""What a stream adds up to does not depend on how its pieces arrive."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.models.collect import MAX_DELTA, Collector
from app.models.completion import TokenUsage
from app.models.contract import Completed, Started, StreamEvent, TextDelta, UsageReport
from app.policy.redaction import CurrentRedaction
from app.runtime.run.message_screen import SecretScreen
from app.workspace.specs.model import Prices

_SECRET = "sk-proj-" + "a1B2c3D4" * 5
_SAID = f"The key is {_SECRET} and that is all."
_CLEAN = CurrentRedaction().text(_SAID)


def collected(batches: Sequence[Sequence[StreamEvent]]) -> tuple[str, str]:
    """The text of the message, and what was published of it; nothing is published that was not screened."""
    collector = Collector("native", "msg_1", screen=SecretScreen(CurrentRedaction().streamed))
    deltas = [delta for batch in batches for delta in collector.take(batch)]
    assert all(delta.screened for delta in deltas)
    return collector.text, "".join(delta.to_json()["event"]["text"] for delta in deltas)


@example(at=11, to=20, batched=[False, False])
@given(
    at=st.integers(0, len(_SAID)),
    to=st.integers(0, len(_SAID)),
    batched=st.lists(st.booleans(), min_size=2, max_size=2),
)
def test_a_secret_is_found_in_batches_as_in_single_pieces(at: int, to: int, batched: list[bool]) -> None:
    at, to = sorted((at, to))
    assert _SECRET not in _CLEAN and _SECRET in _SAID
    pieces = [TextDelta(piece) for piece in (_SAID[:at], _SAID[at:to], _SAID[to:])]
    batches: list[list[StreamEvent]] = [[Started(), pieces[0]]]
    for piece, together in zip(pieces[1:], batched, strict=True):
        if together:
            batches[-1].append(piece)
        else:
            batches.append([piece])
    batches[-1].append(Completed("stop"))
    assert collected(batches) == (_CLEAN, _CLEAN)


def test_a_long_text_is_published_in_pieces() -> None:
    text = "word " * MAX_DELTA
    collector = Collector("native", "msg_1", screen=SecretScreen(CurrentRedaction().streamed))
    deltas = collector.take([Started(), TextDelta(text), Completed("stop")])
    pieces = [delta.to_json()["event"]["text"] for delta in deltas]
    assert "".join(pieces) == text and max(map(len, pieces)) == MAX_DELTA


@pytest.mark.parametrize(
    "wrong", ["12", 1.5, -1, 2**60, 1e99, float("inf"), float("nan"), True, [3], {"a": 1}], ids=repr
)
def test_a_count_that_is_no_number_of_tokens_is_estimated(wrong: object) -> None:
    """Providers send what they like, and a budget is spent by it."""
    collector = Collector("native", "msg_1", screen=SecretScreen(CurrentRedaction().streamed))
    report = UsageReport(wrong, wrong, wrong, wrong)  # type: ignore[arg-type]
    collector.take([Started(), TextDelta("Hello, world"), report, Completed("stop")])
    assert collector.spent(9, Prices()) == TokenUsage(9, 3, cost_usd=0.0)


def test_a_whole_number_of_tokens_may_be_written_as_a_fraction() -> None:
    collector = Collector("native", "msg_1")
    collector.take([Started(), TextDelta("Hello"), UsageReport(7.0, 2.0), Completed("stop")])  # type: ignore[arg-type]
    assert collector.spent(9, Prices()) == TokenUsage(7, 2, cost_usd=0.0)
