"""The distributed optimizers that work as soon as a gradient is there."""

from __future__ import annotations

import weakref
from typing import Any, Dict, List

import torch

from weft import _core
from weft.torch._flat import check_gradient
from weft.torch._optimizer import Distributed, Place

_ALLREDUCE = int(_core.Collective.allreduce)
_AVERAGE = int(_core.ReduceOp.average)


class FollowsGradients(Distributed):
    """Calls _finish(index) for each bucket when backward() has made all its gradients."""

    # By bucket: passes of backward() that gave each parameter a gradient since the last round.
    _counts: List[Dict[int, int]] = []

    def _register_hooks(self) -> None:
        me = weakref.ref(self)
        self._counts = []
        for index, place in enumerate(self._places):
            self._counts.append(dict.fromkeys(place.bucket.members, 0))
            for number in place.bucket.members:
                parameter: Any = place.flat.parameters[number]
                hook = _GradientHook(me, index, number)
                self._removers.append(parameter.register_post_accumulate_grad_hook(hook))

    def _passes(self) -> int:
        return max(max(counts.values()) for counts in self._counts)

    def _reset_counts(self) -> None:
        for counts in self._counts:
            for number in counts:
                counts[number] = 0

    def on_gradient(self, index: int, number: int) -> None:
        """A parameter's gradient is complete for this pass."""
        self._is_synchronized = False
        if not self._works_early():
            self._counts[index][number] += 1
            return
        counts = self._counts[index]
        if counts[number] >= self._steps:
            raise RuntimeError(
                f"backward() was called more often than num_steps_per_communication={self._steps} "
                "since the last step() that communicates; the gradients of the first calls are in "
                "use already"
            )
        counts[number] += 1
        if counts[number] == self._steps and min(counts.values()) == self._steps:
            self._finish(index)

    def _works_early(self) -> bool:
        return True

    def _finish(self, index: int) -> None:
        raise NotImplementedError


class _GradientHook:
    """Tells the optimizer of a gradient. Keeps no optimizer alive."""

    def __init__(self, optimizer: "weakref.ref[FollowsGradients]", index: int, number: int) -> None:
        self._optimizer = optimizer
        self._index = index
        self._number = number

    def __call__(self, parameter: torch.Tensor) -> None:
        optimizer = self._optimizer()
        if optimizer is not None:
            optimizer.on_gradient(self._index, self._number)


class GradientAllreduce(FollowsGradients):
    """Averages the gradients, in place in a shared segment, while backward() makes more of them."""

    _halves = 1

    def _finish(self, index: int) -> None:
        self._collect(self._places[index])
        self._make_ready(index)

    def _collect(self, place: Place) -> None:
        """Makes the bucket's gradients views of the segment. A missing gradient counts as zeros."""
        with torch.no_grad():
            for number in place.bucket.members:
                parameter, view = place.flat.parameters[number], place.flat.view(number)
                gradient = parameter.grad
                if gradient is None:
                    view.zero_()
                elif gradient.data_ptr() == view.data_ptr() and gradient.is_contiguous():
                    continue
                else:
                    check_gradient(gradient)
                    view.copy_(gradient)
                parameter.grad = view

    def _start(self, name: str, place: Place) -> _core.Handle:
        flat, bucket = place
        count = bucket.end - bucket.begin
        address = flat.address_now(bucket)
        memory = (address, count, address, count)
        return self._submit(name, _ALLREDUCE, memory, flat, op=_AVERAGE)

    def synchronize(self) -> None:
        """Waits until all gradients are averages. Those that no backward() has made count as 0.

        A step() that follows does not average them again. Without one the gradients are dropped.
        """
        for index, is_ready in enumerate(self._ready):
            if not is_ready:
                self._collect(self._places[index])
        try:
            self._end_round()
        finally:
            self._reset_counts()
        self._is_synchronized = True

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradients. Raises RuntimeError while they are being averaged."""
        if self._started:
            raise RuntimeError(
                "zero_grad() was called between backward() and step(), while gradients are averaged"
            )
        self._is_synchronized = False
        base: Any = super()
        base.zero_grad(set_to_none)
