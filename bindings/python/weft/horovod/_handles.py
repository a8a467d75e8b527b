"""Handles: numbers of the operations that were started and not waited for."""

from __future__ import annotations

import itertools
import threading
from typing import Any, Callable, Dict, NamedTuple, Optional, Protocol, Union


class Operation(Protocol):
    """A started operation: weft.Handle, or one of several stages."""

    def test(self) -> bool: ...

    def wait(self) -> object: ...


class CallableHandle(Protocol):
    """A handle that is called for the result, as that of sparse_allreduce_async()."""

    def test(self) -> bool: ...

    def __call__(self) -> Any: ...


class _Started(NamedTuple):
    operation: Operation
    result: Optional[Callable[[], Any]]  # of the operation, when it is done


_started: Dict[int, _Started] = {}
_lock = threading.Lock()
_numbers = itertools.count()


def keep(operation: Operation, result: Optional[Callable[[], Any]] = None) -> int:
    """The handle of a started operation. result: makes its result when it is done. Without it the result is
    what wait() returns."""
    number = next(_numbers)
    with _lock:
        _started[number] = _Started(operation, result)
    return number


def clear() -> None:
    """Forgets all operations, when their job has ended."""
    with _lock:
        _started.clear()


def poll(handle: Union[int, CallableHandle]) -> bool:
    """Whether the operation is done."""
    if not isinstance(handle, int):
        return handle.test()
    found = _started.get(handle)
    return found is None or found.operation.test()


def synchronize(handle: Union[int, CallableHandle]) -> Any:
    """Waits for an operation, and returns its result. A number is valid once."""
    if not isinstance(handle, int):
        return handle()
    with _lock:
        found = _started.pop(handle, None)
    if found is None:
        raise ValueError(f"there is no handle {handle}, or it was waited for already")
    waited = found.operation.wait()
    return waited if found.result is None else found.result()
