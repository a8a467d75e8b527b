"""SyncBatchNorm: a normalization by the statistics of the batches of all ranks."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from weft.horovod._allgather import allgather_async
from weft.horovod._allreduce import allreduce_
from weft.horovod._basics import size
from weft.horovod._handles import synchronize
from weft.horovod._reductions import Context, Sum, apply
from weft.horovod._teams import everybody


class SyncBatchNorm(_BatchNorm):
    """torch.nn.BatchNorm1d, 2d and 3d, whose means and variances are those of all ranks' batches.

    The batches may differ in size. Tensors are on the CPU or on CUDA. In evaluation the running
    statistics are used, and nothing travels.
    """

    def _check_input_dim(self, input: torch.Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"SyncBatchNorm: expected 2 dimensions or more, not {input.dim()}")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """The normalized batch of this rank. In training all ranks call it."""
        uses_batch = self.training or not self.track_running_stats
        if size() == 1 or not uses_batch:
            whole: torch.Tensor = super().forward(input)
            return whole
        self._check_input_dim(input)
        name = everybody().title("sync_batch_norm", None)
        result: torch.Tensor
        result, mean, variance, count = apply(
            _Normalized, name, input, self.weight, self.bias, self.eps
        )
        if self.training and self.track_running_stats:
            self._follow(mean, variance * (count / (count - 1).clamp(min=1)))
        return result

    def _follow(self, mean: torch.Tensor, variance: torch.Tensor) -> None:
        """Moves the running statistics. Without a momentum they are the mean of all batches."""
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        factor = self.momentum
        if factor is None:
            factor = 1.0 / float(self.num_batches_tracked)
        for running, now in ((self.running_mean, mean), (self.running_var, variance)):
            assert running is not None
            running.mul_(1 - factor).add_(now.to(running.dtype), alpha=factor)


class _Normalized(torch.autograd.Function):
    """(x - mean) / sqrt(variance + eps) * weight + bias, and the statistics, which have no gradient."""

    @staticmethod
    def forward(
        ctx: Context,
        name: str,
        x: torch.Tensor,
        weight: Optional[torch.Tensor],
        bias: Optional[torch.Tensor],
        eps: float,
    ) -> Tuple[torch.Tensor, ...]:
        count, mean, squares = _of_all(name, *_of_batch(x))
        variance = squares / count
        scale = torch.rsqrt(variance + eps)
        y = (x - _wide(mean, x)) * _wide(scale, x)
        if weight is not None:
            y = y * _wide(weight, x)
        if bias is not None:
            y = y + _wide(bias, x)
        ctx.name, ctx.has_bias = name, bias is not None
        ctx.save_for_backward(x, weight, mean, scale, count)
        ctx.mark_non_differentiable(mean, variance, count)
        return y.to(x.dtype), mean, variance, count

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        x, weight, mean, scale, count = ctx.saved_tensors
        dy, centered = gradients[0].to(mean.dtype), x - _wide(mean, x)
        sums = torch.stack([_sum(dy), _sum(dy * centered)])
        d_bias, d_weight = sums[0].clone(), sums[1] * scale
        allreduce_(sums, op=Sum, name=f"{ctx.name}.gradient")
        along = _wide(sums[1] / count * scale.square(), x)
        dx = (dy - _wide(sums[0] / count, x) - centered * along) * _wide(scale, x)
        if weight is not None:
            dx = dx * _wide(weight, x)
        return (
            None,
            dx.to(x.dtype),
            None if weight is None else d_weight.to(weight.dtype),
            d_bias if ctx.has_bias else None,
            None,
        )


def _of_batch(x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The elements of each channel of this rank, their mean, and the squares around it."""
    x = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    count = x.new_full((1,), x.numel() // x.shape[1])
    mean = _sum(x) / count.clamp(min=1)
    return count, mean, _sum((x - _wide(mean, x)).square())


def _of_all(
    name: str, count: torch.Tensor, mean: torch.Tensor, squares: torch.Tensor
) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same of all ranks, in one message."""
    mine = torch.cat([count, mean, squares]).unsqueeze(0)
    table = synchronize(allgather_async(mine, name))
    counts, means, around = torch.split(table, [1, len(mean), len(mean)], dim=1)
    total = counts.sum()
    of_all = (counts * means).sum(0) / total
    return total, of_all, (around + counts * (means - of_all).square()).sum(0)


def _sum(x: torch.Tensor) -> torch.Tensor:
    others: List[int] = [each for each in range(x.dim()) if each != 1]
    return x.sum(others)


def _wide(channels: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A value of each channel, in the dimensions of x."""
    return channels.view(1, -1, *[1] * (x.dim() - 2))
