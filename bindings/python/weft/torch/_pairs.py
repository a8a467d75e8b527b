"""send and recv. Weft pairs messages in order, so a tag can be checked, not chosen.

The k-th send of a rank to another meets the k-th recv of that one from the first. A message with a
tag other than zero travels behind a header with the tag. If the receiver expects another tag, its
work raises Mismatch. If one side gives a tag and the other gives none, both get an error of sizes.
"""

from __future__ import annotations

from array import array
from typing import Any, Callable, Optional

import torch
import torch.distributed as dist

from weft import _core
from weft._core import Request
from weft._errors import InvalidArgument, Mismatch
from weft.torch._devices import behind
from weft.torch._dtype import U64, moved_as
from weft.torch._starting import Starting
from weft.torch._tensors import only_one, read_from, written_to
from weft.torch._work import WeftWork

_SEND = int(_core.Collective.send)
_MAGIC = 0x7765_6674_0074_6167  # "weft", "tag"


class Pairs(Starting):
    """Operations with torch's names and arguments. Each gives a Work."""

    def send(self, tensors: Any, to: int, tag: int = 0) -> dist.Work:
        """Sends the tensor to a rank of the group. The work is done when it may be changed."""
        tensor = only_one(tensors, "send")
        self._check_peer(to, "send", "to")
        number, parts = moved_as(tensor.dtype)
        source = read_from(tensor, "send")
        if tag != 0:
            header = array("Q", [_MAGIC, _unsigned(tag)])
            address, words = header.buffer_info()
            self._context.start_raw(
                Request(_SEND, address, words, 0, 0, U64, peer=to, keep=header)
            )
        count = source.numel() * parts
        request = Request(
            _SEND, source.data_ptr(), count, 0, 0, number, peer=to, keep=source, **behind(source)
        )
        handle = self._context.start_raw(request)
        return self._started(WeftWork(handle, [tensor], None, self._timeout))

    def recv(self, tensors: Any, source: int, tag: int = 0) -> dist.Work:
        """Receives from a rank of the group into the tensor, which has the sent size and type."""
        tensor = only_one(tensors, "recv")
        self._check_peer(source, "recv", "from")
        number, parts = moved_as(tensor.dtype)
        block, finish = written_to(tensor, "recv")
        if tag != 0:
            finish = self._tag_check(source, tag, finish)
        request = Request(
            _SEND, 0, 0, block.data_ptr(), block.numel() * parts, number, peer=source,
            receives=True, keep=block, **behind(block),
        )  # fmt: skip
        handle = self._context.start_raw(request)
        return self._started(WeftWork(handle, [tensor], finish, self._timeout, source))

    def _tag_check(
        self, source: int, tag: int, finish: Optional[Callable[[], None]]
    ) -> Callable[[], None]:
        """Starts to receive a header. Gives what compares its tag once the message is there."""
        header = array("Q", [0, 0])
        address, words = header.buffer_info()
        self._context.start_raw(
            Request(_SEND, 0, 0, address, words, U64, peer=source, receives=True, keep=header)
        )

        def check() -> None:
            if header[0] != _MAGIC or header[1] != _unsigned(tag):
                error = Mismatch(
                    f"recv with tag {tag}: the next message from rank {source} has tag "
                    f"{_signed(header[1])}; weft pairs messages in the order of the calls"
                )
                error.rank = source
                raise error
            if finish is not None:
                finish()

        return check

    def recv_anysource(self, tensors: Any, tag: int = 0) -> dist.Work:
        """Raises NotImplementedError: a recv of Weft names the rank that sends."""
        raise NotImplementedError(
            "weft cannot receive from any rank; name the rank with dist.recv(tensor, src=…)"
        )

    def _check_peer(self, peer: int, what: str, preposition: str) -> None:
        if not 0 <= peer < self._size or peer == self._rank:
            raise InvalidArgument(
                f"{what} {preposition} rank {peer}: must be another rank of 0 to {self._size - 1}"
            )


def _unsigned(tag: int) -> int:
    return tag & 0xFFFF_FFFF_FFFF_FFFF


def _signed(tag: int) -> int:
    return tag - (1 << 64) if tag >> 63 else tag
