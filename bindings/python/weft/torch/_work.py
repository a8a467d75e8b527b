"""Work: started operations, as torch.distributed knows them."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, Callable, List, Optional, Sequence

import torch
from torch.distributed import Work

from weft import _core
from weft.torch._devices import devices_of
from weft.torch._futures import complete
from weft.torch._recording import Record
from weft.torch._tensors import Once


def seconds_of(timeout: Optional[timedelta]) -> Optional[float]:
    """Seconds. None for what torch takes as no timeout: None, zero, and less than zero."""
    if not timeout:
        return None
    seconds = timeout.total_seconds()
    return seconds if seconds > 0 else None


class WeftWork(Work):
    """One started operation.

    The tensors of the operation live at least until it is done, also if the work is dropped.
    After the timeout of a wait TimedOut is raised, and the operation goes on.
    """

    _finish: Optional[Once] = None
    _record: Optional[Record] = None
    _future: Optional["torch.futures.Future[Any]"] = None

    def __init__(
        self,
        handle: _core.Handle,
        outputs: List[torch.Tensor],
        finish: Optional[Callable[[], None]] = None,
        timeout: Optional[float] = None,
        source_rank: int = -1,
    ) -> None:
        """Args:

        outputs: what result() and the future give.
        finish: runs once when the operation is done, before anybody is told.
        timeout: seconds for waits that give none; None: the deadline of the group.
        source_rank: of a recv.
        """
        super().__init__()
        self._handle = handle
        self._outputs = outputs
        self._timeout = timeout
        self._rank = source_rank
        if finish is not None:
            self._finish = Once(finish, outputs)

    def parts(self) -> List[_core.Handle]:
        return [self._handle]

    def end_record(self, record: Record) -> None:
        """The event of a profiler ends with the operation, and before wait() returns."""
        self._record = record
        record.end_with(self.parts())

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """Waits until the operation is done. Raises the operation's error, each time again."""
        self._handle.wait(seconds_of(timeout) or self._timeout)
        if self._record is not None:
            self._record.wait()
        if self._finish is not None:
            self._finish()
        return True

    def is_completed(self) -> bool:
        """Whether the operation is done, with or without an error. Never waits for other ranks."""
        if not self._handle.test():
            return False
        self.exception()  # so that the outputs are in place
        return True

    def exception(self) -> Optional[BaseException]:
        """The operation's error, or None if it has none, or is not done."""
        if self._handle.test():
            try:
                self.wait()
            except Exception as error:
                return error
        return None

    def is_success(self) -> bool:
        return self._handle.test() and self.exception() is None

    def result(self) -> List[torch.Tensor]:
        """The output tensors. The operation must be done."""
        if not self.is_completed():
            raise RuntimeError("the operation is not done yet; call wait() first")
        self.wait()
        return self._outputs

    def synchronize(self) -> None:
        self.wait()

    def block_current_stream(self) -> None:
        self.wait()

    def source_rank(self) -> int:
        return self._rank

    _source_rank = source_rank

    def get_future(self) -> torch.futures.Future:  # type: ignore[type-arg]
        """A future with the output tensors, whose callbacks may wait for other futures.

        If the operation fails, the future raises RuntimeError with the text of the error.
        """
        if self._future is None:
            # A future of tensors on a GPU lets the streams wait in which they are used.
            devices = devices_of(self._outputs)
            done: torch.futures.Future[Any] = torch.futures.Future(devices=devices)
            # An error that set_exception() gives is a value for C++ code (DDP), which would take it
            # for tensors. An error that a callback raises is an error for everybody.
            self._future = done.then(self._deliver)
            if self._handle.test():
                done.set_result(None)
            else:
                self._handle.then(lambda _: complete(done))
        return self._future

    def _deliver(self, _: Any) -> List[torch.Tensor]:
        self.wait()
        return self._outputs


class JointWork(Work):
    """Several works as one, which is done when all are."""

    def __init__(self, works: Sequence[Any]) -> None:
        super().__init__()
        self._works = list(works)
        self._record: Optional[Record] = None
        self._future: Optional[torch.futures.Future[Any]] = None

    def parts(self) -> List[_core.Handle]:
        return [part for work in self._works for part in work.parts()]

    def end_record(self, record: Record) -> None:
        self._record = record
        record.end_with(self.parts())

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        seconds = seconds_of(timeout)
        end = None if seconds is None else time.monotonic() + seconds
        for work in self._works:
            if end is None:
                work.wait()
            else:
                work.wait(timedelta(seconds=max(end - time.monotonic(), 1e-3)))
        if self._record is not None:
            self._record.wait()
        return True

    def is_completed(self) -> bool:
        return all([work.is_completed() for work in self._works])

    def exception(self) -> Optional[BaseException]:
        errors = [work.exception() for work in self._works]
        return next((error for error in errors if error is not None), None)

    def is_success(self) -> bool:
        return all(work.is_success() for work in self._works)

    def result(self) -> List[torch.Tensor]:
        return [output for work in self._works for output in work.result()]

    def synchronize(self) -> None:
        self.wait()

    def block_current_stream(self) -> None:
        self.wait()

    def get_future(self) -> torch.futures.Future:  # type: ignore[type-arg]
        """A future with the output tensors of all works."""
        if self._future is None:
            parts = torch.futures.collect_all([work.get_future() for work in self._works])
            self._future = parts.then(
                lambda done: [each for part in done.value() for each in part.value()]
            )
        return self._future


class DoneWork(Work):
    """The work of an operation that was called with asyncOp = False, and is done."""

    def parts(self) -> List[_core.Handle]:
        return []

    def end_record(self, record: Record) -> None:
        record.end()

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def exception(self) -> None:
        return None

    def synchronize(self) -> None:
        pass

    def block_current_stream(self) -> None:
        pass

    def result(self) -> List[torch.Tensor]:
        raise RuntimeError(
            "an operation that is called with asyncOp = False has its result in the tensors that "
            "it was given"
        )

    def get_future(self) -> torch.futures.Future:  # type: ignore[type-arg]
        raise RuntimeError("an operation that is called with asyncOp = False has no future")


# One for all: it has no state, and a new one costs more than a small operation.
DONE = DoneWork()
