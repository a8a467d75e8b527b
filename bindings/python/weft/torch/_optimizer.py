"""What the distributed optimizers share.

A distributed optimizer is an object of a class made for it, which derives from the optimizer's own
class. It shares the state and the parameter groups of the optimizer that it wraps.

Communication goes in rounds. A round moves every bucket once. It begins with the first bucket and
ends in synchronize(), which step() calls. Each bucket is submitted by a name, as soon as it is
ready: the order may differ from rank to rank, as gradients come in any order. After
set_skip_negotiate_stage(True) the order of the buckets is the same on all ranks.
"""

from __future__ import annotations

import contextlib
import weakref
import zlib
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
    Union,
)

import torch

from weft import _core
from weft._errors import InvalidArgument, Mismatch
from weft._operations import CompressionLike, compressed, compression_number
from weft.torch import _job, _timeline
from weft.torch._flat import Bucket, Flat, flattened

Models = Union[torch.nn.Module, Sequence[torch.nn.Module]]
Closure = Optional[Callable[[], Any]]


class Place(NamedTuple):
    """A bucket, and what it is a part of."""

    flat: Flat
    bucket: Bucket


class Distributed:
    """Base of the distributed optimizers, to be mixed with an optimizer's class."""

    _base: Any  # the optimizer's own class
    _compression: CompressionLike = "none"
    _has_feedback = False
    _halves = 2
    _is_cut = True
    _works_alone = False  # also on a rank that has no others
    _watching: List[Any] = []  # the hooks of turn_on_timeline()

    # Of torch.optim.Optimizer:
    param_groups: List[Dict[str, Any]]

    def _begin(self, models: List[torch.nn.Module], steps: int) -> None:
        """Takes over the parameters. Collective."""
        self._models = models
        self._steps = steps
        named = _named_parameters(self.param_groups, models)
        mine = {name: each for name, each in named.items() if each.requires_grad}
        self._flats: List[Flat] = []
        self._places: List[Place] = []
        self._outside = [each for each in named.values() if not each.requires_grad]
        self._removers: List[Any] = []
        self._feedback: Dict[str, _core.ErrorFeedback] = {}  # by the name of the operation
        self._started: Dict[int, _core.Handle] = {}  # of this round, by place
        self._prepared: Dict[Any, Any] = {}  # what starts a bucket's operation, and with which options
        self._operations = f"{type(self).__mro__[1].__name__}.{_job.current().count_optimizer()}"
        self._ready: List[bool] = []
        self._is_synchronized = False
        self._skips = False
        if (_job.size() > 1 or self._works_alone) and mine:
            _check_layout(mine, [each.__name__ for each in type(self).__mro__[:2]], steps)
            self._flats = flattened(list(mine.values()), self._halves, self._is_cut)
            self._places = [Place(flat, each) for flat in self._flats for each in self._cut(flat)]
            self._ready = [False] * len(self._places)
            self._register_hooks()
            weakref.finalize(self, _remove_all, self._removers)
        if _timeline.is_open():
            self.turn_on_timeline()

    # What the subclasses add.

    def _cut(self, flat: Flat) -> List[Bucket]:
        """The buckets of a segment."""
        return flat.buckets

    def _register_hooks(self) -> None:
        raise NotImplementedError

    def _passes(self) -> int:
        """Passes through the model since the last round."""
        raise NotImplementedError

    def _start(self, name: str, place: Place) -> _core.Handle:
        """Starts the operation of a bucket, under this name."""
        raise NotImplementedError

    def synchronize(self) -> None:
        """Ends the round: starts what has not been started, and waits for all."""
        raise NotImplementedError

    # Rounds.

    def _attach(self) -> None:
        """Makes the parameters views of the segments, with their values."""
        with torch.no_grad():
            for flat, bucket in self._places:
                flat.attach(bucket)

    def _make_ready(self, index: int) -> None:
        """Starts the bucket's operation, unless the order counts and one before it is missing."""
        self._ready[index] = True
        if _job.current().is_ordered:
            while len(self._started) < len(self._places) and self._ready[len(self._started)]:
                self._start_at(len(self._started))
        elif index not in self._started:
            self._start_at(index)

    def _start_at(self, index: int) -> None:
        name = f"{self._operations}.{index}"
        handle = self._start(name, self._places[index])
        self._started[index] = handle
        _timeline.show_until_done(name, "COMMUNICATE", handle)

    def _submit(
        self, name: str, kind: int, memory: Tuple[int, ...], flat: Flat, **options: Any
    ) -> _core.Handle:
        """Starts the operation of a bucket. It is prepared for as long as its arguments stay the same."""
        feedback = None
        if self._has_feedback:
            feedback = self._feedback.setdefault(name, _core.ErrorFeedback())
        options.update(compressed(self._compression, feedback))
        job, stream, kept = _job.current(), flat.behind(), flat.memory()
        if stream:  # another one in each round
            return job.start(name, kind, *memory, flat.number, keep=kept, **options, **stream)
        how = (job, job.is_ordered, kind, options)
        known = self._prepared.get((name, memory[0]))
        if known is None or known[0] != how:
            known = how, job.prepare(name, kind, *memory, flat.number, keep=kept, **options)
            self._prepared[name, memory[0]] = known
        handle: _core.Handle = known[1]()
        return handle

    def _end_round(self) -> None:
        """Starts all operations that have not been started, and waits for all."""
        try:
            for index in range(len(self._places)):
                self._make_ready(index)
            for each in self._started.values():
                each.wait()
        finally:
            self._started = {}
            self._ready = [False] * len(self._places)

    def _is_due(self) -> bool:
        """Whether step() has to communicate."""
        if not self._places or self._skips or self._is_synchronized:
            return False
        for each in self._outside:
            if each.requires_grad:
                raise RuntimeError(
                    "a parameter was frozen when the distributed optimizer was made, and is not "
                    "now; make the optimizer after such changes"
                )
        return self._steps == 1 or self._passes() >= self._steps

    # BlueFog's timeline.

    def turn_on_timeline(self) -> None:
        """From now on the timeline shows when each parameter is used, and its gradient computed.

        It is on at first if a timeline is written (BLUEFOG_TIMELINE).
        """
        if not self._watching:
            self._watching = _timeline.watch_models(self._models, type(self).__mro__[1].__name__)
            weakref.finalize(self, _remove_all, self._watching)

    def turn_off_timeline(self) -> None:
        _remove_all(self._watching)
        self._watching = []

    # The optimizer's own interface.

    def step(self, closure: Closure = None) -> Any:
        """One step of the optimizer, with the communication that is due.

        closure: computes the loss and its gradients, once; the result of step() is the loss.
        """
        loss = evaluated(closure)
        if self._is_due():
            self.synchronize()
        self._is_synchronized = False
        self._step_locally()
        return loss

    def _step_locally(self, only: Optional[Set[int]] = None) -> None:
        """A step of the wrapped optimizer. only: ids of the parameters; None: all."""
        step = self._base.step
        if getattr(step, "hooked", False):  # without the hooks of step(), which run once
            step = step.__wrapped__
        if only is None:
            step(self)
            return
        groups = self.param_groups
        parts = [
            {**group, "params": [each for each in group["params"] if id(each) in only]}
            for group in groups
        ]
        self.param_groups = [part for part in parts if part["params"]]
        try:
            if self.param_groups:
                step(self)
        finally:
            self.param_groups = groups

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """A context in which step() does not communicate.

        BlueFog's programs use it after synchronize(). That is not needed here: the step() after
        synchronize() does not communicate a second time.
        """
        self._skips = True
        try:
            yield
        finally:
            self._skips = False

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """Raises RuntimeError: add the group before the optimizer is made distributed."""
        raise RuntimeError("add_param_group: make the optimizer distributed after the last group")


class AdaptsFirst(Distributed):
    """The step of the optimizer comes before the communication."""

    def step(self, closure: Closure = None) -> Any:
        """One step of the optimizer, then the communication that is due.

        closure: computes the loss and its gradients, once; the result of step() is the loss.
        """
        loss = evaluated(closure)
        is_due = self._is_due()
        self._step_locally()
        if is_due:
            self.synchronize()
        self._is_synchronized = False
        return loss


def make_distributed(
    kind: type,
    optimizer: Any,
    model: Models,
    steps: int,
    compression: CompressionLike = "none",
    error_feedback: bool = False,
    **attributes: Any,
) -> Any:
    """The distributed optimizer of class `kind` for an optimizer of any class.

    attributes: what it has before it takes over the parameters.
    """
    compressed(compression)  # raises for one that takes matrices
    if compression_number(compression) == 0 and error_feedback:
        raise InvalidArgument("error_feedback needs a compression")
    if isinstance(optimizer, Distributed):
        raise InvalidArgument("the optimizer is distributed already")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise InvalidArgument("LBFGS evaluates the model several times in one step")
    if steps != int(steps) or steps < 1:
        raise InvalidArgument(f"num_steps_per_communication={steps} is no positive whole number")
    own = type(optimizer)
    result: Any = object.__new__(type(own.__name__, (kind, own), {"_base": own}))
    result.__dict__.update(optimizer.__dict__)
    result.__dict__.update(attributes, _compression=compression, _has_feedback=error_feedback)
    result.__dict__.pop("step", None)  # a learning rate scheduler's, which steps `optimizer` itself
    result._patch_step_function()
    models = [model] if isinstance(model, torch.nn.Module) else list(model)
    for each in models:
        if not isinstance(each, torch.nn.Module):
            raise TypeError(f"model: expected a module, not {type(each).__name__}")
    result._begin(models, int(steps))
    return result


def evaluated(closure: Closure) -> Any:
    """The closure's result, computed with gradients."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def _named_parameters(
    groups: List[Dict[str, Any]], models: List[torch.nn.Module]
) -> Dict[str, torch.nn.Parameter]:
    """The parameters of the groups, by name and in the order of the models."""
    optimized = {id(each) for group in groups for each in group["params"]}
    named: Dict[str, torch.nn.Parameter] = {}
    seen: Set[int] = set()
    for model in models:
        for name, each in model.named_parameters():
            if id(each) in seen or id(each) not in optimized:
                continue
            if name in named:
                raise InvalidArgument(f"two models have a parameter named {name!r}")
            seen.add(id(each))
            named[name] = each
    if optimized - seen:
        raise InvalidArgument(
            f"the optimizer has {len(optimized - seen)} parameters that the model does not have"
        )
    return named


def _check_layout(named: Dict[str, torch.nn.Parameter], classes: List[str], steps: int) -> None:
    """Raises Mismatch if ranks have other parameters, or another optimizer."""
    layout = [(name, tuple(each.shape), str(each.dtype)) for name, each in named.items()]
    mark = zlib.crc32(repr((layout, classes, steps)).encode())
    marks = _job.context().allgather(torch.tensor([mark]))
    others = (marks != mark).nonzero()
    if len(others) > 0:
        rank = int(others[0])
        error = Mismatch(
            f"rank {rank} has a model with other parameters than this rank, or another optimizer "
            "or num_steps_per_communication"
        )
        error.rank = rank
        raise error


def _remove_all(removers: List[Any]) -> None:
    for each in removers:
        each.remove()
