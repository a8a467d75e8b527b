"""A model whose training can be computed by hand, and what checks of optimizers do with it."""

from __future__ import annotations

from typing import Any, Callable

import torch
import weft.torch as bf
from torch import nn

COUNT = 24
RATE = 0.1


class Parabola(nn.Module):
    """(x - r)^2 / 2 at rank r, whose mean is least at the mean of the ranks."""

    def __init__(self, count: int = COUNT, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.full((count,), 5.0 - bf.rank(), dtype=dtype))

    def forward(self) -> torch.Tensor:
        return ((self.x - bf.rank()) ** 2).sum() / 2


def train(model: nn.Module, optimizer: Any, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        model().backward()
        optimizer.step()


def raises(kind: type, call: Callable[[], Any], *words: str) -> None:
    try:
        call()
    except kind as error:
        for word in words:
            assert word in str(error), (word, str(error))
        return
    raise AssertionError(f"no {kind.__name__}")
