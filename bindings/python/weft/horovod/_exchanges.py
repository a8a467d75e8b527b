"""Horovod's operations that bring rows of all ranks together, for which ranks tell each other first
how many they have. The gradients are as those of _ops.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union

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
    check_process_set,
    dense,
)
from weft.horovod._state import current, keep, named_as, synchronize
from weft.torch._devices import Place
from weft.torch._staged import Staged, start


def sparse_allreduce_async(tensor: torch.Tensor, name: str, op: str) -> int:
    """Starts the sum or the average of sparse tensors, whose entries all ranks gather."""
    if op not in (Sum, Average):
        raise NotImplementedError(f"sparse_allreduce_async: {op} of sparse tensors")
    given = tensor.detach().coalesce()
    divisor = current().context.size if op == Average else 1
    places = _Gather(given.indices().t().contiguous(), named_as("sparse.indices", name))
    values = _Gather(given.values(), named_as("sparse.values", name))

    def result() -> torch.Tensor:
        values.wait()
        entries = values.result() / divisor
        all_ = torch.sparse_coo_tensor(
            places.result().t(), entries.to(given.dtype), given.size(), check_invariants=False
        )
        return all_.coalesce()

    return keep(places, result)


class _Gather:
    """An allgather, for which all ranks first tell how many rows they have."""

    def __init__(self, tensor: torch.Tensor, title: str) -> None:
        x = dense(tensor, "allgather")
        if x.dim() == 0:
            raise ValueError("allgather: a tensor of no dimensions cannot be gathered")
        self._x, self._title, self._place = x, title, Place(x)
        self._y = x.new_empty(0)
        self.rows: List[int] = []
        told = torch.empty(current().context.size, dtype=torch.int64)
        mine = torch.tensor([x.shape[0]])
        first = by_name(f"{title}.rows").allgather_start(mine, told)
        self._staged = start(Staged([first], lambda: self._move(told), is_by_name=True))

    def _move(self, told: torch.Tensor) -> List[Handle]:
        self.rows = told.tolist()
        with self._place.stream():
            self._y = self._x.new_empty((sum(self.rows), *self._x.shape[1:]))
            to = by_name(self._title)
            return [to.allgather_start(self._x, self._y, counts=self.rows)]

    def test(self) -> bool:
        return self._staged.test()

    def wait(self) -> None:
        self._staged.wait()

    def result(self) -> torch.Tensor:
        return self._y


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, title: str, tensor: torch.Tensor) -> torch.Tensor:
        ctx.title = title
        gather = _Gather(tensor, title)
        gather.wait()
        rank = current().context.rank
        ctx.slice = sum(gather.rows[:rank]), gather.rows[rank]
        return gather.result()

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        how = Reduction(f"{ctx.title}.gradient", Sum, 1.0, 1.0)
        return None, apply(Allreduce, how, gradients[0]).narrow(0, *ctx.slice)


def allgather_async(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: Optional[ProcessSet] = None
) -> int:
    """Starts allgather(). The result has no gradient."""
    check_process_set(process_set)
    gather = _Gather(tensor, named_as("allgather", name))
    return keep(gather, gather.result)


def allgather(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: Optional[ProcessSet] = None
) -> torch.Tensor:
    """All ranks' tensors, one after another along dimension 0; the numbers of rows may differ."""
    check_process_set(process_set)
    result: torch.Tensor = apply(_Allgather, named_as("allgather", name), tensor)
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


class _Exchange:
    """An alltoall, for which all ranks first tell how many rows they send."""

    def __init__(self, tensor: torch.Tensor, splits: Splits, title: str) -> None:
        x, size = dense(tensor, "alltoall"), current().context.size
        if splits is None:
            if x.dim() == 0 or x.shape[0] % size != 0:
                raise ValueError(f"alltoall: a tensor of {tuple(x.shape)} is not {size} parts")
            sent = [x.shape[0] // size] * size
        else:
            sent = [int(each) for each in splits]
        if len(sent) != size or sum(sent) != x.shape[0]:
            raise ValueError(f"alltoall: splits {sent} of {x.shape[0]} rows to {size} ranks")
        self._x, self._title, self._place = x, title, Place(x)
        self._y = x.new_empty(0)
        self.sent = sent
        self.received = torch.empty(size, dtype=torch.int64)
        first = by_name(f"{title}.splits").alltoall_start(torch.tensor(sent), self.received)
        self._staged = start(Staged([first], self._move, is_by_name=True))

    def _move(self) -> List[Handle]:
        rows = self.received.tolist()
        with self._place.stream():
            self._y = self._x.new_empty((sum(rows), *self._x.shape[1:]))
            to = by_name(self._title)
            return [
                to.alltoallv_start(self._x, self._y, send_counts=self.sent, receive_counts=rows)
            ]

    def test(self) -> bool:
        return self._staged.test()

    def wait(self) -> None:
        self._staged.wait()

    def result(self) -> torch.Tensor:
        return self._y


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Context, title: str, splits: Splits, tensor: torch.Tensor
    ) -> Tuple[torch.Tensor, torch.Tensor]:
        exchange = _Exchange(tensor, splits, title)
        exchange.wait()
        ctx.title, ctx.received = title, exchange.received
        ctx.mark_non_differentiable(exchange.received)
        return exchange.result(), exchange.received

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
    check_process_set(process_set)
    exchange = _Exchange(tensor, splits, named_as("alltoall", name))
    if splits is None:
        return keep(exchange, exchange.result)
    return keep(exchange, lambda: (exchange.result(), exchange.received))


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
    check_process_set(process_set)
    result, received = apply(_Alltoall, named_as("alltoall", name), splits, tensor)
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
    check_process_set(process_set)
    return _start_reducescatter(named_as("reducescatter", name), op, tensor)


def reducescatter(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: str = Average,
    process_set: Optional[ProcessSet] = None,
) -> torch.Tensor:
    """This rank's rows of the reduction: equal numbers, or one more for the first ranks."""
    check_process_set(process_set)
    result: torch.Tensor = apply(_ReduceScatter, named_as("reducescatter", name), op, tensor)
    return result
