"""broadcast: tensors that all ranks get from one. The root is given by its rank in the job."""

from __future__ import annotations

from typing import Any, Optional

import torch

from weft.horovod._allreduce import Allreduce
from weft.horovod._handles import keep, synchronize
from weft.horovod._process_sets import ProcessSet, team_of
from weft.horovod._reductions import Average, Context, Reduction, apply, dense, in_place
from weft.horovod._teams import Team


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Context, team: Team, title: str, root: int, tensor: torch.Tensor
    ) -> torch.Tensor:
        ctx.team, ctx.title, ctx.root = team, title, root
        result: torch.Tensor = synchronize(_start(team, title, root, tensor))
        return result

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        how = Reduction(ctx.team, f"{ctx.title}.gradient", Average)
        reduced = apply(Allreduce, how, gradients[0])
        is_root = ctx.team.rank == ctx.root
        return None, None, None, reduced if is_root else torch.zeros_like(reduced)


def _start(team: Team, title: str, root: int, tensor: torch.Tensor) -> int:
    x = dense(tensor, "broadcast")
    y = torch.empty_like(x)
    return keep(team.by_name(title).broadcast_start(x, y, root=root), lambda: y)


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> int:
    """Starts broadcast(). The result has no gradient."""
    team = team_of(process_set)
    return _start(team, team.title("broadcast", name), team.place_of(root_rank), tensor)


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> torch.Tensor:
    """The root's tensor. The root's gradient is the mean of those of all ranks, as Horovod's."""
    team = team_of(process_set)
    title, root = team.title("broadcast", name), team.place_of(root_rank)
    result: torch.Tensor = apply(_Broadcast, team, title, root, tensor)
    return result


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> int:
    """Starts broadcast_()."""
    team, x = team_of(process_set), in_place(tensor, "broadcast_")
    title, root = team.title("broadcast", name), team.place_of(root_rank)
    return keep(team.by_name(title).broadcast_start(x, x, root=root), lambda: tensor)


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> torch.Tensor:
    """broadcast() in place, without a gradient."""
    result: torch.Tensor = synchronize(broadcast_async_(tensor, root_rank, name, process_set))
    return result
