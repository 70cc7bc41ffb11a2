"""When a schedule is due: by cron in a time zone, at an interval, or once.

Cron is cronsim's. Its daylight saving is Debian's: a time that a jump forward skips is made up for right after the
jump, and a daily time that occurs twice is due once, while `*/30 * * * *` goes on every half hour. (croniter would
fire a daily time twice.) An interval counts from 1970, so that every server finds the same times. A pure function.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

from app.core.clock import ms_of
from app.workspace.specs.others import ScheduleSpec

MAX_DUE: Final = 1000
"""Due times that are looked at together; of more, the newest count."""


def due_after(spec: ScheduleSpec, after_ms: int) -> Iterator[int]:
    """The due times after this one, in milliseconds. Endless, but for a schedule that is due once."""
    if spec.at is not None:
        once = ms_of(spec.at)
        if once > after_ms:
            yield once
    elif spec.every_seconds is not None:
        step = round(spec.every_seconds * 1000)
        due = after_ms // step * step + step
        while True:
            yield due
            due += step
    else:
        yield from _cron(spec, after_ms)


def _cron(spec: ScheduleSpec, after_ms: int) -> Iterator[int]:
    from cronsim import CronSim

    zone = ZoneInfo(spec.timezone)
    start = datetime.fromtimestamp(after_ms / 1000, UTC).astimezone(zone)
    for found in CronSim(spec.cron or "", start):
        due = round(found.timestamp() * 1000)
        if due > after_ms:
            yield due


def due_between(spec: ScheduleSpec, after_ms: int, until_ms: int) -> list[int]:
    """Those after one time and up to another, the newest `MAX_DUE`."""
    if spec.every_seconds is not None:
        # A short interval after a long time: only the newest are counted out.
        after_ms = max(after_ms, until_ms - round(spec.every_seconds * 1000) * MAX_DUE)
    found: list[int] = []
    for due in due_after(spec, after_ms):
        if due > until_ms:
            break
        found.append(due)
        if len(found) > 2 * MAX_DUE:
            del found[:MAX_DUE]
    return found[-MAX_DUE:]


def next_due(spec: ScheduleSpec, after_ms: int, count: int) -> list[int]:
    return list(islice(due_after(spec, after_ms), count))
