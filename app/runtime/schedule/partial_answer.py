"""What a run had said of an answer that it did not finish: read from the log, so that it is what streams have shown.

Only of the message that was open; those before it are complete and in the transcript. Leaves to the executor: when.
"""

from typing import Final

from app.events.catalog import adapter, model
from app.runtime.schedule.queue import RunRef
from app.views.ports import Reader
from app.views.run import Run

_TYPES: Final = (adapter.AdapterEvent.type, model.ModelCompleted.type, model.ModelFailed.type)
_PAGE: Final = 1000
_EVER: Final = 2**62


async def partial_answer(reader: Reader, ref: RunRef, run: Run, *, abandoned: bool = False) -> tuple[str, str] | None:
    """The open message's id and its text so far; None where there is none. With `abandoned`, also of one that failed
    and was not begun again."""
    after, message_id, pieces = run.first_seq - 1, "", list[str]()
    while True:
        page = await reader.events_of(ref.tenant, ref.thread_id, _TYPES, after, _EVER, _PAGE)
        for event in page:
            if event.run_id != run.id:
                continue
            payload = event.payload
            if event.type != adapter.AdapterEvent.type:
                if payload.get("messageId") == message_id and (not abandoned or event.type != model.ModelFailed.type):
                    message_id, pieces = "", []
                continue
            signal = payload["event"]
            if signal["phase"] != adapter.OUTPUT_DELTA or signal.get("role") is not None:
                continue
            if signal["messageId"] != message_id:
                message_id, pieces = signal["messageId"], []
            pieces.append(signal.get("text", ""))
        if len(page) < _PAGE:
            return (message_id, "".join(pieces)) if pieces else None
        after = page[-1].seq
