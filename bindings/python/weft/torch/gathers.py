"""allgather and neighbor_allgather, where each rank may give another number of rows.

An operation has two stages. In the first, ranks tell each other how many bytes they have. In the
second, the bytes move. All ranks start the first stages in the order of their calls. The second
stages run in a context of their own, in the same order, each as soon as its first stage is done. If
the operation is matched by name, so are both stages, each of their operations by a name of
its own (_Stages).
"""

from __future__ import annotations

import math
import zlib
from typing import Any, Callable, Dict, Iterable, List, Optional

import torch

from weft import _core
from weft._errors import InvalidArgument, Mismatch
from weft.torch import _edges, _job, handles, topology
from weft.torch._devices import Place, behind
from weft.torch._dtype import I64, U8
from weft.torch._staged import Stage, Staged, start
from weft.torch._tensors import read_from
from weft.torch._timeline import timed
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

    def behind(self) -> Dict[str, Any]:
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


class _Stages:
    """How operations of the two stages start: matched by their order, or each by its own name."""

    def __init__(self, kind: int, name: Optional[str]) -> None:
        job = _job.current()
        self.title = handles.with_kind(kind, name)
        handles.check_name(self.title)
        self._first = job.context
        self._named = None if name is None or job.is_ordered else job.named
        # The first call is collective; here all ranks make it.
        self._second = job.context if self._named is not None else job.second_stages()

    @property
    def is_by_name(self) -> bool:
        return self._named is not None

    def tell(self, kind: int, *memory: int, edge: str = "", **options: Any) -> _core.Handle:
        """Starts an operation of the first stage. edge: of a message, "source>target"."""
        request = _core.Request(kind, *memory, **options)
        if self._named is None:
            return self._first.start_raw(request)
        return self._named.start_raw(f"sizes of {self.title} {edge}", 0, request)

    def move(self, kind: int, *memory: int, edge: str = "", **options: Any) -> _core.Handle:
        """The same of the second stage."""
        request = _core.Request(kind, *memory, **options)
        if self._named is None:
            return self._second.start_raw(request)
        return self._named.start_raw(f"{self.title} {edge}", 0, request)

    def begin(self, gather: _Gather, told: Stage, move: Callable[[], Stage]) -> int:
        """The handle of an operation whose first stage has started, and `move` will follow."""
        staged = start(Staged(told, move, is_by_name=self.is_by_name))
        return handles.add(staged, gather.result, self.title)


@timed
def allgather(tensor: torch.Tensor, name: Optional[str] = None) -> torch.Tensor:
    """The tensors of all ranks, one after another along the first dimension.

    The first dimensions may differ. Raises Mismatch if types or other dimensions do.
    """
    return handles.synchronize(allgather_nonblocking(tensor, name))


@timed
def allgather_nonblocking(tensor: torch.Tensor, name: Optional[str] = None) -> int:
    """Starts allgather(), and returns a handle."""
    context = _job.context()
    gather = _Gather(tensor, list(range(context.size)), "allgather")
    stages = _Stages(_ALLGATHER, name)
    told = torch.empty((context.size, _FACTS), dtype=torch.int64)

    def move() -> Stage:
        counts = gather.prepare(told)
        x, y = gather.input, gather.output
        nx = counts[context.rank]
        return [
            stages.move(
                _ALLGATHER, x.data_ptr(), nx, y.data_ptr(), sum(counts), U8, counts=counts,
                keep=(x, y), **gather.behind(),
            )
        ]  # fmt: skip

    return stages.begin(gather, [_exchange(stages, _ALLGATHER, gather.facts, told)], move)


@timed
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


@timed
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
    stages = _Stages(_NEIGHBOR_ALLGATHER, name)
    if not is_dynamic:
        return _between_neighbors(gather, stages, targets)
    if enable_topo_check:
        return _checked_by_all(gather, stages, targets)
    return _between_pairs(gather, stages, targets)


def _between_neighbors(gather: _Gather, stages: _Stages, targets: List[int]) -> int:
    """The first stage is a neighbor_allgather on the graph."""
    told = torch.empty((len(gather.sources), _FACTS), dtype=torch.int64)
    first = [_exchange(stages, _NEIGHBOR_ALLGATHER, gather.facts, told)]
    return stages.begin(gather, first, lambda: _move(gather, stages, targets, told))


def _between_pairs(gather: _Gather, stages: _Stages, targets: List[int]) -> int:
    """The first stage is a message along each edge."""
    told = torch.empty((len(gather.sources), _FACTS), dtype=torch.int64)
    first = _messages(stages.tell, targets, gather.facts, gather.sources, list(told), I64, {})
    return stages.begin(gather, first, lambda: _move(gather, stages, targets, told))


def _checked_by_all(gather: _Gather, stages: _Stages, targets: List[int]) -> int:
    """In the first stage all ranks tell all others which edges they name."""
    size = _job.size()
    mine = torch.cat((gather.facts, _edges.told(gather.sources, targets)))
    told = torch.empty((size, _FACTS + size), dtype=torch.int64)

    def move() -> Stage:
        _edges.check(_NAMES, told[:, _FACTS:])
        return _move(gather, stages, targets, told[gather.sources, :_FACTS])

    return stages.begin(gather, [_exchange(stages, _ALLGATHER, mine, told)], move)


def _exchange(stages: _Stages, kind: int, x: torch.Tensor, y: torch.Tensor) -> _core.Handle:
    return stages.tell(
        kind, x.data_ptr(), x.numel(), y.data_ptr(), y.numel(), I64, keep=(x, y)
    )


def _move(gather: _Gather, stages: _Stages, targets: List[int], told: torch.Tensor) -> Stage:
    counts = gather.prepare(told)
    parts = list(torch.split(gather.output, counts))
    sent = gather.input.detach().reshape(-1).view(torch.uint8)
    return _messages(stages.move, targets, sent, gather.sources, parts, U8, gather.behind())


def _messages(
    begin: Callable[..., _core.Handle],
    targets: List[int],
    sent: torch.Tensor,
    sources: List[int],
    received: List[torch.Tensor],
    number: int,
    order: Dict[str, Any],
) -> Stage:
    """Starts the receives and sends of tensors of one DataType. order: of their streams."""
    rank = _job.context().rank
    stage: Stage = []
    for source, part in zip(sources, received):
        stage.append(
            begin(
                _SEND, 0, 0, part.data_ptr(), part.numel(), number, edge=f"{source}>{rank}",
                peer=source, receives=True, keep=part, **order,
            )
        )  # fmt: skip
    for target in targets:
        stage.append(
            begin(
                _SEND, sent.data_ptr(), sent.numel(), 0, 0, number, edge=f"{rank}>{target}",
                peer=target, keep=sent, **order,
            )
        )  # fmt: skip
    return stage
