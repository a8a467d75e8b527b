"""The functions of horovod.torch, over operations by name: a program that imports Horovod runs with

    import weft.horovod as hvd

Tensors are submitted by name, in any order on each rank; ranks agree by a response cache and a
vector of bits, small tensors are fused, and groups run whole (weft.Named). Tensors are those of
PyTorch, on the CPU or on CUDA. Without a job in the environment (weft run, mpirun, torchrun, ...) the rank is
alone.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

import torch

from weft import _default
from weft._context import Context
from weft._core import Handle
from weft._errors import InvalidArgument
from weft._named import Named

Parameters = Union[Dict[str, torch.Tensor], Iterable[Tuple[str, torch.Tensor]]]

Average = "average"
Sum = "sum"
Min = "min"
Max = "max"
Product = "product"


class _Started(NamedTuple):
    handle: Handle
    result: Any


class _State:
    """The named operations of the process, and the handles that were not waited for."""

    def __init__(self, context: Context, named: Named) -> None:
        self.context = context
        self.named = named
        self.started: Dict[int, _Started] = {}


_state: Optional[_State] = None
_lock = threading.Lock()
_numbers = itertools.count()
_unnamed = itertools.count()


def init(**options: Any) -> None:
    """Joins the job that the environment names. Collective. Calling it again has no effect.

    options: those of weft.Context.named(), for example fusion_bytes.
    """
    global _state
    with _lock:
        context = _default.init()
        if _state is None or _state.context is not context:
            _state = _State(context, context.named(**options))


def shutdown() -> None:
    """Leaves the job. Without a job: no effect."""
    global _state
    with _lock:
        state, _state = _state, None
    if state is not None and _default.is_initialized() and _default.context() is state.context:
        _default.shutdown()


def is_initialized() -> bool:
    """Whether init() was called, and the job has not been left."""
    return _state is not None and not _state.context.is_closed


def _current() -> _State:
    state = _state
    if state is None or state.context.is_closed:
        raise InvalidArgument("weft.horovod has not been initialized; call init() first")
    return state


def rank() -> int:
    """The number of this process, 0 ... size()-1."""
    return _current().context.rank


def size() -> int:
    """The number of processes of the job."""
    return _current().context.size


def local_rank() -> int:
    """The number of this process among those of its machine."""
    return _current().context.local_rank


def local_size() -> int:
    """The number of processes of this machine."""
    return _current().context.local_size


def cross_rank() -> int:
    """The number of this machine."""
    return _current().context.machine_rank


def cross_size() -> int:
    """The number of machines."""
    return _current().context.machine_size


def is_homogeneous() -> bool:
    """Whether all machines have the same number of processes."""
    return _current().context.is_homogeneous


def named() -> Named:
    """The operations by name that the functions of this module use."""
    return _current().named


def _name(kind: str, name: Optional[str]) -> str:
    """Without a name the ranks' calls are numbered, so that their order matters."""
    return f"{kind}.{name}" if name is not None else f"{kind}.noname.{next(_unnamed)}"


def _op(op: Optional[str], average: Optional[bool]) -> str:
    if op is not None and average is not None:
        raise ValueError("give either op or average")
    if op is None:
        return Sum if average is False else Average
    return op


def _keep(handle: Handle, result: Any) -> int:
    number = next(_numbers)
    with _lock:
        _current().started[number] = _Started(handle, result)
    return number


def poll(handle: int) -> bool:
    """Whether the operation is done."""
    found = _current().started.get(handle)
    return found is None or found.handle.test()


def synchronize(handle: int) -> Any:
    """Waits for an operation, and returns its result. A handle is valid once."""
    with _lock:
        found = _current().started.pop(handle, None)
    if found is None:
        raise ValueError(f"there is no handle {handle}, or it was waited for already")
    found.handle.wait()
    return found.result


def _dense(tensor: torch.Tensor, what: str) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{what}: expected a tensor, not {type(tensor).__name__}")
    if not (tensor.is_cpu or tensor.is_cuda) or tensor.layout is not torch.strided:
        raise TypeError(f"{what}: takes dense tensors on the CPU and on CUDA")
    return tensor.detach().contiguous()


def _in_place(tensor: torch.Tensor, what: str) -> torch.Tensor:
    dense = _dense(tensor, what)
    if dense.data_ptr() != tensor.data_ptr():
        raise ValueError(f"{what}: a tensor that is changed in place must be contiguous")
    return dense


def allreduce_async(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[str] = None,
) -> int:
    """Starts allreduce()."""
    x = _dense(tensor, "allreduce")
    y = torch.empty_like(x)
    to = _current().named[_name("allreduce", name)]
    return _keep(to.allreduce_start(x, y, op=_op(op, average)), y)


def allreduce(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[str] = None,
) -> torch.Tensor:
    """The reduction of the tensors that all ranks submit under this name; their mean by default."""
    result: torch.Tensor = synchronize(allreduce_async(tensor, average, name, op))
    return result


def allreduce_async_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[str] = None,
) -> int:
    """Starts allreduce_()."""
    x = _in_place(tensor, "allreduce_")
    to = _current().named[_name("allreduce", name)]
    return _keep(to.allreduce_start(x, x, op=_op(op, average)), tensor)


def allreduce_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[str] = None,
) -> torch.Tensor:
    """allreduce() in place."""
    result: torch.Tensor = synchronize(allreduce_async_(tensor, average, name, op))
    return result


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[str] = None,
) -> int:
    """Starts grouped_allreduce()."""
    xs = [_dense(each, "grouped_allreduce") for each in tensors]
    ys = [torch.empty_like(each) for each in xs]
    return _grouped(xs, ys, ys, average, name, op)


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[str] = None,
) -> List[torch.Tensor]:
    """allreduce() of several tensors, which run together once all ranks have submitted them."""
    result: List[torch.Tensor] = synchronize(grouped_allreduce_async(tensors, average, name, op))
    return result


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[str] = None,
) -> int:
    """Starts grouped_allreduce_()."""
    xs = [_in_place(each, "grouped_allreduce_") for each in tensors]
    return _grouped(xs, xs, list(tensors), average, name, op)


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[str] = None,
) -> List[torch.Tensor]:
    """grouped_allreduce() in place."""
    result: List[torch.Tensor] = synchronize(grouped_allreduce_async_(tensors, average, name, op))
    return result


def _grouped(
    xs: List[torch.Tensor],
    ys: List[torch.Tensor],
    results: List[torch.Tensor],
    average: Optional[bool],
    name: Optional[str],
    op: Optional[str],
) -> int:
    group = _name("grouped_allreduce", name)
    handle = _current().named.grouped_allreduce_start(group, xs, ys, op=_op(op, average))
    return _keep(handle, results)


def allgather(tensor: torch.Tensor, name: Optional[str] = None) -> torch.Tensor:
    """All ranks' tensors, one after another along dimension 0; ranks may have any number of rows."""
    x = _dense(tensor, "allgather")
    if x.dim() == 0:
        raise ValueError("allgather: a tensor of no dimensions cannot be gathered")
    by_name = _current().named
    title = _name("allgather", name)
    mine = torch.tensor([x.shape[0]])
    rows = by_name[title + ".rows"].allgather(mine).tolist()
    y = x.new_empty((sum(rows), *x.shape[1:]))
    result: torch.Tensor = by_name[title].allgather(x, y, counts=rows)
    return result


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None) -> int:
    """Starts broadcast()."""
    x = _dense(tensor, "broadcast")
    y = torch.empty_like(x)
    to = _current().named[_name("broadcast", name)]
    return _keep(to.broadcast_start(x, y, root=root_rank), y)


def broadcast(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None) -> torch.Tensor:
    """The root's tensor."""
    result: torch.Tensor = synchronize(broadcast_async(tensor, root_rank, name))
    return result


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None) -> int:
    """Starts broadcast_()."""
    x = _in_place(tensor, "broadcast_")
    to = _current().named[_name("broadcast", name)]
    return _keep(to.broadcast_start(x, x, root=root_rank), tensor)


def broadcast_(tensor: torch.Tensor, root_rank: int, name: Optional[str] = None) -> torch.Tensor:
    """broadcast() in place."""
    result: torch.Tensor = synchronize(broadcast_async_(tensor, root_rank, name))
    return result


def broadcast_parameters(params: Parameters, root_rank: int) -> None:
    """Gives all ranks the root's parameters: a state_dict() or named_parameters()."""
    pairs = params.items() if isinstance(params, dict) else params
    handles = [
        broadcast_async_(each.data, root_rank, f"parameters.{name}")
        for name, each in sorted(pairs)
        if isinstance(each, torch.Tensor)
    ]
    for handle in handles:
        synchronize(handle)


def join() -> int:
    """This rank is out of data, and gives zeros until all have joined. Returns the last one."""
    return _current().named.join()


def barrier() -> None:
    """Waits until all ranks are in the barrier."""
    _current().named["barrier"].barrier()


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
        op: str,
        num_groups: int,
    ) -> None:
        mine = [each for group in self.param_groups for each in group["params"]]
        mine = [each for each in mine if each.requires_grad]
        names = _names_of(mine, named_parameters)
        self._passes = backward_passes_per_step
        self._op = op
        self._buckets = _cut([(names[id(each)], each) for each in mine], num_groups)
        self._bucket_of = {
            id(each): place
            for place, bucket in enumerate(self._buckets)
            for each in bucket.parameters
        }
        self._counts: Dict[int, int] = {}
        self._started: Dict[int, int] = {}  # handles by bucket
        self._is_synchronized = False
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
        with torch.no_grad():
            for each in members:
                each.grad = torch.zeros_like(each) if each.grad is None else each.grad.contiguous()
        gradients = [each.grad for each in members if each.grad is not None]
        if len(gradients) == 1:
            self._started[bucket] = allreduce_async_(gradients[0], name=name, op=self._op)
        else:
            self._started[bucket] = grouped_allreduce_async_(gradients, name=name, op=self._op)

    def synchronize(self) -> None:
        """Waits until all gradients are reduced. Those that no backward() has made count as 0.

        A step() that follows does not reduce them again. Without one the gradients are dropped.
        """
        if size() > 1:
            for bucket in range(len(self._buckets)):
                if bucket not in self._started:
                    self._start(bucket)
            for handle in self._started.values():
                synchronize(handle)
        self._started.clear()
        self._counts.clear()
        self._is_synchronized = True

    def step(self, closure: Any = None) -> Any:
        """One step of the optimizer, on the reduced gradients."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        if not self._is_synchronized:
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
    backward_passes_per_step: int = 1,
    op: str = Average,
    num_groups: int = 0,
) -> Any:
    """An optimizer of the same class and state, which steps on gradients reduced over all ranks.

    Gradients are submitted by name as backward() makes them, so they travel beside the rest of it.

    Args:
        named_parameters: names that are the same on all ranks; None: by their place.
        backward_passes_per_step: passes whose gradients add up before they are reduced.
        num_groups: the parameters are cut into so many groups, each of which travels whole; 0:
            each parameter by itself.
    """
    if backward_passes_per_step < 1 or num_groups < 0:
        raise ValueError("backward_passes_per_step must be positive, num_groups not negative")
    base = type(optimizer)
    made: Any = type(base.__name__, (_Distributed, base), {"_base": base})
    wrapped = made.__new__(made)
    wrapped.__dict__.update(optimizer.__dict__)
    wrapped._begin(named_parameters, backward_passes_per_step, op, num_groups)
    return wrapped


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


def _cut(pairs: List[Tuple[str, torch.Tensor]], num_groups: int) -> List[_Bucket]:
    """Each parameter by itself, or groups of parameters of one type that follow one another."""
    if num_groups == 0:
        return [_Bucket(name, [each]) for name, each in pairs]
    length = -(-len(pairs) // min(num_groups, max(len(pairs), 1)))
    buckets: List[_Bucket] = []
    for start in range(0, len(pairs), max(length, 1)):
        by_type: Dict[torch.dtype, List[torch.Tensor]] = {}
        for _, each in pairs[start : start + length]:
            by_type.setdefault(each.dtype, []).append(each)
        first = pairs[start][0]
        buckets += [_Bucket(f"{first}.group.{kind}", part) for kind, part in by_type.items()]
    return buckets
