"""reducescatter: each rank's rows of the sum or the mean of all ranks' tensors."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch

from weft import _operations as ops
from weft.horovod._allgather import grouped_allgather
from weft.horovod._compression import Compression, CompressorLike
from weft.horovod._handles import keep, synchronize
from weft.horovod._process_sets import ProcessSet, team_of
from weft.horovod._reductions import Average, Context, Sum, Tensors, apply, averages_integers
from weft.horovod._reductions import dense, divide, scaled

Factors = Tuple[float, float]  # before the reduction, and after it


class _How:
    """A reducescatter of one tensor, or of a group."""

    def __init__(
        self,
        kind: str,
        name: Optional[str],
        op: str,
        process_set: Optional[ProcessSet],
        factors: Factors,
    ) -> None:
        if op not in (Average, Sum):
            raise NotImplementedError(f"{kind}: {op}; there are Average and Sum")
        self.team, self.process_set = team_of(process_set), process_set
        self.is_group = kind.startswith("grouped")
        self.title = self.team.title(kind, name)
        self.op, self.factors = op, factors

    def start(self, tensors: Sequence[torch.Tensor]) -> int:
        xs = [_with_rows(each) for each in tensors]
        op = Sum if averages_integers(self.op, xs) else self.op
        xs = [scaled(each, self.factors[0]) for each in xs]
        team = self.team
        calls = [ops.scattered_reduction(x, None, team.rank, team.size, None, op) for x in xs]
        ys = [each.out for each in calls]
        if self.is_group:
            return keep(team.start_group(self.title, calls), lambda: self._finished(ys))
        handle = team.by_name(self.title).reduce_scatter_start(xs[0], ys[0], op=op)
        return keep(handle, lambda: self._finished(ys)[0])

    def _finished(self, ys: Tensors) -> Tensors:
        if averages_integers(self.op, ys):
            divide(ys, self.team.size)
        return [scaled(each, self.factors[1]) for each in ys]

    def gradients(self, gradients: Sequence[torch.Tensor]) -> Tensors:
        """Of the tensors. As Horovod's, those of a sum are times the number of ranks."""
        factor = self.factors[0] * self.factors[1] * (self.team.size if self.op == Sum else 1)
        given = [scaled(each, factor) for each in gradients]
        return grouped_allgather(given, f"{self.title}.gradient", self.process_set)


def _with_rows(tensor: torch.Tensor) -> torch.Tensor:
    x = dense(tensor, "reducescatter")
    if x.dim() == 0:
        raise ValueError("reducescatter: a tensor of no dimensions cannot be scattered")
    return x


class _Reducescatter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, how: _How, *tensors: torch.Tensor) -> Any:
        ctx.how = how
        result = synchronize(how.start(tensors))
        return tuple(result) if how.is_group else result

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        return None, *ctx.how.gradients(gradients)


def reducescatter_async(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: str = Average,
    process_set: Optional[ProcessSet] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Starts reducescatter(). The result has no gradient."""
    factors = prescale_factor, postscale_factor
    return _How("reducescatter", name, op, process_set, factors).start([tensor])


def reducescatter(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    compression: CompressorLike = Compression.none,
    op: str = Average,
    process_set: Optional[ProcessSet] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """This rank's rows of the reduction of all ranks' tensors.

    Rows are divided evenly; the first ranks get one more if they do not divide. The gradient of an
    average is gathered as it is, that of a sum times the number of ranks, as Horovod's.

    op: Average or Sum.
    """
    how = _How("reducescatter", name, op, process_set, (prescale_factor, postscale_factor))
    compressed, facts = compression.compress(tensor)
    result: torch.Tensor = compression.decompress(apply(_Reducescatter, how, compressed), facts)
    return result


def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    op: str = Average,
    process_set: Optional[ProcessSet] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Starts grouped_reducescatter(). The results have no gradients."""
    factors = prescale_factor, postscale_factor
    return _How("grouped_reducescatter", name, op, process_set, factors).start(tensors)


def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    compression: CompressorLike = Compression.none,
    op: str = Average,
    process_set: Optional[ProcessSet] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> List[torch.Tensor]:
    """reducescatter() of several tensors, which run together once all ranks have submitted them."""
    how = _How("grouped_reducescatter", name, op, process_set, (prescale_factor, postscale_factor))
    compressed = [compression.compress(each) for each in tensors]
    results = apply(_Reducescatter, how, *[each for each, _ in compressed])
    return [compression.decompress(each, facts) for each, (_, facts) in zip(results, compressed)]
