from app.core.signal import Signal


def test_who_asked_is_told_once_when_it_is_set() -> None:
    signal, told = Signal(), list[str]()
    signal.tell(lambda: told.append("first"))
    signal.tell(lambda: told.append("second"))
    signal.set()
    signal.set()
    assert told == ["first", "second"]


def test_who_asks_later_is_told_at_once() -> None:
    signal, told = Signal(), list[str]()
    signal.set()
    signal.tell(lambda: told.append("late"))
    assert told == ["late"]


def test_who_was_forgotten_is_not_told() -> None:
    signal, told = Signal(), list[str]()

    def listener() -> None:
        told.append("gone")

    signal.tell(listener)
    signal.forget(listener)
    signal.set()
    assert told == []
