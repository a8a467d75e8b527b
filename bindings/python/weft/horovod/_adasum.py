"""Adasum: a sum of tensors that counts what they have in common once.

Of two tensors it is (1 - a·b / 2|a|²) a + (1 - a·b / 2|b|²) b: their sum if they are orthogonal, and
their mean if they are equal. Of 2^k ranks it is the Adasum of those of their two halves. (Maleki et
al., Scaling Distributed Training with Adaptive Summation, MLSys 2021, section 3.)
"""

from __future__ import annotations

from typing import List, Sequence

import torch

from weft._core import Handle
from weft.horovod._teams import Team
from weft.torch._devices import Place
from weft.torch._staged import Staged, start

Adasum = "adasum"

_SMALLEST = 1.5e-154  # whose square is a normal number of float64: shorter tensors are only added


class Reduced:
    """The Adasum of some tensors, in place, which has started.

    In stage k each rank exchanges its tensors with the rank whose number differs in bit k, so 2^k
    ranks have the same tensors after it. Both compute the same.
    """

    def __init__(self, team: Team, title: str, tensors: Sequence[torch.Tensor]) -> None:
        if team.size & (team.size - 1) != 0:
            raise NotImplementedError(f"Adasum of {team.size} ranks, which are no power of two")
        for each in tensors:
            if not each.is_floating_point():
                raise TypeError(f"{title}: Adasum of {each.dtype}, which is no floating type")
        self._team, self._title, self._mine = team, title, list(tensors)
        self._theirs = [torch.empty_like(each) for each in tensors]
        self._place = Place(tensors[0])
        distances = [1 << bit for bit in range(team.size.bit_length() - 1)]
        moves = [lambda last=last: self._next(last) for last in distances]
        first = self._exchange(distances[0]) if distances else []
        self._staged = start(Staged(first, *moves, is_by_name=True))

    def _next(self, last: int) -> List[Handle]:
        """Adds what was exchanged at the last distance, and goes on with twice that."""
        with self._place.stream():
            is_lower = self._team.rank & last == 0
            for mine, theirs in zip(self._mine, self._theirs):
                pair = (mine, theirs) if is_lower else (theirs, mine)
                mine.copy_(_of_two(*pair))
            return self._exchange(2 * last) if 2 * last < self._team.size else []

    def _exchange(self, distance: int) -> List[Handle]:
        """Sends the tensors to the rank at this distance, and receives its ones."""
        rank, peer = self._team.rank, self._team.rank ^ distance
        started = []
        for place, (mine, theirs) in enumerate(zip(self._mine, self._theirs)):
            title = f"{self._title}.{place}.of"
            started.append(self._team.by_name(f"{title}.{rank}").send_start(mine, peer))
            started.append(self._team.by_name(f"{title}.{peer}").recv_start(theirs, peer))
        return started

    def test(self) -> bool:
        """Whether it is done. Does not wait."""
        return self._staged.test()

    def wait(self) -> None:
        """Waits until it is done."""
        self._staged.wait()


def _of_two(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    x, y = a.double().flatten(), b.double().flatten()
    half = torch.dot(x, y) / 2
    return ((1 - _ratio(half, x)) * x + (1 - _ratio(half, y)) * y).view_as(a)


def _ratio(half: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """half / |x|², and 0 for a tensor whose square is no normal number."""
    square = torch.dot(x, x)
    return torch.where(square > _SMALLEST, half / square, 0.0)
