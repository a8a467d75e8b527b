"""Rows that ranks send each other, for which they tell first how many there are."""

from __future__ import annotations

from typing import Callable, List

import torch

from weft._core import Handle
from weft.torch._devices import Place
from weft.torch._staged import Staged, start

Tensors = List[torch.Tensor]


class Rows:
    """Rows of some tensors, which travel once the ranks have told each other how many there are."""

    def __init__(
        self,
        xs: Tensors,
        counts: torch.Tensor,
        told: Handle,
        travel: Callable[[Tensors, List[List[int]]], Handle],
    ) -> None:
        """counts: rows that this rank gets of tensor k from rank r: counts[r, k], once `told` is done.

        travel: starts the operation that writes these rows to its tensors.
        """
        self.counts = counts
        self._xs, self._place, self._travel = xs, Place(xs[0]), travel
        self._ys: Tensors = []
        self._staged = start(Staged([told], self._move, is_by_name=True))

    def _move(self) -> List[Handle]:
        rows: List[List[int]] = self.counts.t().tolist()
        with self._place.stream():
            self._ys = [
                x.new_empty((sum(each), *x.shape[1:])) for x, each in zip(self._xs, rows)
            ]
            return [self._travel(self._ys, rows)]

    def test(self) -> bool:
        """Whether all is done. Does not wait."""
        return self._staged.test()

    def wait(self) -> None:
        """Waits until all is done."""
        self._staged.wait()

    def results(self) -> Tensors:
        """The rows of all ranks, one after another."""
        return self._ys
