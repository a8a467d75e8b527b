"""How an operation of a process group starts: at once to its end, or as a Work."""

from __future__ import annotations

from collections import deque
from typing import Any, Callable, Deque, List, Optional

import torch
import torch.distributed as dist

from weft import _core
from weft._core import Request
from weft.torch._devices import behind, in_order
from weft.torch._recording import is_recording
from weft.torch._work import DONE, JointWork, WeftWork, seconds_of


# C++ code of torch before 2.9 (DDP) may hold a Work without its Python object. The wait() that it then
# calls is torch's own, and never ends. So the last works are kept for it.
_kept: Optional[Deque[dist.Work]] = None
if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 9):
    _kept = deque(maxlen=64)


def wants_work(options: Any) -> bool:
    """Whether the caller wants a Work. Options of older torch do not say, and then it does."""
    return getattr(options, "asyncOp", True)


def for_work(options: Any) -> Any:
    """The options, of which the caller wants a Work."""
    if not wants_work(options):
        options.asyncOp = True
    return options


class Starting:
    """What the operations share: the context, and the rank and size in it."""

    _context: _core.Context
    _rank: int
    _size: int
    # Seconds for waits that give no time of their own; None: the deadline of the context.
    _timeout: Optional[float] = None
    # The works between _start_coalescing() and _end_coalescing(); None: not between them.
    _batch: Optional[List[dist.Work]] = None

    def _begin(
        self,
        options: Any,
        kind: int,
        source: Optional[torch.Tensor],
        output: Optional[torch.Tensor],
        number: int,
        parts: int,
        outputs: List[torch.Tensor],
        finish: Optional[Callable[[], None]],
        **more: Any,
    ) -> dist.Work:
        """Runs the operation if options.asyncOp is False, else starts it.

        With a time of its own, or while a profiler looks, it is started in any case, and the caller
        waits.

        Args:
            source, output: dense tensors; None for a side that the operation does not use.
            parts: how many elements of the DataType `number` make one of theirs.
            outputs, finish: as for WeftWork.
            more: further arguments of Request.
        """
        x = nx = y = ny = 0
        if source is not None:
            x, nx = source.data_ptr(), source.numel() * parts
        if output is not None:
            y, ny = output.data_ptr(), output.numel() * parts
        kept = (source, output)
        tensors = [each for each in kept if each is not None]
        timeout = seconds_of(options.timeout) or self._timeout
        if not wants_work(options) and timeout is None and not is_recording():
            more.update(in_order(*tensors))
            self._context.run_raw(Request(kind, x, nx, y, ny, number, keep=kept, **more))
            if finish is not None:
                finish()
            return DONE
        more.update(behind(*tensors))
        request = Request(kind, x, nx, y, ny, number, keep=kept, **more)
        handle = self._context.start_raw(request)
        return self._started(WeftWork(handle, outputs, finish, timeout))

    def _started(self, work: dist.Work) -> dist.Work:
        if _kept is not None:
            _kept.append(work)
        if self._batch is not None:
            self._batch.append(work)
        return work

    def _start_coalescing(self, device: Optional[torch.device] = None) -> None:
        """Begins to collect works. The operations start at once, as always."""
        self._batch = []

    def _end_coalescing(self, device: Optional[torch.device] = None) -> dist.Work:
        """One work for all that were started since _start_coalescing()."""
        works, self._batch = self._batch or [], None
        return JointWork(works)

    # The names by which a Backend is called.
    start_coalescing = _start_coalescing
    end_coalescing = _end_coalescing
