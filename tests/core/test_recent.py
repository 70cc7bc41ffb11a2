"""The bounded dict of the hot paths."""

from app.core.recent import RecentDict


def test_what_was_put_longest_ago_goes_first_and_putting_again_makes_it_new() -> None:
    kept = RecentDict[str, int](2)
    for key, value in (("a", 1), ("b", 2), ("a", 3), ("c", 4)):
        kept.put(key, value)
    assert dict(kept) == {"a": 3, "c": 4}


def test_putting_several_at_once_is_putting_each() -> None:
    kept = RecentDict[str, int](2)
    kept.put_all({"a": 1, "b": 2})
    kept.put_all({"a": 3, "c": 4})
    assert list(kept.items()) == [("a", 3), ("c", 4)]
