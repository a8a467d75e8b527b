"""Handles in asyncio: the completion thread tells the event loop that an operation is done."""

from __future__ import annotations

import asyncio
from typing import Any, Generator, Optional

from weft import _core


def awaiting(handle: _core.Handle) -> Generator[Any, None, Any]:
    """What `await handle` runs: waits for the operation and returns its result."""
    if handle.needs_polling:
        return _poll(handle).__await__()
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def finish(error: Optional[BaseException]) -> None:
        if future.done():  # cancelled
            return
        if error is None:
            future.set_result(handle.result)
        else:
            future.set_exception(error)

    def notify(error: Optional[BaseException]) -> None:
        try:
            loop.call_soon_threadsafe(finish, error)
        except RuntimeError:  # the loop was closed; nobody waits any more
            pass

    handle.then(notify)
    return future.__await__()


async def _poll(handle: _core.Handle) -> Any:
    """Where no thread would tell the loop, the loop tests the operation."""
    while not handle.test():
        await asyncio.sleep(0.0005)
    return handle.wait()
