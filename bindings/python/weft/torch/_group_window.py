"""Windows of torch.distributed (dist._new_window(), from torch 2.14 on): tensors that other ranks write.

    window = dist._new_window(tensor)             # collective
    window.put(x, 1, 0, async_op=False)           # x to the beginning of rank 1's tensor
    window.signal(1, async_op=False)
    # rank 1:
    window.wait_signal(0, async_op=False)         # what rank 0 had put by then is in the tensor

A signal is a message without elements, sent when the puts before it have arrived.
"""

from __future__ import annotations

from typing import Any, List, Optional

import torch
import torch.distributed as dist

from weft import _core
from weft._errors import InvalidArgument, Unavailable
from weft._window import Window, create
from weft.torch._tensors import read_from
from weft.torch._work import DONE, WeftWork, seconds_of

_FIRST_TAG = 1 << 63  # of signals: no tag of a message of the program, which is an int32


class GroupWindow:
    """A window of all ranks of a group. Ranks are those of the group.

    Tensors are on the CPU and have one size and type on all ranks. A rank may have several puts under
    way. They take effect in the order of the calls.
    """

    def __init__(self, group: Any, number: int, tensor: Optional[torch.Tensor]) -> None:
        """number: how many windows the group has had before."""
        self._group = group
        self._number = number
        self._window: Optional[Window] = None
        self._tensor: Optional[torch.Tensor] = None
        self._puts: List[WeftWork] = []
        if tensor is not None:
            self.tensor_register(tensor)

    def tensor_register(self, tensor: torch.Tensor, owning: bool = True) -> None:
        """Makes the tensor this rank's memory of the window. Collective. It is kept in any case."""
        if self._window is not None:
            raise InvalidArgument("the window has a tensor; call tensor_deregister() first")
        if not tensor.is_cpu or not tensor.is_contiguous():
            raise InvalidArgument("a window needs a contiguous tensor on the CPU")
        context = self._group._context
        if not context.window_names():
            context.set_graph(_core.fully_connected_graph(context.size))
        bytes_of = tensor.detach().view(-1).view(torch.uint8)
        self._window = create(context, bytes_of, f"torch window {self._number}", False)
        self._tensor = tensor

    def tensor_deregister(self) -> None:
        """Ends the use of the tensor. Collective."""
        window, self._window, self._tensor = self._own(), None, None
        self._settle()
        self._group._context.win_free(window.name)

    def put(
        self,
        tensor: torch.Tensor,
        dst_rank: int,
        target_offset_nelems: int,
        async_op: bool,
        opts: Any = None,
    ) -> dist.Work:
        """Writes the tensor to the memory of a rank, from an element on."""
        window, own = self._own(), self._tensor
        assert own is not None
        source = read_from(tensor, "put")
        begin, count = target_offset_nelems, source.numel()
        if tensor.dtype != own.dtype or not tensor.is_cpu:
            raise InvalidArgument(f"put: the window takes {own.dtype} on the CPU, not {tensor.dtype}")
        if begin < 0 or begin + count > own.numel():
            raise InvalidArgument(
                f"put: elements {begin} to {begin + count} of a window of {own.numel()}"
            )
        if dst_rank == self._group.rank():
            own.detach().view(-1)[begin : begin + count] = source.view(-1)
            return DONE
        self._group._check_peer(dst_rank, "put", "to")
        size = own.element_size()
        bytes_of = source.detach().view(-1).view(torch.uint8)
        pages = [(0, begin * size)]
        handle = window.write_start(dst_rank, bytes_of, pages, count * size)
        timeout = seconds_of(getattr(opts, "timeout", None)) or self._group._timeout
        work = WeftWork(handle, [tensor], None, timeout)
        self._puts = [each for each in self._puts if not each.is_success()] + [work]
        return self._waited(work, async_op)

    def signal(self, peer_rank: int, async_op: bool, opts: Any = None) -> dist.Work:
        """Tells a rank that what this rank has put there has arrived. Waits for these puts."""
        self._own()
        self._settle()
        work = self._group.send([torch.empty(0)], peer_rank, _FIRST_TAG + self._number)
        return self._waited(work, async_op)

    def wait_signal(self, peer_rank: int, async_op: bool, opts: Any = None) -> dist.Work:
        """Waits for the next signal of a rank."""
        self._own()
        work = self._group.recv([torch.empty(0)], peer_rank, _FIRST_TAG + self._number)
        work._timeout = seconds_of(getattr(opts, "timeout", None)) or work._timeout
        return self._waited(work, async_op)

    def map_remote_tensor(self, rank: int) -> torch.Tensor:
        """The tensor of a rank. Weft maps that of this rank alone."""
        self._own()
        if rank != self._group.rank():
            raise Unavailable(
                f"map_remote_tensor: the tensor of rank {rank} is not in the memory of this process"
            )
        assert self._tensor is not None
        return self._tensor

    def get_attr(self, peer_rank: int) -> Any:
        """A torch WindowAttr: what a rank stores and what is put there is in one place."""
        c10d: Any = torch._C._distributed_c10d
        return c10d.WindowAttr()

    def _own(self) -> Window:
        if self._window is None:
            raise InvalidArgument("the window has no tensor; call tensor_register() first")
        return self._window

    def _settle(self) -> None:
        puts, self._puts = self._puts, []
        for work in puts:
            work.wait()

    @staticmethod
    def _waited(work: dist.Work, async_op: bool) -> dist.Work:
        if not async_op:
            work.wait()
        return work


class GroupWindows:
    """The windows of a process group."""

    _windows = 0

    @property
    def supports_window(self) -> bool:
        return True

    def new_window(self, tensor: Optional[torch.Tensor] = None) -> GroupWindow:
        """A window of this group. Collective, and so is tensor_register() if no tensor is given."""
        self._windows += 1
        return GroupWindow(self, self._windows, tensor)
