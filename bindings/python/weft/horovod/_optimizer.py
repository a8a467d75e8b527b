"""DistributedOptimizer: gradients that are reduced over all ranks while backward() makes others."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple
from typing import Type, Union

import torch

from weft._core import ErrorFeedback
from weft._errors import Mismatch
from weft.horovod import _exchanges, _ops
from weft.horovod._compression import Compression, Compressor
from weft.horovod._objects import Parameters
from weft.horovod._ops import Average, ProcessSet, check_process_set
from weft.horovod._state import size, synchronize

Groups = Union[None, int, Sequence[Sequence[torch.Tensor]]]


class _Options(NamedTuple):
    """How gradients travel."""

    op: str
    compression: Type[Compressor]
    sparse_as_dense: bool
    has_feedback: bool  # what compression takes from a gradient is added to the next one
    predivide: float  # with an average: the factor by which gradients are divided beforehand

    def factors(self) -> Tuple[float, float]:
        """Of the gradient before it is reduced, and of the result."""
        return (1.0, 1.0) if self.op != Average else (1.0 / self.predivide, self.predivide)


class _Started(NamedTuple):
    handle: int
    finish: Callable[[Any], None]  # takes the result
    may_be_sparse: bool = False  # of one parameter, whose gradient is sparse or was not made here


class _Bucket(NamedTuple):
    name: str
    parameters: List[torch.Tensor]


class _Distributed:
    """Mixed with an optimizer's class: averages gradients as soon as backward() has made them."""

    _base: Any
    param_groups: List[Dict[str, Any]]

    def _begin(
        self,
        named_parameters: Optional[Parameters],
        backward_passes_per_step: int,
        options: _Options,
        groups: Groups,
    ) -> None:
        mine = [each for group in self.param_groups for each in group["params"]]
        mine = [each for each in mine if each.requires_grad]
        names = _names_of(mine, named_parameters)
        self._passes = backward_passes_per_step
        self._options = options
        self._buckets = _cut([(names[id(each)], each) for each in mine], groups)
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
        self._is_synchronized = False
        self._skips = False  # step() does not synchronize
        if size() > 1:
            for each in mine:
                parameter: Any = each
                parameter.register_post_accumulate_grad_hook(self._on_gradient)

    def _on_gradient(self, parameter: torch.Tensor) -> None:
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
        moved = [options.compression.compress(each)[0] for each in gradients]
        encoding = options.compression.encoding
        handle = _ops.reduce_in_place(
            moved, name, options.op, encoding, options.factors(), feedbacks
        )

        def finish(_: Any) -> None:
            for gradient, result in zip(gradients, moved):
                if result is not gradient:
                    gradient.copy_(options.compression.decompress(result, gradient.dtype))

        return _Started(handle, finish)

    def _start_sparse(
        self, name: str, members: List[torch.Tensor], gradients: List[torch.Tensor]
    ) -> _Started:
        if len(members) > 1:
            raise ValueError(f"{name}: sparse gradients in a group need sparse_as_dense=True")

        def finish(result: Any) -> None:
            members[0].grad = result

        handle = _exchanges.sparse_allreduce_async(gradients[0], name, self._options.op)
        return _Started(handle, finish, may_be_sparse=True)

    def synchronize(self) -> None:
        """Waits until all gradients are reduced. Those that no backward() has made count as 0.

        A step() that follows does not reduce them again. Without one the gradients are dropped.
        """
        if size() > 1:
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
                    result = synchronize(each.handle)
                except Mismatch:
                    if is_last or not each.may_be_sparse:
                        raise
                    unclear.append(bucket)
                else:
                    each.finish(result)
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
        self._finish()
        self._is_synchronized = False
        base: Any = super()
        base.load_state_dict(state_dict)

    def step(self, closure: Any = None) -> Any:
        """One step of the optimizer, on the reduced gradients."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if not (self._skips or self._is_synchronized):
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


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Optional[Parameters] = None,
    compression: Optional[Type[Compressor]] = None,
    backward_passes_per_step: int = 1,
    op: str = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    sparse_as_dense: bool = False,
    process_set: Optional[ProcessSet] = None,
    error_feedback: bool = False,
) -> Any:
    """An optimizer of the same class and state, which steps on gradients reduced over all ranks.

    Gradients are submitted by name as backward() makes them, so they travel beside the rest of it.

    Args:
        named_parameters: names that are the same on all ranks; None: by their place.
        compression: Compression.fp16 halves what travels, Compression.sketch leaves a quarter of it.
        backward_passes_per_step: passes whose gradients add up before they are reduced.
        gradient_predivide_factor: with an average, divides gradients by it before they are summed,
            and the sum by the rest.
        groups: so many groups of parameters, each of which travels whole, or lists of the
            parameters of each group; None or 0: each by itself. num_groups is Horovod's old name.
        sparse_as_dense: sparse gradients are made dense. Else the ranks gather their entries,
            of which a rank that does not use the parameter has none.
        error_feedback: what Compression.sketch takes from a gradient is added to the next one. That
            takes the memory of one more gradient. Not Horovod's.
    """
    check_process_set(process_set)
    chosen = num_groups if groups is None else groups
    if backward_passes_per_step < 1 or (isinstance(chosen, int) and chosen < 0):
        raise ValueError("backward_passes_per_step must be positive, groups not negative")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor needs op=Average")
    chosen_compression = compression or Compression.none
    if error_feedback and chosen_compression.encoding == "none":
        raise ValueError("error_feedback needs compression=Compression.sketch")
    base = type(optimizer)
    made: Any = type(base.__name__, (_Distributed, base), {"_base": base})
    wrapped = made.__new__(made)
    wrapped.__dict__.update(optimizer.__dict__)
    options = _Options(
        op, chosen_compression, sparse_as_dense, error_feedback, gradient_predivide_factor
    )
    wrapped._begin(named_parameters, backward_passes_per_step, options, chosen)
    return wrapped


def _no_rows_of(parameter: torch.Tensor) -> torch.Tensor:
    """A sparse gradient without entries, as that of a row of an embedding."""
    nowhere = torch.empty((1, 0), dtype=torch.int64, device=parameter.device)
    return torch.sparse_coo_tensor(
        nowhere, parameter.new_empty((0, *parameter.shape[1:])), parameter.shape
    )


def _names_of(
    parameters: List[torch.Tensor], named_parameters: Optional[Parameters]
) -> Dict[int, str]:
    if named_parameters is None:
        return {id(each): f"gradient.{place}" for place, each in enumerate(parameters)}
    pairs = named_parameters.items() if isinstance(named_parameters, dict) else named_parameters
    names = {id(each): f"gradient.{name}" for name, each in pairs}
    missing = sum(id(each) not in names for each in parameters)
    if missing:
        raise ValueError(f"named_parameters lacks {missing} of the optimizer's parameters")
    if len({names[id(each)] for each in parameters}) != len(parameters):
        raise ValueError("named_parameters has a name twice")
    return names


def _cut(pairs: List[Tuple[str, torch.Tensor]], groups: Groups) -> List[_Bucket]:
    """Groups of parameters of one type; a parameter in no group is by itself."""
    if not groups:
        return [_Bucket(name, [each]) for name, each in pairs]
    buckets: List[_Bucket] = []
    if isinstance(groups, int):
        length = max(-(-len(pairs) // min(groups, max(len(pairs), 1))), 1)
        lists = [pairs[start : start + length] for start in range(0, len(pairs), length)]
    else:
        place = {id(each): k for k, group in enumerate(groups) for each in group}
        lists = [[] for _ in groups]
        for pair in pairs:
            if id(pair[1]) in place:
                lists[place[id(pair[1])]].append(pair)
        buckets = [_Bucket(name, [each]) for name, each in pairs if id(each) not in place]
    for members in filter(None, lists):
        by_type: Dict[torch.dtype, List[torch.Tensor]] = {}
        for _, each in members:
            by_type.setdefault(each.dtype, []).append(each)
        first = members[0][0]
        buckets += [_Bucket(f"{first}.group.{kind}", part) for kind, part in by_type.items()]
    return buckets
