"""alltoall: rows to each rank, and the rows that all ranks send to this one."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union

import torch

from weft._core import Handle
from weft.horovod._handles import keep
from weft.horovod._process_sets import ProcessSet, team_of
from weft.horovod._reductions import Context, apply, dense
from weft.horovod._rows import Rows, Tensors
from weft.horovod._teams import Team

Splits = Union[None, torch.Tensor, Sequence[int]]


class _Exchange:
    """An alltoall, and how its splits are given and returned."""

    def __init__(self, tensor: torch.Tensor, splits: Splits, team: Team, title: str) -> None:
        x, sent = dense(tensor, "alltoall"), _sent(tensor, splits, team.size)
        self._as = splits if isinstance(splits, torch.Tensor) else torch.empty(0, dtype=torch.int32)
        counts = torch.empty((team.size, 1), dtype=torch.int64)
        given = torch.tensor(sent).unsqueeze(1)
        told = team.by_name(f"{title}.splits").alltoall_start(given, counts)

        def travel(ys: Tensors, rows: List[List[int]]) -> Handle:
            to = team.by_name(title)
            return to.alltoallv_start(x, ys[0], send_counts=sent, receive_counts=rows[0])

        self.rows = Rows([x], counts, told, travel)

    def result(self) -> Tuple[torch.Tensor, torch.Tensor]:
        """The rows, and how many each rank has sent."""
        return self.rows.results()[0], self.rows.counts[:, 0].to(self._as)


def _sent(tensor: torch.Tensor, splits: Splits, size: int) -> List[int]:
    """How many rows each rank gets."""
    rows = tensor.shape[0] if tensor.dim() > 0 else -1
    if splits is None:
        if rows < 0 or rows % size != 0:
            raise ValueError(f"alltoall: a tensor of {tuple(tensor.shape)} is not {size} parts")
        return [rows // size] * size
    if isinstance(splits, torch.Tensor) and (splits.is_floating_point() or splits.is_complex()):
        raise ValueError(f"alltoall: splits are integers, not {splits.dtype}")
    sent = [int(each) for each in splits]
    if len(sent) != size or sum(sent) != rows:
        raise ValueError(f"alltoall: splits {sent} of {rows} rows to {size} ranks")
    return sent


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Context, team: Team, title: str, splits: Splits, tensor: torch.Tensor
    ) -> Tuple[torch.Tensor, torch.Tensor]:
        exchange = _Exchange(tensor, splits, team, title)
        exchange.rows.wait()
        rows, received = exchange.result()
        ctx.team, ctx.title, ctx.received = team, title, received
        ctx.mark_non_differentiable(received)
        return rows, received

    @staticmethod
    def backward(ctx: Context, *gradients: Any) -> Any:
        title = f"{ctx.title}.gradient"
        back, _ = apply(_Alltoall, ctx.team, title, ctx.received, gradients[0])
        return None, None, None, back


def alltoall_async(
    tensor: torch.Tensor,
    splits: Splits = None,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> int:
    """Starts alltoall(). The result is a pair also without splits, and has no gradient."""
    team = team_of(process_set)
    exchange = _Exchange(tensor, splits, team, team.title("alltoall", name))
    return keep(exchange.rows, exchange.result)


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
    team = team_of(process_set)
    result, received = apply(_Alltoall, team, team.title("alltoall", name), splits, tensor)
    return result if splits is None else (result, received)
