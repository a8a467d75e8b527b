"""The distributed optimizers that combine the parameters of the ranks."""

from __future__ import annotations

from enum import Enum
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

import torch

from weft import _core
from weft.torch import _calls, _weights, ops
from weft.torch._forwards import FollowsForwards
from weft.torch._gradients import FollowsGradients
from weft.torch._optimizer import Closure, Distributed, Place, evaluated
from weft.torch._weights import MACHINES, NEIGHBORS, Targets, Weights

_ALLREDUCE = int(_core.Collective.allreduce)
_NEIGHBOR = int(_core.Collective.neighbor_allreduce)
_HIERARCHICAL = int(_core.Collective.hierarchical_neighbor_allreduce)
_AVERAGE = int(_core.ReduceOp.average)

StepFunction = Callable[[Any, torch.Tensor, torch.Tensor, Dict[str, Any]], None]


class CommunicationType(Enum):
    """How a distributed optimizer combines the parameters of the ranks."""

    neighbor_allreduce = "neighbor.allreduce"
    hierarchical_neighbor_allreduce = "hierarchical.neighbor.allreduce"
    allreduce = "allreduce"
    empty = "empty"  # not at all: each rank trains alone


class Combining(Distributed):
    """Exchanges parameters with weights that may change from round to round.

    Attributes:
        self_weight, src_weights, dst_weights: as for neighbor_allreduce(), for the next round.
        src_machine_weights, dst_machine_weights: as for hierarchical_neighbor_allreduce().
        enable_topo_check: with dst_weights, whether all ranks compare their edges first.
    """

    self_weight: Optional[float] = None
    src_weights: Optional[Weights] = None
    dst_weights: Optional[Targets] = None
    src_machine_weights: Optional[Weights] = None
    dst_machine_weights: Optional[Targets] = None
    enable_topo_check: bool = False
    _type = CommunicationType.neighbor_allreduce
    _call: Optional[Tuple[int, Dict[str, Any]]] = None  # of this round: operation and options

    @property
    def communication_type(self) -> CommunicationType:
        """How the ranks combine their parameters, from the next round on."""
        return self._type

    @communication_type.setter
    def communication_type(self, value: CommunicationType) -> None:
        if not isinstance(value, CommunicationType):
            raise TypeError(f"communication_type: expected a CommunicationType, not {value!r}")
        self._type = value

    def _communicates(self) -> bool:
        return self._call is not None or self._type is not CommunicationType.empty

    def _start(self, name: str, place: Place) -> _core.Handle:
        if self._call is None:
            self._call = self._next_call()
        kind, options = self._call
        flat, bucket = place
        with torch.no_grad():
            flat.attach(bucket)
        count = bucket.end - bucket.begin
        memory = (flat.address_now(bucket), count, flat.address_next(bucket), count)
        return self._submit(name, kind, memory, flat, **options)

    def _next_call(self) -> Tuple[int, Dict[str, Any]]:
        """The operation of a round with its arguments, as the attributes are now."""
        if self._type is CommunicationType.allreduce:
            return _ALLREDUCE, {"op": _AVERAGE}
        if self._type is CommunicationType.hierarchical_neighbor_allreduce:
            by_machine = (self.self_weight, self.src_machine_weights, self.dst_machine_weights)
            options = _weights.options(MACHINES, *by_machine)
            if "destinations" not in options:
                ops.check_machine_topology()
            return _HIERARCHICAL, options
        by_rank = (self.self_weight, self.src_weights, self.dst_weights)
        options = _weights.options(NEIGHBORS, *by_rank)
        if self.enable_topo_check and "destinations" in options:
            _calls.compare_edges(NEIGHBORS, options)
        return _NEIGHBOR, options

    def _combine(self) -> None:
        """Ends the round: the parameters become what the exchange has given."""
        try:
            self._end_round()
        finally:
            self._call = None
        for flat in self._flats:
            flat.turn()


class AdaptWithCombine(FollowsForwards, Combining):
    """Exchanges the parameters while the model computes; step() combines, then adapts."""

    _is_cut = False  # the first forward() starts all of it

    def on_forward(self, index: int) -> None:
        """A model begins to compute."""
        super().on_forward(index)
        if not self._started and self._passes() >= self._steps and self._communicates():
            for place in range(len(self._places)):
                self._make_ready(place)

    def synchronize(self) -> None:
        """Combines the parameters now. The next step() does not do it again."""
        try:
            if self._places and self._communicates():
                self._combine()
        finally:
            self._reset_forwards()
        self._is_synchronized = True


class AdaptThenCombine(Combining, FollowsGradients):
    """Adapts each bucket as soon as it has its gradients, and exchanges it while others compute."""

    _step_function: Optional[StepFunction] = None
    _adapted: List[bool] = []  # the buckets whose local step of this round is done

    def _register_hooks(self) -> None:
        self._attach()
        super()._register_hooks()
        self._adapted = [False] * len(self._places)

    def register_step_function(self, step_func: StepFunction) -> None:
        """Adapts each parameter by step_func(optimizer, parameter, gradient, group).

        Without it, the wrapped optimizer's own step is used, on some of the parameters at a time.
        """
        self._step_function = step_func

    def _works_early(self) -> bool:
        return self._communicates()

    def _finish(self, index: int) -> None:
        self._adapt([index])
        self._make_ready(index)

    def _adapt(self, indexes: List[int]) -> None:
        """The local step of these buckets."""
        members: Set[int] = set()
        for index in indexes:
            self._adapted[index] = True
            flat, bucket = self._places[index]
            members.update(id(flat.parameters[number]) for number in bucket.members)
        if self._step_function is None:
            self._step_locally(members)
            return
        for group in self.param_groups:
            for each in group["params"]:
                if id(each) in members and each.grad is not None:
                    with torch.no_grad():
                        self._step_function(self, each, each.grad, group)

    def _adapt_rest(self) -> None:
        self._adapt([index for index, done in enumerate(self._adapted) if not done])

    def synchronize(self) -> None:
        """Adapts what has not been adapted, and combines. The next step() does neither again."""
        if not self._places:
            return  # alone; step() adapts
        try:
            self._adapt_rest()
            if self._communicates():
                self._combine()
        finally:
            self._adapted = [False] * len(self._places)
            self._reset_counts()
        self._is_synchronized = True

    def step(self, closure: Closure = None) -> Any:
        """One step of the optimizer, then the communication that is due.

        closure: computes the loss and its gradients, once; the result of step() is the loss.
        """
        loss = evaluated(closure)
        if self._is_due():
            self.synchronize()
        elif not self._is_synchronized:
            if self._places and (any(self._adapted) or self._step_function is not None):
                self._adapt_rest()
                self._adapted = [index in self._started for index in range(len(self._places))]
            else:
                self._step_locally()
        self._is_synchronized = False
        return loss
