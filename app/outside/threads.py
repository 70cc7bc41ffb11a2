"""Plain functions in threads of their own, awaited from the loop.

A thread cannot be ended: a function that overruns goes on until it returns, and its result is dropped.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Any


async def in_thread(call: Callable[[], Any], name: str) -> Any:
    """One thread per call, not a pool: functions that never return must not use up everybody's workers."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def settle(value: Any, error: Exception | None) -> None:
        if done.done():
            return  # the call was given up; nobody waits any more
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(value)

    def work() -> None:
        value: Any = None
        error: Exception | None = None
        try:
            value = call()
        except StopIteration:
            error = RuntimeError("the function raised StopIteration")  # no future can carry that one
        except Exception as raised:
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, value, error)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await done
