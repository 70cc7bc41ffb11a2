"""A score for a measured amount: full up to a limit, then falling to zero."""

from app.policy.evaluator import Score


def below(amount: float, full: float, zero: float | None, unit: str) -> Score:
    """1 up to `full`; from there in a straight line to 0 at `zero`, or 0 at once without it."""
    reason = f"{amount:g} {unit}, at most {full:g}"
    if amount <= full:
        return Score(1.0, reason)
    if zero is None or amount >= zero:
        return Score(0.0, reason)
    return Score((zero - amount) / (zero - full), reason)
