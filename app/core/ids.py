"""Time-ordered identifiers with a prefix that says what they name.

Order in the log never comes from an id; the time inside it only keeps database pages close together.
"""

from typing import Final, Literal

import uuid_utils

Kind = Literal[
    "event",
    "thread",
    "run",
    "interrupt",
    "timer",
    "delivery",
    "message",
    "call",
    "artifact",
    "file",
    "key",
    "step",
    "memory",
    "evaluation",
    "project",
    "webhook",
]

_PREFIX: Final[dict[Kind, str]] = {
    "event": "evt_",
    "thread": "thr_",
    "run": "run_",
    "interrupt": "int_",
    "timer": "tmr_",
    "delivery": "dlv_",
    "message": "msg_",
    "call": "call_",
    "artifact": "art_",
    "file": "file_",
    "key": "key_",
    "step": "step_",
    "memory": "mem_",
    "evaluation": "eval_",
    "project": "prj_",
    "webhook": "whk_",
}
DELIVERY: Final = _PREFIX["delivery"]
"""Of questions that an artifact answers; the store finds them by it."""


def new_id(kind: Kind) -> str:
    return _PREFIX[kind] + uuid_utils.uuid7().hex
