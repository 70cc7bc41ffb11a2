"""The conversation of a thread, folded event by event: the same however it is read, bounded, and each run's own."""

import random

from app.events.catalog import Payload, execution, request, thread
from app.events.catalog.adapter import AdapterEvent
from app.events.envelope import Event
from app.views.history import TYPES, History, Message, history, summary_message
from tests.views.story import events_from

RunPayload = tuple[str | None, Payload]


def _said(run: str, asked: str, answered: str, agent: str = "one") -> list[RunPayload]:
    signal = {"adapter": "echo", "phase": "agent.output.delta", "messageId": "m", "part": 0, "text": answered}
    delta = AdapterEvent.unchecked({"event": signal})
    return [
        (run, request.RequestQueued(input=asked, agent=agent)),
        (run, request.RequestStarted(executor="e", epoch=1)),
        (run, delta),
        (run, request.RequestCompleted(output=answered)),
    ]


def _fold(events: list[Event], agent: str | None = None, max_size: int | None = None) -> History:
    fold = History(agent, max_size)
    for event in events:
        fold.apply(event)
    return fold


def _contents(messages: list[Message]) -> list[str]:
    return [message["content"] for message in messages]


def test_the_types_of_a_conversation_are_all_that_it_is_made_of() -> None:
    compacted = execution.ContextCompacted(
        strategy="summarise", messages_before=4, messages_after=2, tokens_before=9, tokens_after=5, summary="old",
        kept_messages=1,
    )  # fmt: skip
    story = [(None, thread.ThreadCreated(history=[{"role": "user", "content": "hello"}])), *_said("a", "1", "2")]
    story += [*_said("b", "3", "4")[:2], ("b", compacted), *_said("b", "3", "4")[2:], *_said("c", "5", "6", "two")]
    events = events_from(*story)
    for agent in (None, "one", "two"):
        fewer = _fold([event for event in events if event.type in TYPES], agent).messages()
        assert fewer == history(events, agent)
    assert _contents(history(events, "one")) == [summary_message("old")["content"], "2", "3", "4", "5", "6"]
    assert _contents(history(events, "two")) == ["hello", "1", "2", "3", "4", "5", "6"]


def test_of_a_conversation_that_is_too_long_the_newest_whole_turns_stay_however_it_was_cut() -> None:
    dice = random.Random(5)
    turns = [(f"{n}?" + "a" * dice.randrange(300), f"{n}!" + "b" * dice.randrange(300)) for n in range(60)]
    events = events_from(
        (None, thread.ThreadCreated()), *(it for n, turn in enumerate(turns) for it in _said(f"r{n}", *turn))
    )
    fold = History(max_size=4000)
    for event in events:
        fold.apply(event)
        assert fold.size <= 4000
    kept = _contents(fold.messages())
    whole = [text for turn in turns for text in turn]
    assert 4 < len(kept) < len(whole)
    assert kept == whole[-len(kept) :] and "?" in kept[0]
    # A fork brings everything at once, and a run on it is given what the run on its source was given.
    forked = thread.ThreadForked(thread_id="t", seq=1, hash="0" * 64, history=history(events))
    assert _contents(_fold(events_from((None, forked)), max_size=4000).messages()) == kept


def test_a_run_does_not_see_one_behind_it_that_ended_in_the_queue() -> None:
    later = [("c", request.RequestQueued(input="later", agent="one")), ("c", request.RequestCancelled())]
    first = _said("a", "1", "2")
    queued = ("b", request.RequestQueued(input="3", agent="one"))
    events = events_from((None, thread.ThreadCreated()), *first[:2], queued, *later, *first[2:])
    (since,) = [event.seq for event in events if event.run_id == "b"]
    assert _contents(_fold(events).messages(since)) == ["1", "2"]
    assert _contents(_fold(events).messages()) == ["later", "1", "2"]


def test_a_summary_replaces_what_its_run_was_given_and_for_nothing_else() -> None:
    compacted = execution.ContextCompacted(
        strategy="summarise", messages_before=4, messages_after=2, tokens_before=9, tokens_after=5, summary="old",
        kept_messages=1,
    )  # fmt: skip
    summing = _said("b", "3", "4")
    later = [("c", request.RequestQueued(input="later", agent="one")), ("c", request.RequestCancelled())]
    story = [*_said("a", "1", "2"), *summing[:2], *later, ("b", compacted), *summing[2:]]
    contents = _contents(history(events_from((None, thread.ThreadCreated()), *story), "one"))
    assert contents == [summary_message("old")["content"], "2", "later", "3", "4"]
