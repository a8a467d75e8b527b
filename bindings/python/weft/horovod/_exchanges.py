"""Horovod's operations that bring rows of all ranks together, for which ranks tell each other first
how many they have. The gradients are as those of _ops.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

import torch

from weft._core import Handle
from weft.horovod._ops import (
    Allreduce,
    Average,
    Context,
    ProcessSet,
    Reduction,
    Sum,
    apply,
    by_name,
    dense,
    title_of,
)
from weft.horovod._state import current, keep, named_as, synchronize
from weft.torch._devices import Place
from weft.torch._staged import Staged, start


def sparse_allreduce_async(tensor: torch.Tensor, name: str, op: str) -> int:
    """Starts the sum or the average of sparse tensors, whose entries all ranks gather.

    The ranks tell how many entries they have under the name of a dense allreduce. So a rank whose
    tensor is dense is an error at once.
    """
    if op not in (Sum, Average):
        raise NotImplementedError(f"sparse_allreduce_async: {op} of sparse tensors")
    given = tensor.detach().coalesce()
    divisor = current().context.size if op == Average else 1
    counts, told = _tell_rows(given.values(), named_as("allreduce", name))
    where = given.indices().t().contiguous()
    places = _move_rows(where, named_as("sparse.indices", name), counts, told)
    values = _move_rows(given.values(), named_as("sparse.values", name), counts, told)

    def result() -> torch.Tensor:
        values.wait()
        entries = values.result() / divisor
        all_ = torch.sparse_coo_tensor(
            places.result().t(), entries.to(given.dtype), given.size(), check_invariants=False
        )
        return all_.coalesce()

    return keep(places, result)


class _Rows:
    """Rows of all ranks. They travel once the ranks have told each other how many there are."""

    def __init__(
        self,
        x: torch.Tensor,
        counts: torch.Tensor,
        told: Handle,
        travel: Callable[[torch.Tensor, List[int]], Handle],
    ) -> None:
        """counts: how many rows each rank sends to this one, when `told` is done.

        travel: starts the operation that writes that many rows to its tensor.
        """
        self.counts = counts
        self._x, self._place, self._travel = x, Place(x), travel
        self._y = x.new_empty(0)
        self._staged = start(Staged([told], self._move, is_by_name=True))

    def _move(self) -> List[Handle]:
        rows = self.counts.tolist()
        with self._place.stream():
            self._y = self._x.new_empty((sum(rows), *self._x.shape[1:]))
            return [self._travel(self._y, rows)]

    def test(self) -> bool:
        return self._staged.test()

    def wait(self) -> None:
        self._staged.wait()

    def result(self) -> torch.Tensor:
        return self._y


def _gather(tensor: torch.Tensor, title: str) -> _Rows:
    """Starts an allgather."""
    x = dense(tensor, "allgather")
    if x.dim() == 0:
        raise ValueError("allgather: a tensor of no dimensions cannot be gathered")
    return _move_rows(x, title, *_tell_rows(x, f"{title}.rows"))


def _tell_rows(x: torch.Tensor, title: str) -> Tuple[torch.Tensor, Handle]:
    counts = torch.empty(current().context.size, dtype=torch.int64)
    return counts, by_name(title).allgather_start(torch.tensor([x.shape[0]]), counts)


def _move_rows(x: torch.Tensor, title: str, counts: torch.Tensor, told: Handle) -> _Rows:
    to = by_name(title)
    return _Rows(x, counts, told, lambda y, rows: to.allgather_start(x, y, counts=rows))


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, title: str, tensor: torch.Tensor) -> torch.Tensor:
        ctx.title = title
        gather = _gather(tensor, title)
        gather.wait()
        rank = current().context.rank
        rows = gather.counts.tolist()
        ctx.slice = sum(rows[:rank]), rows[rank]
        return gather.result()

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        how = Reduction(f"{ctx.title}.gradient", Sum, 1.0, 1.0)
        return None, apply(Allreduce, how, gradients[0]).narrow(0, *ctx.slice)


def allgather_async(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: Optional[ProcessSet] = None
) -> int:
    """Starts allgather(). The result has no gradient."""
    gather = _gather(tensor, title_of("allgather", name, process_set))
    return keep(gather, gather.result)


def allgather(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: Optional[ProcessSet] = None
) -> torch.Tensor:
    """All ranks' tensors, one after another along dimension 0; the numbers of rows may differ."""
    result: torch.Tensor = apply(_Allgather, title_of("allgather", name, process_set), tensor)
    return result


def grouped_allgather(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> List[torch.Tensor]:
    """allgather() of each tensor."""
    title = named_as("grouped_allgather", name)
    return [allgather(each, f"{title}.{k}", process_set) for k, each in enumerate(tensors)]


Splits = Union[None, torch.Tensor, Sequence[int]]


def _exchange(tensor: torch.Tensor, splits: Splits, title: str) -> _Rows:
    """Starts an alltoall."""
    x, size = dense(tensor, "alltoall"), current().context.size
    if splits is None:
        if x.dim() == 0 or x.shape[0] % size != 0:
            raise ValueError(f"alltoall: a tensor of {tuple(x.shape)} is not {size} parts")
        sent = [x.shape[0] // size] * size
    else:
        sent = [int(each) for each in splits]
    if len(sent) != size or sum(sent) != x.shape[0]:
        raise ValueError(f"alltoall: splits {sent} of {x.shape[0]} rows to {size} ranks")
    counts = torch.empty(size, dtype=torch.int64)
    told = by_name(f"{title}.splits").alltoall_start(torch.tensor(sent), counts)
    to = by_name(title)

    def travel(y: torch.Tensor, rows: List[int]) -> Handle:
        return to.alltoallv_start(x, y, send_counts=sent, receive_counts=rows)

    return _Rows(x, counts, told, travel)


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Context, title: str, splits: Splits, tensor: torch.Tensor
    ) -> Tuple[torch.Tensor, torch.Tensor]:
        exchange = _exchange(tensor, splits, title)
        exchange.wait()
        ctx.title, ctx.received = title, exchange.counts
        ctx.mark_non_differentiable(exchange.counts)
        return exchange.result(), exchange.counts

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        back, _ = apply(_Alltoall, f"{ctx.title}.gradient", ctx.received, gradients[0])
        return None, None, back


def alltoall_async(
    tensor: torch.Tensor,
    splits: Splits = None,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> int:
    """Starts alltoall(). The result has no gradient."""
    exchange = _exchange(tensor, splits, title_of("alltoall", name, process_set))
    if splits is None:
        return keep(exchange, exchange.result)
    return keep(exchange, lambda: (exchange.result(), exchange.counts))


def alltoall(
    tensor: torch.Tensor,
    splits: Splits = None,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> Any:
    """Rows to each rank, and the rows that all ranks send to this one.

    splits: how many rows each rank gets; None: equal parts. If they are given, the result is a
    pair: the tensor, and how many rows each rank has sent.
    """
    result, received = apply(_Alltoall, title_of("alltoall", name, process_set), splits, tensor)
    return result if splits is None else (result, received)


class _ReduceScatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, title: str, op: str, tensor: torch.Tensor) -> torch.Tensor:
        ctx.title, ctx.op = title, op
        result: torch.Tensor = synchronize(_start_reducescatter(title, op, tensor))
        return result

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        divisor = current().context.size if ctx.op == Average else 1
        return None, None, apply(_Allgather, f"{ctx.title}.gradient", gradients[0] / divisor)


def _start_reducescatter(title: str, op: str, tensor: torch.Tensor) -> int:
    if op not in (Average, Sum):
        raise NotImplementedError(f"reducescatter: {op}; there are Average and Sum")
    x = dense(tensor, "reducescatter")
    handle = by_name(title).reduce_scatter_start(x, op=op)
    return keep(handle, lambda: handle.result)


def reducescatter_async(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: str = Average,
    process_set: Optional[ProcessSet] = None,
) -> int:
    """Starts reducescatter(). The result has no gradient."""
    return _start_reducescatter(title_of("reducescatter", name, process_set), op, tensor)


def reducescatter(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: str = Average,
    process_set: Optional[ProcessSet] = None,
) -> torch.Tensor:
    """This rank's rows of the reduction: equal numbers, or one more for the first ranks."""
    title = title_of("reducescatter", name, process_set)
    result: torch.Tensor = apply(_ReduceScatter, title, op, tensor)
    return result
