"""Reductions: which weft.ReduceOp stands for a torch.distributed.ReduceOp."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Union

import torch
import torch.distributed as dist

from weft._errors import InvalidArgument


class Reduction(NamedTuple):
    """number: that of weft.ReduceOp. factor: what each input is multiplied by first; 1: nothing."""

    number: int
    name: str
    factor: Union[float, torch.Tensor] = 1.0


SUM = Reduction(0, "sum")
AVERAGE = Reduction(1, "average")

# By torch's number of the operator, which is also its hash.
_KNOWN: Dict[int, Reduction] = {
    hash(dist.ReduceOp.SUM): SUM,
    hash(dist.ReduceOp.AVG): AVERAGE,
    hash(dist.ReduceOp.MIN): Reduction(2, "min"),
    hash(dist.ReduceOp.MAX): Reduction(3, "max"),
    hash(dist.ReduceOp.PRODUCT): Reduction(4, "product"),
    hash(dist.ReduceOp.BAND): Reduction(5, "bit_and"),
    hash(dist.ReduceOp.BOR): Reduction(6, "bit_or"),
    hash(dist.ReduceOp.BXOR): Reduction(7, "bit_xor"),
}
_PREMUL_SUM = hash(dist.ReduceOp.PREMUL_SUM)


def reduction(op: Any) -> Reduction:
    """The reduction that a ReduceOp, or an entry of ReduceOp.RedOpType, means."""
    number = hash(op)
    known = _KNOWN.get(number)
    if known is not None:
        return known
    if number == _PREMUL_SUM:
        # The factor has no getter; it is part of the pickled state.
        state: Any = op.__getstate__() if isinstance(op, dist.ReduceOp) else None
        if state is not None and state[1] is not None:
            return Reduction(SUM.number, SUM.name, state[1])
        raise InvalidArgument("PREMUL_SUM has no factor; make it with _make_nccl_premul_sum()")
    raise InvalidArgument(f"weft has no reduction {op}")
