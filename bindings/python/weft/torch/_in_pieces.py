"""The distributed optimizer whose gradients travel in pieces: weft.GradientExchange, while backward() computes."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch

from weft._core import bundle_layers
from weft._gradient_exchange import GradientExchange
from weft.torch import _job
from weft.torch._ending import OneModel
from weft.torch._flat import Bucket, Flat
from weft.torch._forwards import FollowsForwards
from weft.torch._gradients import FollowsGradients

_COLAYERS = 10  # unless there are fewer layers


class InPieces(OneModel, FollowsGradients, FollowsForwards):
    """Pushes the gradients of a colayer as soon as they are there. The step is that of their means."""

    _has = "exchange"
    _options: Dict[str, Any] = {}  # of the exchange
    _colayers: Optional[int] = None
    _exchange: Optional[GradientExchange] = None
    _has_begun = False  # the iteration
    _is_dropped = False  # the iteration that has ended last
    _is_pushed: List[bool] = []  # of this iteration, by colayer

    def _cut(self, flat: Flat) -> List[Bucket]:
        """The colayers."""
        firsts, kinds = _layers(self._models, self._flat)
        counts = [each.end - each.begin for each in flat.cut_at(firsts)]
        colayers = min(_COLAYERS, len(firsts)) if self._colayers is None else self._colayers
        of = bundle_layers(counts, colayers, kinds)
        return flat.cut_at([first for i, first in enumerate(firsts) if i == 0 or of[i] != of[i - 1]])

    def _register_hooks(self) -> None:
        model = self._flat.memory()[0]
        self._attach()
        colayers = [bucket.end - bucket.begin for _, bucket in self._places]
        self._exchange = GradientExchange(
            _job.context(), model, colayers, name=self._new_name(), **self._options
        )
        self._gradients = torch.zeros_like(model)
        self._means = torch.zeros_like(model)
        self._is_pushed = [False] * len(colayers)
        self._exchange.update(self._take_that_of_rank_0)
        FollowsForwards._register_hooks(self)
        FollowsGradients._register_hooks(self)

    def _works_early(self) -> bool:
        return not self._is_over

    def on_forward(self, index: int) -> None:
        """A model begins to compute."""
        super().on_forward(index)
        if not self._is_over:
            self._begin_iteration()

    def _begin_iteration(self) -> None:
        if self._exchange is not None and not self._has_begun:
            self._exchange.begin()
            self._has_begun = True
            self._is_dropped = False

    def _finish(self, index: int) -> None:
        """Pushes a colayer."""
        assert self._exchange is not None
        self._begin_iteration()
        flat, bucket = self._places[index]
        flat.copy_gradients(self._gradients, bucket.members)
        self._exchange.push(index, self._gradients[bucket.begin : bucket.end])
        self._is_pushed[index] = True

    def synchronize(self) -> None:
        """Ends the iteration. The gradients become the means; those that no backward() has made count as 0.

        A step() that follows does not end another one. If the iteration was dropped, the parameters are those
        of the fastest rank, and step() does not change them.
        """
        if self._exchange is not None:
            self._begin_iteration()
            self._attach()
            for index, is_pushed in enumerate(self._is_pushed):
                if not is_pushed:
                    self._finish(index)
            self._is_dropped = self._exchange.end_iteration(self._means).is_dropped
            self._has_begun = False
            self._is_pushed = [False] * len(self._places)
            self._reset_counts()
            self._flat.mark_changed()
            for view, parameter in zip(self._flat.views_of(self._means), self._flat.parameters):
                parameter.grad = view
        self._is_synchronized = True

    def _step_locally(self, only: Any = None) -> None:
        step = super()._step_locally
        if self._exchange is None:
            step(only)
        elif not self._is_dropped:
            self._exchange.update(lambda: step(only))  # the others see the model as it is afterwards

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradients. Raises RuntimeError while they travel."""
        if any(self._is_pushed):
            raise RuntimeError(
                "zero_grad() was called between backward() and step(), while gradients travel"
            )
        base: Any = super()
        base.zero_grad(set_to_none)

    def counts(self) -> Dict[str, int]:
        """What weft.GradientExchange.counts() has."""
        return {} if self._exchange is None else self._exchange.counts()

    def end(self) -> None:
        """Frees the exchange. Collective. Later steps raise RuntimeError."""
        if self._exchange is not None:
            self._exchange.end()
        self._is_over = True


def _layers(models: List[torch.nn.Module], flat: Flat) -> "tuple[List[int], List[int]]":
    """The first parameter of each layer of a segment, and what kind of module the layer is."""
    owners = {
        id(parameter): module
        for model in models
        for module in model.modules()
        for parameter in module.parameters(recurse=False)
    }
    known: Dict[type, int] = {}
    firsts: List[int] = []
    kinds: List[int] = []
    last: Optional[torch.nn.Module] = None
    for number, parameter in enumerate(flat.parameters):
        owner = owners[id(parameter)]
        if owner is not last:
            firsts.append(number)
            kinds.append(known.setdefault(type(owner), len(known)))
        last = owner
    return firsts, kinds
