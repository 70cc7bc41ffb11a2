"""The bounded dict of the hot paths."""

from app.core.recent import RecentDict


def test_what_was_put_longest_ago_goes_first_and_putting_again_makes_it_new() -> None:
    kept = RecentDict[str, int](2)
    for key, value in (("a", 1), ("b", 2), ("a", 3), ("c", 4)):
        kept.put(key, value)
    assert dict(kept) == {"a": 3, "c": 4}
