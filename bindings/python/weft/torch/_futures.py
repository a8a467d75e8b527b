"""Threads that complete futures.

torch runs the callbacks of a future on the thread that completes it, and a callback may wait for
another future. So a future is completed by a thread that is idle, or by a new one: never behind a
callback, as it would be on Weft's completion thread.

When the interpreter exits, contexts are closed before the threads are joined: a callback may wait
for an operation that ends only then. Threads of concurrent.futures are joined too early for that.
"""

from __future__ import annotations

import atexit
import os
import queue
import threading
from typing import Any, List, Optional

import torch

from weft import _core

# So many callbacks may wait at the same time. Threads are made when they are needed.
_MOST = 1024


class _Pool:
    """Threads that complete futures, of which each holds at most one callback's wait."""

    def __init__(self) -> None:
        self._threads: List[threading.Thread] = []
        self._idle = threading.Semaphore(0)
        self._given: "queue.SimpleQueue[Optional[torch.futures.Future[Any]]]" = queue.SimpleQueue()

    def complete(self, future: "torch.futures.Future[Any]") -> None:
        if self._idle.acquire(blocking=False) or self._start():
            self._given.put(future)
        else:
            future.set_result(None)

    def _start(self) -> bool:
        """Whether there is one thread more."""
        if len(self._threads) >= _MOST:
            return False
        thread = threading.Thread(target=self._work, name="weft-future", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the interpreter ends, or the kernel refuses a thread
            return False
        self._threads.append(thread)
        return True

    def _work(self) -> None:
        while True:
            future = self._given.get()
            if future is None:
                return
            future.set_result(None)
            self._idle.release()

    def join(self) -> None:
        for _ in self._threads:
            self._given.put(None)
        for thread in self._threads:
            thread.join()


_pool = _Pool()


def _renew() -> None:
    """A forked child has none of its parent's threads."""
    global _pool
    _pool = _Pool()


def _end() -> None:
    _core.close_all()
    _pool.join()


os.register_at_fork(after_in_child=_renew)
atexit.register(_end)


def complete(future: "torch.futures.Future[Any]") -> None:
    """Gives the future the result None, on a thread that no callback holds."""
    _pool.complete(future)
