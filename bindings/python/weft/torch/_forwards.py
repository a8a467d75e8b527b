"""What the distributed optimizers share that work when a model begins to compute."""

from __future__ import annotations

import weakref
from typing import Any, List

import torch

from weft.torch._graphs import keep_out
from weft.torch._optimizer import Distributed


class FollowsForwards(Distributed):
    """Calls on_forward(index) when a model begins to compute, in training and with gradients."""

    _forwards: List[int] = []  # of each model, since the last round

    def _register_hooks(self) -> None:
        self._attach()
        me = weakref.ref(self)
        self._forwards = [0] * len(self._models)
        for index, model in enumerate(self._models):
            hook = _ForwardHook(me, weakref.ref(model), index)
            self._removers.append(model.register_forward_pre_hook(hook))

    def _passes(self) -> int:
        return max(self._forwards)

    def _reset_forwards(self) -> None:
        self._forwards = [0] * len(self._models)

    def on_forward(self, index: int) -> None:
        """A model begins to compute."""
        self._forwards[index] += 1
        self._is_synchronized = False


class _ForwardHook:
    """Tells the optimizer that a model computes. Keeps neither alive."""

    def __init__(
        self,
        optimizer: "weakref.ref[FollowsForwards]",
        model: "weakref.ref[torch.nn.Module]",
        index: int,
    ) -> None:
        self._optimizer = optimizer
        self._model = model
        self._index = index

    def __call__(self, module: torch.nn.Module, inputs: Any) -> None:
        optimizer = self._optimizer()
        # A copy of the model has the same hook.
        if optimizer is None or module is not self._model():
            return
        if module.training and torch.is_grad_enabled():
            optimizer.on_forward(self._index)

    def __deepcopy__(self, memo: Any) -> "_ForwardHook":
        return self

    def __reduce__(self) -> Any:
        return _DeadHook, ()


keep_out([_ForwardHook.__call__])


class _DeadHook:
    """What a hook is in a pickled model."""

    def __call__(self, module: torch.nn.Module, inputs: Any) -> None:
        pass
