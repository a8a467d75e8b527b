"""What torch's profilers see of Weft: an event for each operation, from its call to its end.

The event is named "weft:all_reduce" and so on, and has the shapes of the tensors that the rank
gives. While nothing is profiled, an operation pays one question.
"""

from __future__ import annotations

import functools
import threading
from typing import Any, Callable, List, TypeVar

import torch

Operation = TypeVar("Operation", bound=Callable[..., Any])

_TITLE = "weft:"

is_recording: Callable[[], bool] = torch.autograd._profiler_enabled


class _Inside(threading.local):
    """Whether this thread is in an operation that is recorded, which may call others."""

    is_set = False


_inside = _Inside()


class Record:
    """An event that has begun. It ends when all of `count` parts have ended."""

    def __init__(self, name: str, tensors: List[torch.Tensor]) -> None:
        self._event = torch.autograd._record_function_with_args_enter(_TITLE + name, *tensors)
        self._lock = threading.Lock()
        self._left = 1
        self._ended = threading.Event()

    def end_with(self, handles: List[Any]) -> None:
        """Ends the event once all these operations are done."""
        self._left = max(len(handles), 1)
        if not handles:
            self.end()
        for handle in handles:
            handle.then(lambda _: self.end())

    def end(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left > 0:
                return
        torch.autograd._record_function_with_args_exit(self._event)
        self._ended.set()

    def wait(self) -> None:
        """Waits until the event has ended, so that it is in the profile of who waits."""
        self._ended.wait()


def recorded(name: str, which: int = 0) -> Callable[[Operation], Operation]:
    """Records the calls of an operation that returns a work.

    which: the argument with the tensors that the rank gives, without self.
    """

    def decorate(operation: Operation) -> Operation:
        @functools.wraps(operation)
        def call(self: Any, *args: Any, **more: Any) -> Any:
            if not is_recording() or _inside.is_set:
                return operation(self, *args, **more)
            record = Record(name, _tensors(args[which : which + 1]))
            _inside.is_set = True
            try:
                work = operation(self, *args, **more)
            except BaseException:
                record.end()
                raise
            finally:
                _inside.is_set = False
            work.end_record(record)
            return work

        return call  # type: ignore[return-value]

    return decorate


def _tensors(given: Any) -> List[torch.Tensor]:
    """The tensors in lists of lists."""
    if isinstance(given, torch.Tensor):
        return [given]
    if isinstance(given, (list, tuple)):
        return [tensor for each in given for tensor in _tensors(each)]
    return []
