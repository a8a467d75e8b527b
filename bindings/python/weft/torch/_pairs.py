"""send and recv, with tags that choose between messages, and receives from any rank.

Messages of two ranks with the same tag are received in the order of their sends.
"""

from __future__ import annotations

import threading
from typing import Any, Optional

import torch.distributed as dist

from weft import _core
from weft._core import Request
from weft._errors import InvalidArgument
from weft.torch._arrivals import ANY, Arrival, Arrivals, header_of, put_inside
from weft.torch._devices import behind
from weft.torch._dtype import U64, moved_as
from weft.torch._recording import recorded
from weft.torch._starting import Starting
from weft.torch._tensors import only_one, read_from, written_to
from weft.torch._work import WeftWork

_SEND = int(_core.Collective.send)


class ReceiveWork(WeftWork):
    """The work of a receive, which knows from whom it came."""

    _handle: Any  # an Arrival

    def source_rank(self) -> int:
        return int(self._handle.source)

    _source_rank = source_rank


class Pairs(Starting):
    """Operations with torch's names and arguments. Each gives a Work."""

    _arrivals: Optional[Arrivals] = None
    _bound_s: float
    # A header and its message go together.
    _sending: threading.Lock

    @recorded("send")
    def send(self, tensors: Any, to: int, tag: int = 0) -> dist.Work:
        """Sends the tensor to a rank of the group. The work is done when it may be changed."""
        tensor = only_one(tensors, "send")
        self._check_peer(to, "send", "to")
        number, parts = moved_as(tensor.dtype)
        source = read_from(tensor, "send")
        count = source.numel() * parts
        header = header_of(tag, number, count)
        is_inside = put_inside(header, source)
        address, words = header.buffer_info()
        first = Request(_SEND, address, words, 0, 0, U64, peer=to, keep=header)
        if is_inside:
            with self._sending:
                handle = self._context.start_raw(first)
            return self._started(WeftWork(handle, [tensor], None, self._timeout))
        second = Request(
            _SEND, source.data_ptr(), count, 0, 0, number, peer=to, keep=source, **behind(source)
        )
        with self._sending:
            self._context.start_raw(first)
            handle = self._context.start_raw(second)
        return self._started(WeftWork(handle, [tensor], None, self._timeout))

    @recorded("recv")
    def recv(self, tensors: Any, source: int, tag: int = 0) -> dist.Work:
        """Receives the next message with this tag from a rank of the group into the tensor.

        The tensor has the size and type of the one that was sent; else the work raises Mismatch.
        """
        self._check_peer(source, "recv", "from")
        return self._receive(tensors, source, tag)

    @recorded("recvAnySource")
    def recv_anysource(self, tensors: Any, tag: int = 0) -> dist.Work:
        """Receives a message with this tag from any rank. `source_rank()` of the work says which."""
        return self._receive(tensors, ANY, tag)

    def _receive(self, tensors: Any, source: int, tag: int) -> dist.Work:
        tensor = only_one(tensors, "recv")
        block, finish = written_to(tensor, "recv")
        if self._arrivals is None:
            with self._sending:
                if self._arrivals is None:
                    self._arrivals = Arrivals(self._context, self._bound_s)
        arrival = Arrival(
            self._arrivals, source, tag, block, moved_as(tensor.dtype), behind(block)
        )

        def finish_all() -> None:
            arrival.finish()
            if finish is not None:
                finish()

        self._arrivals.add(arrival)
        work = ReceiveWork(arrival, [tensor], finish_all, self._timeout)  # type: ignore[arg-type]
        return self._started(work)

    def _check_peer(self, peer: int, what: str, preposition: str) -> None:
        if not 0 <= peer < self._size or peer == self._rank:
            raise InvalidArgument(
                f"{what} {preposition} rank {peer}: must be another rank of 0 to {self._size - 1}"
            )
