"""allreduce and grouped_allreduce. Those that wait for their result are differentiable.

The gradient travels under the name of the operation with ".gradient", so gradients of two operations
are never taken for one another.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch

from weft._core import ErrorFeedback
from weft.horovod._compression import Compression, CompressorLike, encoding_of
from weft.horovod._handles import synchronize
from weft.horovod._process_sets import ProcessSet, team_of
from weft.horovod._reductions import Average, Context, Reduction, Sum, apply
from weft.horovod._teams import Team


def _op(op: Optional[str], average: Optional[bool]) -> str:
    if op is not None and average is not None:
        raise ValueError("give either op or average")
    if op is None:
        return Sum if average is False else Average
    return op


def _reduction(
    kind: str,
    average: Optional[bool],
    name: Optional[str],
    op: Optional[str],
    factors: Tuple[float, float],
    process_set: Optional[ProcessSet],
    encoding: str = "none",
) -> Reduction:
    team = team_of(process_set)
    return Reduction(team, team.title(kind, name), _op(op, average), factors, encoding)


class Allreduce(torch.autograd.Function):
    """One tensor."""

    @staticmethod
    def forward(ctx: Context, how: Reduction, tensor: torch.Tensor) -> torch.Tensor:
        ctx.how = how
        result: torch.Tensor = synchronize(how.start(tensor))
        return result

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        return None, apply(Allreduce, ctx.how.of_gradient(), gradients[0])


class GroupedAllreduce(torch.autograd.Function):
    """Several tensors."""

    @staticmethod
    def forward(ctx: Context, how: Reduction, *tensors: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        ctx.how = how
        return tuple(synchronize(how.start_group(tensors)))

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        return None, *apply(GroupedAllreduce, ctx.how.of_gradient(), *gradients)


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
    return _reduction("allreduce", average, name, op, factors, process_set).start(tensor)


def allreduce(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: CompressorLike = Compression.none,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Optional[ProcessSet] = None,
) -> torch.Tensor:
    """The reduction of the tensors that all ranks submit under this name; their mean by default.

    Args:
        average: Horovod's older word for op: True is Average, False is Sum.
        compression: Compression.fp16 halves what travels, Compression.sketch leaves a quarter of it.
        op: Average, Sum, Min, Max, Product or Adasum.
        prescale_factor, postscale_factor: of the tensor before, and of the result.
        process_set: the ranks that take part.
    """
    factors, encoding = (prescale_factor, postscale_factor), encoding_of(compression)
    how = _reduction("allreduce", average, name, op, factors, process_set, encoding)
    compressed, facts = compression.compress(tensor)
    result: torch.Tensor = compression.decompress(apply(Allreduce, how, compressed), facts)
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
    return _reduction("allreduce", average, name, op, factors, process_set).start_in_place(tensor)


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
    team: Team,
    tensors: List[torch.Tensor],
    name: str,
    op: str,
    encoding: str,
    factors: Tuple[float, float],
    feedbacks: Optional[List[ErrorFeedback]],
) -> int:
    """Starts an allreduce of one tensor, or of a group."""
    kind = "allreduce" if len(tensors) == 1 else "grouped_allreduce"
    how = Reduction(team, team.title(kind, name), op, factors, encoding, feedbacks)
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
    compression: CompressorLike = Compression.none,
    op: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: Optional[ProcessSet] = None,
) -> List[torch.Tensor]:
    """allreduce() of several tensors, which run together once all ranks have submitted them."""
    factors, encoding = (prescale_factor, postscale_factor), encoding_of(compression)
    how = _reduction("grouped_allreduce", average, name, op, factors, process_set, encoding)
    compressed = [compression.compress(each) for each in tensors]
    results = apply(GroupedAllreduce, how, *[each for each, _ in compressed])
    return [compression.decompress(each, facts) for each, (_, facts) in zip(results, compressed)]


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
