"""allgather and grouped_allgather: all ranks' tensors, whose numbers of rows may differ."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch

from weft import _operations as ops
from weft._core import Collective, Handle
from weft.horovod._allreduce import Allreduce, GroupedAllreduce
from weft.horovod._handles import keep
from weft.horovod._process_sets import ProcessSet, team_of
from weft.horovod._reductions import Average, Context, Reduction, apply, dense
from weft.horovod._rows import Rows, Tensors
from weft.horovod._teams import Team


def tell_rows(xs: Tensors, team: Team, title: str) -> Tuple[torch.Tensor, Handle]:
    """Starts to tell all ranks how many rows there are: counts[rank, tensor]."""
    mine = torch.tensor([[each.shape[0] for each in xs]])
    counts = torch.empty((team.size, len(xs)), dtype=torch.int64)
    return counts, team.by_name(title).allgather_start(mine, counts)


def move_rows(
    x: torch.Tensor, team: Team, title: str, counts: torch.Tensor, told: Handle
) -> Rows:
    """Gathers one tensor."""

    def travel(ys: Tensors, rows: List[List[int]]) -> Handle:
        return team.by_name(title).allgather_start(x, ys[0], counts=rows[0])

    return Rows([x], counts, told, travel)


def _gather(tensor: torch.Tensor, team: Team, title: str) -> Rows:
    x = _with_rows(tensor)
    return move_rows(x, team, title, *tell_rows([x], team, f"{title}.rows"))


def _gather_group(tensors: Sequence[torch.Tensor], team: Team, title: str) -> Rows:
    xs = [_with_rows(each) for each in tensors]

    def travel(ys: Tensors, rows: List[List[int]]) -> Handle:
        kind = Collective.allgather
        calls = [
            ops.gathered(kind, x, y, team.size, each, {}) for x, y, each in zip(xs, ys, rows)
        ]
        return team.start_group(title, calls)

    return Rows(xs, *tell_rows(xs, team, f"{title}.rows"), travel)


def _with_rows(tensor: torch.Tensor) -> torch.Tensor:
    x = dense(tensor, "allgather")
    if x.dim() == 0:
        raise ValueError("allgather: a tensor of no dimensions cannot be gathered")
    return x


def _cuts(counts: torch.Tensor, rank: int) -> List[Tuple[int, int]]:
    """Where the rows of this rank begin in each result, and how many there are."""
    return [(sum(rows[:rank]), rows[rank]) for rows in counts.t().tolist()]


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Context, team: Team, title: str, tensor: torch.Tensor) -> torch.Tensor:
        gather = _gather(tensor, team, title)
        gather.wait()
        ctx.how = Reduction(team, f"{title}.gradient", Average)
        (ctx.cut,) = _cuts(gather.counts, team.rank)
        return gather.results()[0]

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        return None, None, apply(Allreduce, ctx.how, gradients[0]).narrow(0, *ctx.cut)


class _GroupedAllgather(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Context, team: Team, title: str, *tensors: torch.Tensor
    ) -> Tuple[torch.Tensor, ...]:
        gather = _gather_group(tensors, team, title)
        gather.wait()
        ctx.how = Reduction(team, f"{title}.gradient", Average)
        ctx.cuts = _cuts(gather.counts, team.rank)
        return tuple(gather.results())

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        reduced = apply(GroupedAllreduce, ctx.how, *gradients)
        return None, None, *[each.narrow(0, *cut) for each, cut in zip(reduced, ctx.cuts)]


def allgather_async(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: Optional[ProcessSet] = None
) -> int:
    """Starts allgather(). The result has no gradient."""
    team = team_of(process_set)
    gather = _gather(tensor, team, team.title("allgather", name))
    return keep(gather, lambda: gather.results()[0])


def allgather(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: Optional[ProcessSet] = None
) -> torch.Tensor:
    """All ranks' tensors, one after another along dimension 0; the numbers of rows may differ.

    A rank's gradient is the mean of those of all ranks, as Horovod's.
    """
    team = team_of(process_set)
    result: torch.Tensor = apply(_Allgather, team, team.title("allgather", name), tensor)
    return result


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> int:
    """Starts grouped_allgather(). The results have no gradients."""
    team = team_of(process_set)
    gather = _gather_group(tensors, team, team.title("grouped_allgather", name))
    return keep(gather, gather.results)


def grouped_allgather(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> List[torch.Tensor]:
    """allgather() of several tensors, which run together once all ranks have submitted them."""
    team = team_of(process_set)
    title = team.title("grouped_allgather", name)
    return list(apply(_GroupedAllgather, team, title, *tensors))
