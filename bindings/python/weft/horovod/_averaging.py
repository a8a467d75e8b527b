"""Averaging: gradients that are reduced over all ranks while backward() makes others."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

import torch

from weft._core import ErrorFeedback
from weft._errors import Error, Mismatch
from weft.horovod._allreduce import reduce_in_place
from weft.horovod._buckets import Groups, cut, names_of, parameters_of
from weft.horovod._compression import CompressorLike, encoding_of
from weft.horovod._handles import synchronize
from weft.horovod._objects import Parameters
from weft.horovod._process_sets import ProcessSet, team_of
from weft.horovod._reductions import Average
from weft.horovod._sparse import sparse_allreduce_async
from weft.horovod._teams import Team


class Options(NamedTuple):
    """How gradients travel."""

    op: str
    compression: CompressorLike
    process_set: Optional[ProcessSet]
    sparse_as_dense: bool
    has_feedback: bool  # what compression takes from a gradient is added to the next one
    predivide: float  # with an average: the factor by which gradients are divided beforehand

    def factors(self) -> Tuple[float, float]:
        """Of the gradient before it is reduced, and of the result."""
        return (1.0, 1.0) if self.op != Average else (1.0 / self.predivide, self.predivide)


class _Started(NamedTuple):
    wait: Callable[[], Any]  # returns the result
    finish: Callable[[Any], None]  # takes it
    may_be_sparse: bool = False  # of one parameter, whose gradient is sparse or was not made here


class Averaging:
    """Mixed with an optimizer's class: averages gradients as soon as backward() has made them."""

    _base: Any
    param_groups: List[Dict[str, Any]]

    def _begin(
        self,
        named_parameters: Optional[Parameters],
        backward_passes_per_step: int,
        options: Options,
        groups: Groups,
    ) -> None:
        mine = parameters_of(self.param_groups)
        names = self._parameter_names = names_of(mine, named_parameters)
        self._passes = backward_passes_per_step
        self._options = options
        self._buckets = cut([(names[each], each) for each in mine], groups)
        self._bucket_of = {
            id(each): place
            for place, bucket in enumerate(self._buckets)
            for each in bucket.parameters
        }
        self._feedbacks = {
            place: [ErrorFeedback() for _ in bucket.parameters]
            for place, bucket in enumerate(self._buckets)
            if options.has_feedback
        }
        self._counts: Dict[int, int] = {}
        self._started: Dict[int, _Started] = {}  # by bucket
        self._sparse: Set[int] = set()  # buckets of gradients that are sparse on some rank
        self._densified: Dict[torch.Tensor, int] = {}  # dimensions of gradients that were sparse
        self._is_synchronized = False
        self._skips = False  # step() does not synchronize
        for each in mine:
            parameter: Any = each
            parameter.register_post_accumulate_grad_hook(self._on_gradient)

    def _team(self) -> Optional[Team]:
        """The ranks that average gradients; None if this rank is not one of them, or is alone.

        They change when the job begins anew (hvd.elastic).
        """
        chosen = self._options.process_set
        if chosen is not None and not chosen.included():
            return None
        team = team_of(chosen)
        return team if team.size > 1 else None

    def _on_gradient(self, parameter: torch.Tensor) -> None:
        if self._team() is None:
            return
        count = self._counts.get(id(parameter), 0) + 1
        if count > self._passes:
            raise RuntimeError(
                "backward() was called more often than backward_passes_per_step="
                f"{self._passes} since the last step()"
            )
        self._counts[id(parameter)] = count
        self._is_synchronized = False
        bucket = self._bucket_of[id(parameter)]
        members = self._buckets[bucket].parameters
        if all(self._counts.get(id(each), 0) == self._passes for each in members):
            self._start(bucket)

    def _start(self, bucket: int) -> None:
        name, members = self._buckets[bucket]
        may_be_sparse = len(members) == 1 and members[0].grad is None
        with torch.no_grad():
            gradients = [self._gradient(each, bucket in self._sparse) for each in members]
            if any(each.is_sparse for each in gradients):
                self._sparse.add(bucket)
                self._started[bucket] = self._start_sparse(name, members, gradients)
            else:
                started = self._start_dense(name, gradients, self._feedbacks.get(bucket))
                self._started[bucket] = started._replace(may_be_sparse=may_be_sparse)

    def _gradient(self, parameter: torch.Tensor, is_sparse: bool) -> torch.Tensor:
        gradient = parameter.grad
        if gradient is None:
            gradient = _no_rows_of(parameter) if is_sparse else torch.zeros_like(parameter)
        if gradient.is_sparse and self._options.sparse_as_dense:
            self._densified[parameter] = gradient.sparse_dim()
            gradient = gradient.to_dense()
        parameter.grad = gradient if gradient.is_sparse else gradient.contiguous()
        return parameter.grad

    def _start_dense(
        self,
        name: str,
        gradients: List[torch.Tensor],
        feedbacks: Optional[List[ErrorFeedback]],
    ) -> _Started:
        options = self._options
        moved = [options.compression.compress(each) for each in gradients]
        xs = [each for each, _ in moved]
        encoding = encoding_of(options.compression)
        handle = reduce_in_place(
            team_of(options.process_set), xs, name, options.op, encoding, options.factors(), feedbacks
        )

        def finish(_: Any) -> None:
            for gradient, (result, facts) in zip(gradients, moved):
                whole = options.compression.decompress(result, facts)
                if whole is not gradient:
                    gradient.copy_(whole)

        return _Started(lambda: synchronize(handle), finish)

    def _start_sparse(
        self, name: str, members: List[torch.Tensor], gradients: List[torch.Tensor]
    ) -> _Started:
        if len(members) > 1:
            raise ValueError(f"{name}: sparse gradients in a group need sparse_as_dense=True")

        def finish(result: Any) -> None:
            members[0].grad = result

        options = self._options
        handle = sparse_allreduce_async(gradients[0], name, options.op, options.process_set)
        return _Started(handle, finish, may_be_sparse=True)

    def synchronize(self) -> None:
        """Waits until all gradients are reduced. Those that no backward() has made count as 0.

        A step() that follows does not reduce them again. Without one the gradients are dropped.
        """
        if self._team() is not None:
            for bucket in range(len(self._buckets)):
                if bucket not in self._started:
                    self._start(bucket)
        self._finish()
        self._is_synchronized = True

    def _finish(self) -> None:
        """Waits for what has been started, and begins anew."""
        self._counts.clear()
        # Of these some ranks had sparse gradients, and others, which had none, gave dense zeros.
        # All of them start again.
        for bucket in self._wait():
            self._sparse.add(bucket)
            parameter = self._buckets[bucket].parameters[0]
            if parameter.grad is not None and not parameter.grad.is_sparse:
                parameter.grad = None
            self._start(bucket)
        self._wait(is_last=True)

    def _wait(self, is_last: bool = False) -> List[int]:
        """Returns the buckets of which ranks disagree whether the gradient is sparse."""
        started, self._started = self._started, {}
        unclear = []
        with torch.no_grad():
            for bucket, each in started.items():
                try:
                    result = each.wait()
                except Mismatch:
                    if is_last or not each.may_be_sparse:
                        raise
                    unclear.append(bucket)
                else:
                    each.finish(result)
        for parameter, dimensions in self._densified.items():
            assert parameter.grad is not None
            parameter.grad = parameter.grad.to_sparse(dimensions)
        self._densified.clear()
        return unclear

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """A context in which step() uses the gradients as they are, after synchronize()."""
        self._skips = True
        try:
            yield
        finally:
            self._skips = False

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many passes add up from now on before gradients are reduced."""
        if passes < 1:
            raise ValueError("backward_passes_per_step must be positive")
        self._passes = passes
        self._counts.clear()

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """As that of the optimizer. Gradients that are being reduced are dropped."""
        self._drop()
        self._is_synchronized = False
        base: Any = super()
        base.load_state_dict(state_dict)

    def _drop(self) -> None:
        """Waits until nothing that was started uses the gradients, also if their job has failed."""
        started, self._started = self._started, {}
        for each in started.values():
            with contextlib.suppress(Error, ValueError):  # ValueError: of a job that has been left
                each.wait()
        self._counts.clear()
        self._densified.clear()

    def step(self, closure: Any = None) -> Any:
        """One step of the optimizer, on the reduced gradients."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if self._is_synchronized and not self._skips:
            warnings.warn(
                "optimizer.step() called without optimizer.skip_synchronize() context after "
                "optimizer.synchronize(); the gradients are not reduced again"
            )
        elif not self._skips:
            self.synchronize()
        self._is_synchronized = False
        self._base.step(self)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears the gradients. Raises RuntimeError while they are being reduced."""
        if self._started:
            raise RuntimeError(
                "zero_grad() was called between backward() and step(), while gradients are reduced"
            )
        self._is_synchronized = False
        base: Any = super()
        base.zero_grad(set_to_none)


def _no_rows_of(parameter: torch.Tensor) -> torch.Tensor:
    """A sparse gradient without entries, as that of a row of an embedding."""
    nowhere = torch.empty((1, 0), dtype=torch.int64, device=parameter.device)
    return torch.sparse_coo_tensor(
        nowhere, parameter.new_empty((0, *parameter.shape[1:])), parameter.shape
    )
