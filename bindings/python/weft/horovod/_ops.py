"""Horovod's reductions and broadcasts of tensors. Operations that wait for their result are
differentiable.

The gradient of a reduction is reduced in the same way. That of a gather, a broadcast or an alltoall
is the sum of the gradients of what was made of this rank's tensor. It travels under the name of the
operation with ".gradient", so gradients of two operations are never taken for one another.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple, Type

import torch

from weft._core import ErrorFeedback, Handle
from weft._named import Name
from weft.horovod._compression import Compression, Compressor
from weft.horovod._state import current, keep, named_as, synchronize

Average = "average"
Sum = "sum"
Min = "min"
Max = "max"
Product = "product"

# What an autograd.Function keeps for its backward().
Context = Any
Tensors = List[torch.Tensor]


class ProcessSet:
    """The ranks of an operation. Weft has the set of all ranks."""

    process_set_id = 0

    def included(self) -> bool:
        """Whether this rank belongs to it."""
        return True

    def size(self) -> int:
        """How many ranks belong to it."""
        return current().context.size

    def rank(self) -> int:
        """The number of this rank in it."""
        return current().context.rank


global_process_set = ProcessSet()


def check_process_set(process_set: Optional[ProcessSet]) -> None:
    """Raises NotImplementedError for any but the set of all ranks."""
    if process_set is not None and process_set is not global_process_set:
        raise NotImplementedError("weft.horovod has the set of all ranks; others are weft.split()")


def title_of(kind: str, name: Optional[str], process_set: Optional[ProcessSet]) -> str:
    """The name under which an operation of this set is submitted."""
    check_process_set(process_set)
    return named_as(kind, name)


def _op(op: Optional[str], average: Optional[bool]) -> str:
    if op is not None and average is not None:
        raise ValueError("give either op or average")
    if op is None:
        return Sum if average is False else Average
    return op


def apply(function: Any, *arguments: Any) -> Any:
    """function.apply(), to which torch gives no types."""
    return function.apply(*arguments)


def by_name(title: str) -> Name:
    return current().named[title]


def dense(tensor: torch.Tensor, what: str) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{what}: expected a tensor, not {type(tensor).__name__}")
    if not (tensor.is_cpu or tensor.is_cuda) or tensor.layout is not torch.strided:
        raise TypeError(f"{what}: takes dense tensors on the CPU and on CUDA")
    return tensor.detach().contiguous()


def _in_place(tensor: torch.Tensor, what: str) -> torch.Tensor:
    block = dense(tensor, what)
    if block.data_ptr() != tensor.data_ptr():
        raise ValueError(f"{what}: a tensor that is changed in place must be contiguous")
    return block


def _scaled(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    """The tensor times a factor. Products of integers are cut off, as Horovod's are."""
    if factor == 1.0:
        return tensor
    if tensor.is_floating_point() or tensor.is_complex():
        return tensor * factor
    return (tensor.double() * factor).to(tensor.dtype)


class Reduction:
    """An allreduce of some tensors: how it is called, and the factors before and after it."""

    def __init__(
        self,
        title: str,
        op: str,
        prescale: float,
        postscale: float,
        encoding: str = "none",
        feedbacks: Optional[List[ErrorFeedback]] = None,
    ) -> None:
        self.title = title
        self.op = op
        self.prescale = prescale
        self.postscale = postscale
        self.encoding = encoding  # of Compressor
        self.feedbacks = feedbacks  # one for each tensor

    def of_gradient(self) -> Reduction:
        title = f"{self.title}.gradient"
        return Reduction(title, self.op, self.prescale, self.postscale, self.encoding)

    def start(self, tensor: torch.Tensor) -> int:
        x = _scaled(dense(tensor, "allreduce"), self.prescale)
        y = torch.empty_like(x)
        handle = by_name(self.title).allreduce_start(x, y, **self._runs([x]))
        return keep(handle, lambda: _scaled(self._divided([y])[0], self.postscale))

    def start_in_place(self, tensor: torch.Tensor) -> int:
        x = _in_place(tensor, "allreduce_")
        if self.prescale != 1.0:
            x.copy_(_scaled(x, self.prescale))
        runs = self._runs([x])
        if "feedback" in runs:
            runs["feedback"] = runs["feedback"][0]
        handle = by_name(self.title).allreduce_start(x, x, **runs)
        return keep(handle, lambda: self._finished([x], [tensor])[0])

    def start_group(self, tensors: Sequence[torch.Tensor]) -> int:
        xs = [_scaled(dense(each, "grouped_allreduce"), self.prescale) for each in tensors]
        ys = [torch.empty_like(each) for each in xs]
        return keep(
            self._group(xs, ys),
            lambda: [_scaled(each, self.postscale) for each in self._divided(ys)],
        )

    def start_group_in_place(self, tensors: Sequence[torch.Tensor]) -> int:
        xs = [_in_place(each, "grouped_allreduce_") for each in tensors]
        if self.prescale != 1.0:
            for each in xs:
                each.copy_(_scaled(each, self.prescale))
        results = list(tensors)
        return keep(self._group(xs, xs), lambda: self._finished(xs, results))

    def _finished(self, blocks: Tensors, results: List[torch.Tensor]) -> List[torch.Tensor]:
        for each in self._divided(blocks):
            if self.postscale != 1.0:
                each.copy_(_scaled(each, self.postscale))
        return results

    def _group(self, xs: Tensors, ys: Tensors) -> Handle:
        return current().named.grouped_allreduce_start(self.title, xs, ys, **self._runs(xs))

    def _is_of_integers(self, tensors: Tensors) -> bool:
        return self.op == Average and not all(each.is_floating_point() for each in tensors)

    def _runs(self, tensors: Tensors) -> Dict[str, Any]:
        """What Weft computes: of an average of integers the sum."""
        op = Sum if self._is_of_integers(tensors) else self.op
        can_be_encoded = op in (Sum, Average) and all(
            each.dtype is torch.float32 and each.is_cpu for each in tensors
        )
        if not can_be_encoded or self.encoding == "none":
            return {"op": op}
        how = {"op": op, "compression": self.encoding}
        return how if self.feedbacks is None else {**how, "feedback": self.feedbacks}

    def _divided(self, tensors: Tensors) -> Tensors:
        """What was asked for, made of what Weft computed. Integers are divided towards zero."""
        if self._is_of_integers(tensors):
            for each in tensors:
                rounding = None if each.is_floating_point() else "trunc"
                each.div_(current().context.size, rounding_mode=rounding)
        return tensors


def _reduction(
    kind: str,
    average: Optional[bool],
    name: Optional[str],
    op: Optional[str],
    factors: Tuple[float, float],
    process_set: Optional[ProcessSet],
) -> Reduction:
    return Reduction(title_of(kind, name, process_set), _op(op, average), *factors)


class Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, how: Reduction, tensor: torch.Tensor) -> torch.Tensor:
        ctx.how = how
        result: torch.Tensor = synchronize(how.start(tensor))
        return result

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        return None, apply(Allreduce, ctx.how.of_gradient(), gradients[0])


class _GroupedAllreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, how: Reduction, *tensors: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        ctx.how = how
        return tuple(synchronize(how.start_group(tensors)))

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        return None, *apply(_GroupedAllreduce, ctx.how.of_gradient(), *gradients)


def allreduce_async(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Optional[ProcessSet] = None,
) -> int:
    """Starts allreduce(). The result has no gradient."""
    factors = prescale_factor, postscale_factor
    how = _reduction("allreduce", average, name, op, factors, process_set)
    return how.start(tensor)


def allreduce(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: Type[Compressor] = Compression.none,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Optional[ProcessSet] = None,
) -> torch.Tensor:
    """The reduction of the tensors that all ranks submit under this name; their mean by default.

    Args:
        compression: Compression.fp16 halves what travels, Compression.sketch leaves a quarter of it.
        prescale_factor, postscale_factor: of the tensor before, and of the result.
    """
    factors = prescale_factor, postscale_factor
    how = _reduction("allreduce", average, name, op, factors, process_set)
    how.encoding = compression.encoding
    compressed, dtype = compression.compress(tensor)
    result: torch.Tensor = compression.decompress(apply(Allreduce, how, compressed), dtype)
    return result


def allreduce_async_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Optional[ProcessSet] = None,
) -> int:
    """Starts allreduce_()."""
    factors = prescale_factor, postscale_factor
    how = _reduction("allreduce", average, name, op, factors, process_set)
    return how.start_in_place(tensor)


def allreduce_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Optional[ProcessSet] = None,
) -> torch.Tensor:
    """allreduce() in place, without a gradient."""
    factors = prescale_factor, postscale_factor
    handle = allreduce_async_(tensor, average, name, op, *factors, process_set)
    result: torch.Tensor = synchronize(handle)
    return result


def reduce_in_place(
    tensors: List[torch.Tensor],
    name: str,
    op: str,
    encoding: str,
    factors: Tuple[float, float],
    feedbacks: Optional[List[ErrorFeedback]],
) -> int:
    """Starts an allreduce of one tensor, or of a group."""
    kind = "allreduce" if len(tensors) == 1 else "grouped_allreduce"
    how = Reduction(title_of(kind, name, None), op, *factors, encoding, feedbacks)
    return how.start_in_place(tensors[0]) if len(tensors) == 1 else how.start_group_in_place(tensors)


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Optional[ProcessSet] = None,
) -> int:
    """Starts grouped_allreduce(). The results have no gradients."""
    factors = prescale_factor, postscale_factor
    how = _reduction("grouped_allreduce", average, name, op, factors, process_set)
    return how.start_group(tensors)


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: Type[Compressor] = Compression.none,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Optional[ProcessSet] = None,
) -> List[torch.Tensor]:
    """allreduce() of several tensors, which run together once all ranks have submitted them."""
    factors = prescale_factor, postscale_factor
    how = _reduction("grouped_allreduce", average, name, op, factors, process_set)
    how.encoding = compression.encoding
    compressed = [compression.compress(each) for each in tensors]
    results = apply(_GroupedAllreduce, how, *[each for each, _ in compressed])
    return [compression.decompress(each, dtype) for each, (_, dtype) in zip(results, compressed)]


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Optional[ProcessSet] = None,
) -> int:
    """Starts grouped_allreduce_()."""
    factors = prescale_factor, postscale_factor
    how = _reduction("grouped_allreduce", average, name, op, factors, process_set)
    return how.start_group_in_place(tensors)


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Optional[ProcessSet] = None,
) -> List[torch.Tensor]:
    """grouped_allreduce() in place, without gradients."""
    factors = prescale_factor, postscale_factor
    handle = grouped_allreduce_async_(tensors, average, name, op, *factors, process_set)
    result: List[torch.Tensor] = synchronize(handle)
    return result


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, title: str, root: int, tensor: torch.Tensor) -> torch.Tensor:
        ctx.title, ctx.root = title, root
        result: torch.Tensor = synchronize(_start_broadcast(title, root, tensor))
        return result

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        how = Reduction(f"{ctx.title}.gradient", Sum, 1.0, 1.0)
        reduced = apply(Allreduce, how, gradients[0])
        is_root = current().context.rank == ctx.root
        return None, None, reduced if is_root else torch.zeros_like(reduced)


def _start_broadcast(title: str, root: int, tensor: torch.Tensor) -> int:
    x = dense(tensor, "broadcast")
    y = torch.empty_like(x)
    return keep(by_name(title).broadcast_start(x, y, root=root), lambda: y)


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> int:
    """Starts broadcast(). The result has no gradient."""
    return _start_broadcast(title_of("broadcast", name, process_set), root_rank, tensor)


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> torch.Tensor:
    """The root's tensor."""
    title = title_of("broadcast", name, process_set)
    result: torch.Tensor = apply(_Broadcast, title, root_rank, tensor)
    return result


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> int:
    """Starts broadcast_()."""
    x = _in_place(tensor, "broadcast_")
    title = title_of("broadcast", name, process_set)
    return keep(by_name(title).broadcast_start(x, x, root=root_rank), lambda: tensor)


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> torch.Tensor:
    """broadcast() in place, without a gradient."""
    result: torch.Tensor = synchronize(broadcast_async_(tensor, root_rank, name, process_set))
    return result
