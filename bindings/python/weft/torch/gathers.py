"""allgather and neighbor_allgather, where each rank may give another number of rows.

An operation has two stages. In the first, ranks tell each other how many bytes they have. In the
second, the bytes move. All ranks start the first stages in the order of their calls. The second
stages run in a context of their own, in the same order, each as soon as its first stage is done.
"""

from __future__ import annotations

import math
import zlib
from typing import Callable, Dict, Iterable, List, Optional

import torch

from weft import _core
from weft._errors import InvalidArgument, Mismatch
from weft.torch import _edges, _job, handles, topology
from weft.torch._devices import Place, behind
from weft.torch._dtype import I64, U8
from weft.torch._staged import Stage, Staged, start
from weft.torch._tensors import read_from
from weft.torch._weights import Names
from weft.torch._weights import ranks as checked_ranks

_ALLGATHER = int(_core.Collective.allgather)
_NEIGHBOR_ALLGATHER = int(_core.Collective.neighbor_allgather)
_SEND = int(_core.Collective.send)

_FACTS = 3  # what a rank tells of its tensor: bytes, rows, mark of the type and the other extents
_NAMES = Names("neighbor_allgather", "src_ranks", "dst_ranks")


class _Gather:
    """A tensor that is given, and the one that is gathered from `sources`."""

    def __init__(self, tensor: torch.Tensor, sources: List[int], what: str) -> None:
        self.what = what
        self.input = read_from(tensor, what)
        if self.input.dim() == 0:
            self.input = self.input.reshape(1)
        self.sources = sources
        self._row = tuple(self.input.shape[1:])
        kind = f"{self.input.dtype} {self._row}"
        bytes_ = self.input.numel() * self.input.element_size()
        self.facts = torch.tensor([bytes_, self.input.shape[0], zlib.crc32(kind.encode())])
        self._place = Place(self.input)
        self.output = self._room(0)
        self._rows = 0
        self._other: Optional[int] = None  # a source with another type or other extents

    def prepare(self, told: torch.Tensor) -> List[int]:
        """Makes room for what the sources told: row k is of source k. Returns the bytes of each."""
        for source, mark in zip(self.sources, told[:, 2].tolist()):
            if mark != int(self.facts[2]) and self._other is None:
                self._other = source
        self._rows = int(told[:, 1].sum())
        counts: List[int] = told[:, 0].tolist()
        self.output = self._room(sum(counts))
        return counts

    def _room(self, bytes_: int) -> torch.Tensor:
        with self._place.stream():
            return torch.empty(bytes_, dtype=torch.uint8, device=self.input.device)

    def behind(self) -> Dict[str, int]:
        """How an operation begins behind what the caller's stream has, also on another thread."""
        with self._place.stream():
            return behind(self.input)

    def result(self) -> torch.Tensor:
        if self._other is not None:
            error = Mismatch(
                f"{self.what}: rank {self._other} gave a tensor that differs from this rank's "
                f"{self.input.dtype} {tuple(self.input.shape)} in more than the first extent"
            )
            error.rank = self._other
            raise error
        if math.prod(self._row) == 0:
            return self.input.new_empty((self._rows, *self._row))
        return self.output.view(self.input.dtype).view(self._rows, *self._row)


def allgather(tensor: torch.Tensor, name: Optional[str] = None) -> torch.Tensor:
    """The tensors of all ranks, one after another along the first dimension.

    The first dimensions may differ. Raises Mismatch if types or other dimensions do.
    """
    return handles.synchronize(allgather_nonblocking(tensor, name))


def allgather_nonblocking(tensor: torch.Tensor, name: Optional[str] = None) -> int:
    """Starts allgather(), and returns a handle."""
    job = _job.current()
    size = job.context.size
    gather = _Gather(tensor, list(range(size)), "allgather")
    moving = job.second_stages()
    told = torch.empty((size, _FACTS), dtype=torch.int64)

    def move() -> Stage:
        counts = gather.prepare(told)
        x, y = gather.input, gather.output
        nx = counts[job.context.rank]
        kept = (x, y)
        return [
            moving.start_raw(
                _ALLGATHER, x.data_ptr(), nx, y.data_ptr(), sum(counts), U8, counts=counts,
                keep=kept, **gather.behind(),
            )
        ]  # fmt: skip

    return _begin(gather, name, lambda: [_exchange(_ALLGATHER, gather.facts, told)], move)


def neighbor_allgather(
    tensor: torch.Tensor,
    *,
    src_ranks: Optional[Iterable[int]] = None,
    dst_ranks: Optional[Iterable[int]] = None,
    enable_topo_check: bool = True,
    name: Optional[str] = None,
) -> torch.Tensor:
    """The tensors of the in-neighbors, without this rank's, one after another.

    They are concatenated along the first dimension, by ascending rank, or in the order of
    src_ranks. The first dimensions may differ.

    Args:
        src_ranks, dst_ranks: the ranks from which and to which tensors go in this call, in place of
            those of the graph. They are given together, on all ranks.
        enable_topo_check: with src_ranks, whether all ranks compare which edges they name, which
            gives an error at once where they differ. Without this check, ranks that differ wait
            until their deadline. All ranks give the same value.

    Raises:
        Mismatch: types or dimensions other than the first differ.
        InvalidArgument: ranks are wrong or missing, or two ranks differ about an edge.
    """
    return handles.synchronize(
        neighbor_allgather_nonblocking(
            tensor,
            src_ranks=src_ranks,
            dst_ranks=dst_ranks,
            enable_topo_check=enable_topo_check,
            name=name,
        )
    )


def neighbor_allgather_nonblocking(
    tensor: torch.Tensor,
    *,
    src_ranks: Optional[Iterable[int]] = None,
    dst_ranks: Optional[Iterable[int]] = None,
    enable_topo_check: bool = True,
    name: Optional[str] = None,
) -> int:
    """Starts neighbor_allgather(), and returns a handle."""
    what = _NAMES.operation
    if (src_ranks is None) != (dst_ranks is None):
        raise InvalidArgument(f"{what}: src_ranks and dst_ranks have to be given together")
    if src_ranks is None or dst_ranks is None:
        sources, targets = topology.in_neighbor_ranks(), topology.out_neighbor_ranks()
        is_dynamic = False
    else:
        sources = _edges.other_ranks(_NAMES, checked_ranks(what, _NAMES.sources, src_ranks))
        targets = _edges.other_ranks(_NAMES, checked_ranks(what, _NAMES.targets, dst_ranks))
        is_dynamic = True
    gather = _Gather(tensor, sources, what)
    if not is_dynamic:
        return _between_neighbors(gather, targets, name)
    if enable_topo_check:
        return _checked_by_all(gather, targets, name)
    return _between_pairs(gather, targets, name)


def _between_neighbors(gather: _Gather, targets: List[int], name: Optional[str]) -> int:
    """The first stage is a neighbor_allgather on the graph."""
    told = torch.empty((len(gather.sources), _FACTS), dtype=torch.int64)
    return _begin(
        gather,
        name,
        lambda: [_exchange(_NEIGHBOR_ALLGATHER, gather.facts, told)],
        lambda: _move(gather, targets, told),
    )


def _between_pairs(gather: _Gather, targets: List[int], name: Optional[str]) -> int:
    """The first stage is a message along each edge."""
    told = torch.empty((len(gather.sources), _FACTS), dtype=torch.int64)

    def tell() -> Stage:
        context = _job.context()
        return _messages(context, targets, gather.facts, gather.sources, list(told), I64, {})

    return _begin(gather, name, tell, lambda: _move(gather, targets, told))


def _checked_by_all(gather: _Gather, targets: List[int], name: Optional[str]) -> int:
    """In the first stage all ranks tell all others which edges they name."""
    size = _job.size()
    mine = torch.cat((gather.facts, _edges.told(gather.sources, targets)))
    told = torch.empty((size, _FACTS + size), dtype=torch.int64)

    def move() -> Stage:
        _edges.check(_NAMES, told[:, _FACTS:])
        return _move(gather, targets, told[gather.sources, :_FACTS])

    return _begin(gather, name, lambda: [_exchange(_ALLGATHER, mine, told)], move)


def _exchange(kind: int, x: torch.Tensor, y: torch.Tensor) -> _core.Handle:
    return _job.context().start_raw(
        kind, x.data_ptr(), x.numel(), y.data_ptr(), y.numel(), I64, keep=(x, y)
    )


def _move(gather: _Gather, targets: List[int], told: torch.Tensor) -> Stage:
    counts = gather.prepare(told)
    parts = list(torch.split(gather.output, counts))
    sent = gather.input.detach().reshape(-1).view(torch.uint8)
    order = gather.behind()
    return _messages(_job.current().second_stages(), targets, sent, gather.sources, parts, U8, order)


def _messages(
    context: _core.Context,
    targets: List[int],
    sent: torch.Tensor,
    sources: List[int],
    received: List[torch.Tensor],
    number: int,
    order: Dict[str, int],
) -> Stage:
    """Starts the receives and sends of tensors of one DataType. order: of their streams."""
    stage: Stage = []
    for source, part in zip(sources, received):
        stage.append(
            context.start_raw(
                _SEND, 0, 0, part.data_ptr(), part.numel(), number, peer=source, receives=True,
                keep=part, **order,
            )
        )  # fmt: skip
    for target in targets:
        stage.append(
            context.start_raw(
                _SEND, sent.data_ptr(), sent.numel(), 0, 0, number, peer=target, keep=sent, **order
            )
        )
    return stage


def _begin(
    gather: _Gather,
    name: Optional[str],
    tell: Callable[[], Stage],
    move: Callable[[], Stage],
) -> int:
    """Starts the stage `tell`, which `move` will follow."""
    handles.check_name(name)
    _job.current().second_stages()  # the first call is collective; here all ranks make it
    return handles.add(start(Staged(tell(), move)), gather.result, name)
