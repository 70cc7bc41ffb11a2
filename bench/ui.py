"""UI events: what spelling and projecting stored events costs, against sending them as they are.

CPU of one process over the same generated thread, the three in turns, so that a busy machine matters little.
`python -m bench.ui` prints one JSON line.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from app.core import json as wire
from app.events.catalog import adapter, model, request, tool
from app.events.envelope import Event
from app.protocols.dialects.lime import Lineage, ui_event
from app.views.ui.projection import Projection
from tests.views.story import events_from

ROUNDS = 5


def thread(turns: int, words: int) -> list[Event]:
    """Turns with a tool call and an answer of so many words each."""
    payloads: list[Any] = []
    for turn in range(turns):
        run = f"run_{turn}"
        payloads += [(run, request.RequestQueued(input="How is it?", agent="assistant"))]
        payloads += [(run, request.RequestStarted(executor="bench", epoch=1))]
        call = tool.ToolInvoked(
            call_id=f"c{turn}", tool="look", arguments={"n": 1}, argument_hash="0", effect="readonly"
        )
        payloads += [(run, call), (run, tool.ToolResulted(call_id=f"c{turn}", tool="look", ok=True, output=[1, 2, 3]))]
        for word in range(words):
            said = adapter.Signal(
                adapter="native", phase=adapter.OUTPUT_DELTA, message_id=run, part=0, text=f"w{word} "
            )
            payloads += [(run, adapter.AdapterEvent(event=said))]
        answer = model.ModelCompleted.model_validate(
            {
                "messageId": run,
                "model": "m",
                "provider": "p",
                "text": " ".join(f"w{word}" for word in range(words)),
                "toolCalls": [],
                "finishReason": "stop",
                "usage": {},
            }
        )
        payloads += [(run, answer), (run, request.RequestCompleted(output="done", message_id=run))]
    return events_from(*payloads)


def cpu(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def measure(turns: int, words: int) -> dict[str, Any]:
    events = thread(turns, words)
    lines = {event.run_id: Lineage(event.run_id or "", name="assistant") for event in events}

    def fresh() -> list[Event]:
        return [event.with_payload(event.payload) for event in events]

    def native(given: list[Event]) -> None:
        for event in given:
            event.wire()

    def spelled(given: list[Event]) -> None:
        for event in given:
            wire.dumps(ui_event(event, lines[event.run_id], event.seq))

    def projected(given: list[Event]) -> None:
        projection = Projection()
        for event in given:
            projection.apply(ui_event(event, lines[event.run_id], event.seq))
        wire.dumps(projection.state())

    took: dict[str, list[float]] = {"native": [], "spelled": [], "projected": []}
    for _ in range(ROUNDS):
        for name, work in (("native", native), ("spelled", spelled), ("projected", projected)):
            given = fresh()
            took[name].append(cpu(lambda work=work, given=given: work(given)))  # type: ignore[misc]
    medians = {name: statistics.median(values) for name, values in took.items()}
    return {
        "events": len(events),
        **{f"{name}PerSecond": round(len(events) / seconds) for name, seconds in medians.items()},
        "spelledRatio": round(medians["spelled"] / medians["native"], 2),
        "projectedRatio": round(medians["projected"] / medians["native"], 2),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--words", type=int, default=100)
    options = parser.parse_args()
    print(json.dumps(measure(options.turns, options.words)))
