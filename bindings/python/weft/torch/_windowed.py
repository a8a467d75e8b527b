"""The distributed optimizers that work through windows: the ranks do not wait for each other.

The parameters of one dtype lie side by side in a shared segment (_flat.py), and each such segment
is one window. Every optimizer has windows of its own, which are made with it.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, List, Mapping, Optional, Tuple

import torch

from weft import _core
from weft._errors import InvalidArgument
from weft._window import Window
from weft.torch import _job, _weights
from weft.torch._flat import Flat
from weft.torch._forwards import FollowsForwards
from weft.torch._optimizer import AdaptsFirst, Place
from weft.torch._weights import Targets, Weights


class Windowed(FollowsForwards):
    """Moves the parameters through windows, by weights that may change from round to round.

    Attributes:
        force_barrier: all ranks meet before a round ends, so that none uses old parameters.
    """

    _halves = 1
    _is_cut = False
    force_barrier: bool = False
    _prefix: Optional[str] = None
    _windows: Dict[Flat, Window] = {}
    _is_over = False

    def _register_hooks(self) -> None:
        super()._register_hooks()
        job = _job.current()
        job.optimizers += 1
        prefix = self._prefix if self._prefix is not None else f"optimizer {job.optimizers}"
        self._windows = {flat: self._open(flat, prefix) for flat in self._flats}

    def _open(self, flat: Flat, prefix: str) -> Window:
        """Makes the window of a segment. Collective."""
        raise NotImplementedError

    def _name(self, flat: Flat, prefix: str) -> str:
        return f"{prefix}: {str(flat.dtype)[len('torch.'):]}"

    def unregister_window(self) -> None:
        """Ends the optimizer's windows. Collective. Later steps raise RuntimeError."""
        for window in self._windows.values():
            _job.context().win_free(window.name)
        self._windows = {}
        self._is_over = bool(self._places)

    def _is_due(self) -> bool:
        if self._is_over:
            raise RuntimeError("unregister_window() has ended the windows of this optimizer")
        return super()._is_due()

    def on_forward(self, index: int) -> None:
        """A model begins to compute."""
        super().on_forward(index)
        if self._starts_early() and not self._started and self._passes() >= self._steps:
            for place in range(len(self._places)):
                self._make_ready(place)

    def _starts_early(self) -> bool:
        """Whether the works of a round start with forward()."""
        return bool(self._windows)

    def synchronize(self) -> None:
        """Combines the parameters now. The next step() does not do it again."""
        try:
            if self._windows:
                self._end_round()
                if self.force_barrier:
                    _job.barrier()
                for flat, window in self._windows.items():
                    self._combine(flat, window)
                    flat.mark_changed()
        finally:
            self._reset_forwards()
        self._is_synchronized = True

    def _combine(self, flat: Flat, window: Window) -> None:
        """Makes the parameters of what has come."""
        raise NotImplementedError


class Averaging(Windowed):
    """The window's tensor is the parameters themselves, which update() averages with the slots.

    Attributes:
        self_weight, neighbor_weights: as for win_update(), for the next round.
    """

    self_weight: Optional[float] = None
    neighbor_weights: Optional[Weights] = None

    def _open(self, flat: Flat, prefix: str) -> Window:
        return _job.context().win_create(flat.memory()[0], self._name(flat, prefix))

    def _combine(self, flat: Flat, window: Window) -> None:
        weights = _weights.by_rank("win_update", "neighbor_weights", self.neighbor_weights)
        window.update(self_weight=self.self_weight, src_weights=weights)


class WinPut(Averaging):
    """Puts the parameters into the slots of out-neighbors while the model computes.

    Attributes:
        dst_weights: as for win_put(), for the next round.
    """

    dst_weights: Optional[Targets] = None

    def _start(self, name: str, place: Place) -> _core.Handle:
        with torch.no_grad():
            place.flat.attach(place.bucket)
        targets = _weights.by_rank("win_put", "dst_weights", self.dst_weights)
        return self._windows[place.flat].put_start(
            dst_weights=targets, compression=self._compression
        )


class PullGet(Averaging):
    """Gets the parameters of in-neighbors while the model computes.

    A get is whole against updates, and by the mutex against the local step, which also changes the
    parameters.

    Attributes:
        src_weights: as for win_get(), for the next round.
    """

    src_weights: Optional[Targets] = None

    def _start(self, name: str, place: Place) -> _core.Handle:
        with torch.no_grad():
            place.flat.attach(place.bucket)
        sources = _weights.by_rank("win_get", "src_weights", self.src_weights)
        return self._windows[place.flat].get_start(src_weights=sources, require_mutex=True)

    def _step_locally(self, only: Any = None) -> None:
        with contextlib.ExitStack() as locks:
            for window in self._windows.values():
                locks.enter_context(window.lock())
            super()._step_locally(only)


class PushSum(AdaptsFirst, Windowed):
    """Stochastic gradient push: the window holds x with its weight p, the parameters are z = x / p.

    The step at z is applied to x, then a part of x and p moves to each out-neighbor. So nothing is
    lost or made, however unequally fast the ranks are.

    Attributes:
        self_weight, dst_weights: what this rank keeps and gives; their sum is 1. None: equal parts.
        force_barrier: True at first. Without it, the p of a rank that is ahead of the others is
            small, and the same step moves z by 1 / p of it. So a rank whose p is below 1 applies p
            of its step then.
    """

    force_barrier = True
    _halves = 3  # z, x, and z as it was after the last round

    # A rank that hears of nobody for long gives away all but nothing of x and p, until they cannot
    # be told from 0. Below this p it keeps what it has until something comes.
    _LEAST_P = 2.0**-10

    self_weight: Optional[float] = None
    dst_weights: Optional[Targets] = None

    def _open(self, flat: Flat, prefix: str) -> Window:
        z, x, before = flat.memory()
        x.copy_(z)
        before.copy_(z)
        window = _job.context().win_create(x, self._name(flat, prefix), zero_init=True)
        window.set_associated_p(True)
        return window

    def _starts_early(self) -> bool:
        return False

    def _start(self, name: str, place: Place) -> _core.Handle:
        flat = place.flat
        window = self._windows[flat]
        z, x, before = flat.memory()
        with torch.no_grad():
            flat.attach(place.bucket)
            share = 1.0 if self.force_barrier else min(1.0, window.associated_p())
            x.add_(z - before, alpha=share)
        self_weight, targets = self._shares(window)
        return window.accumulate_start(
            self_weight=self_weight, dst_weights=targets, compression=self._compression
        )

    def _shares(self, window: Window) -> Tuple[float, Dict[int, float]]:
        """What this rank keeps, and what it gives to each destination."""
        if window.associated_p() < self._LEAST_P:
            return 1.0, {}
        targets = _weights.by_rank("win_accumulate", "dst_weights", self.dst_weights)
        kept = None if self.self_weight is None else float(self.self_weight)
        if not isinstance(self.dst_weights, Mapping):  # ranks alone, in equal parts
            ranks = window.out_neighbors if targets is None else list(targets)
            given = 1.0 - (1.0 / (len(ranks) + 1) if kept is None else kept)
            targets = dict.fromkeys(ranks, given / max(len(ranks), 1))
        assert targets is not None
        given = sum(targets.values())
        self_weight = 1.0 - given if kept is None else kept
        if abs(self_weight + given - 1.0) > 1e-6:
            raise InvalidArgument(
                f"push-sum: self_weight {self_weight} and dst_weights, whose sum is {given}, must "
                "sum to 1"
            )
        return self_weight, targets

    def _combine(self, flat: Flat, window: Window) -> None:
        z, x, before = flat.memory()
        window.update_then_collect()
        with torch.no_grad():
            torch.div(x, window.associated_p(), out=z)
            before.copy_(z)
