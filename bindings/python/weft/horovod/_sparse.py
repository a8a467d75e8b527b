"""Sums of sparse tensors, whose entries all ranks gather."""

from __future__ import annotations

from typing import Optional

import torch

from weft.horovod._allgather import move_rows, tell_rows
from weft.horovod._process_sets import ProcessSet, team_of
from weft.horovod._reductions import Average, Sum
from weft.horovod._teams import Team


class SparseHandle:
    """A started sparse_allreduce_async(). Calling it waits and gives the result, as Horovod's."""

    def __init__(self, tensor: torch.Tensor, name: str, op: str, team: Team) -> None:
        """The ranks tell how many entries they have under the name of a dense allreduce.

        So a rank whose tensor is dense is an error at once.
        """
        given = tensor.detach().coalesce()
        self._divisor = team.size if op == Average else 1
        self._like = given
        counts, told = tell_rows([given.values()], team, team.title("allreduce", name))
        where = given.indices().t().contiguous()
        self._places = move_rows(where, team, f"sparse.indices.{name}", counts, told)
        self._values = move_rows(given.values(), team, f"sparse.values.{name}", counts, told)

    def test(self) -> bool:
        """Whether it is done. Does not wait."""
        return self._places.test() and self._values.test()

    def __call__(self) -> torch.Tensor:
        self._places.wait()
        self._values.wait()
        entries = self._values.results()[0] / self._divisor
        all_ = torch.sparse_coo_tensor(
            self._places.results()[0].t(),
            entries.to(self._like.dtype),
            self._like.size(),
            check_invariants=False,
        )
        return all_.coalesce()


def sparse_allreduce_async(
    tensor: torch.Tensor, name: str, op: str, process_set: Optional[ProcessSet] = None
) -> SparseHandle:
    """Starts the sum or the average of sparse tensors. Calling what it returns gives the result."""
    if op not in (Sum, Average):
        raise NotImplementedError(f"sparse_allreduce_async: {op} of sparse tensors")
    return SparseHandle(tensor, name, op, team_of(process_set))
