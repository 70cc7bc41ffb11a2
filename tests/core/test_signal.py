from app.core.signal import CancelSignal


def test_subscribers_are_notified_once_when_it_is_set() -> None:
    signal, called = CancelSignal(), list[str]()
    signal.subscribe(lambda: called.append("first"))
    signal.subscribe(lambda: called.append("second"))
    signal.set()
    signal.set()
    assert called == ["first", "second"]


def test_late_subscribers_are_notified_at_once() -> None:
    signal, called = CancelSignal(), list[str]()
    signal.set()
    signal.subscribe(lambda: called.append("late"))
    assert called == ["late"]


def test_removed_subscribers_are_not_notified() -> None:
    signal, called = CancelSignal(), list[str]()

    def listener() -> None:
        called.append("gone")

    signal.subscribe(listener)
    signal.forget(listener)
    signal.set()
    assert called == []
