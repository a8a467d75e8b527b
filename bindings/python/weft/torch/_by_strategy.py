"""The distributed optimizers that train by a strategy of weft.Strategy.

The parameters of one dtype lie side by side in a shared segment (_flat.py), which is the model of one
strategy. A strategy takes the gradient steps itself, or another optimizer has changed the model before
and the strategy's gradient is 0.
"""

from __future__ import annotations

from typing import Any, Dict, List

import torch

from weft._strategies import Strategy
from weft.torch import _job
from weft.torch._ending import Ending
from weft.torch._flat import Flat
from weft.torch._forwards import FollowsForwards
from weft.torch._optimizer import Closure, evaluated


class ByStrategy(Ending):
    """Has a strategy for each segment, and moves nothing by itself."""

    _has = "strategy"
    _strategy = ""  # its name
    _options: Dict[str, Any] = {}  # of the strategy
    _strategies: Dict[Flat, Strategy] = {}
    _gradients: Dict[Flat, torch.Tensor] = {}  # of the shape of the segment, 0 at first

    def _register_hooks(self) -> None:
        if self._strategy in ("prague", "prague:random"):
            # A rank in a group of one type would wait for one that is in a group of the other, and waits for it.
            self._check_one_type()
        self._attach()
        job, prefix = _job.current(), self._new_name()
        self._strategies = {}
        self._gradients = {}
        for flat in self._flats:
            model = flat.memory()[0]
            self._strategies[flat] = Strategy(
                job.context,
                self._strategy,
                model,
                compression=self._compression,
                window_name=f"{prefix}: {str(flat.dtype)[len('torch.'):]}",
                **self._options,
            )
            self._gradients[flat] = torch.zeros_like(model)

    def synchronize(self) -> None:
        """Takes a step of the strategy."""
        self._attach()
        for flat, strategy in self._strategies.items():
            strategy.step(self._gradients[flat])
            flat.mark_changed()

    def counts(self) -> Dict[str, int]:
        """The steps of the strategy, the bytes that this rank has sent, and gradients in no model."""
        found: List[Dict[str, int]] = [each.counts() for each in self._strategies.values()]
        return {
            "steps": max((each["steps"] for each in found), default=0),
            "bytes": sum(each["bytes"] for each in found),
            "dropped": sum(each["dropped"] for each in found),
        }

    def end(self) -> None:
        """Takes what is under way, and frees the strategy. Collective. Later steps raise RuntimeError."""
        self._attach()
        for flat, strategy in self._strategies.items():
            strategy.end()
            flat.mark_changed()
        self._is_over = True


class Sections(ByStrategy):
    """Another optimizer takes the steps of a section, and the strategy makes one model of all."""

    _taken = 0  # steps of this section

    def _passes(self) -> int:
        return self._taken

    def step(self, closure: Closure = None) -> Any:
        """One step of the optimizer; after the last one of a section, that of all ranks.

        closure: computes the loss and its gradients, once; the result of step() is the loss.
        """
        loss = evaluated(closure)
        self._is_due()  # raises where there is no strategy any more
        self._step_locally()
        self._taken += 1
        if self._is_due():
            self.synchronize()
        return loss

    def synchronize(self) -> None:
        """Ends the section now."""
        super().synchronize()
        self._taken = 0

    def end(self) -> None:
        """Ends the section, and frees the strategy. Collective. Later steps raise RuntimeError."""
        if self._taken > 0:
            self.synchronize()
        super().end()


class GradientSteps(torch.optim.Optimizer):
    """The parameters and the rate of an optimizer whose steps a strategy takes."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, {"lr": lr})


class AllSteps(ByStrategy, FollowsForwards):
    """The strategy takes all steps. What can travel beside the computation starts with forward()."""

    _has_begun = False

    def _register_hooks(self) -> None:
        self._lr = self._options["rate"]
        ByStrategy._register_hooks(self)
        FollowsForwards._register_hooks(self)

    def on_forward(self, index: int) -> None:
        """A model begins to compute."""
        super().on_forward(index)
        if not self._has_begun and not self._is_over:
            self._attach()
            for strategy in self._strategies.values():
                strategy.begin()
            self._has_begun = True

    def step(self, closure: Closure = None) -> Any:
        """One step of the strategy.

        closure: computes the loss and its gradients, once; the result of step() is the loss.
        """
        loss = evaluated(closure)
        if self._is_due():
            self.synchronize()
        return loss

    def synchronize(self) -> None:
        """Takes a step of the strategy, with the gradients and the rate as they are."""
        lr = self.param_groups[0]["lr"]
        for flat, strategy in self._strategies.items():
            if lr != self._lr:
                strategy.set_rate(lr)
            flat.copy_gradients(self._gradients[flat], range(len(flat.parameters)))
        self._lr = lr
        super().synchronize()
        self._has_begun = False
