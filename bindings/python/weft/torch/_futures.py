"""Threads that complete futures.

torch runs the callbacks of a future on the thread that completes it, and a callback may wait for
another future. So a future is completed by a thread that is idle, or by a new one: never behind a
callback, as it would be on Weft's completion thread.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

# So many callbacks may wait at the same time. Threads are made when they are needed.
_MOST = 1024

_threads = ThreadPoolExecutor(_MOST, "weft-future")


def _renew() -> None:
    """A forked child has none of its parent's threads."""
    global _threads
    _threads = ThreadPoolExecutor(_MOST, "weft-future")


os.register_at_fork(after_in_child=_renew)


def complete(future: "torch.futures.Future[Any]") -> None:
    """Gives the future the result None, on a thread that no callback holds."""
    try:
        _threads.submit(future.set_result, None)
    except RuntimeError:  # the interpreter ends, or the kernel refuses a thread
        if not future.done():
            future.set_result(None)
