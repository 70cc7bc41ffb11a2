from app.core.signal import CancelSignal


def test_who_asked_is_told_once_when_it_is_set() -> None:
    signal, told = CancelSignal(), list[str]()
    signal.subscribe(lambda: told.append("first"))
    signal.subscribe(lambda: told.append("second"))
    signal.set()
    signal.set()
    assert told == ["first", "second"]


def test_who_asks_later_is_told_at_once() -> None:
    signal, told = CancelSignal(), list[str]()
    signal.set()
    signal.subscribe(lambda: told.append("late"))
    assert told == ["late"]


def test_who_was_forgotten_is_not_told() -> None:
    signal, told = CancelSignal(), list[str]()

    def listener() -> None:
        told.append("gone")

    signal.subscribe(listener)
    signal.forget(listener)
    signal.set()
    assert told == []
