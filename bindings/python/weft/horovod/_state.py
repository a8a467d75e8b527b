"""The job of weft.horovod, and the operations that were started in it."""

from __future__ import annotations

import itertools
import threading
from typing import Any, Callable, Dict, NamedTuple, Optional, Protocol

from weft import _default
from weft._context import Context
from weft._errors import InvalidArgument
from weft._named import Named


class Operation(Protocol):
    """A started operation: weft.Handle, or one of several stages."""

    def test(self) -> bool: ...

    def wait(self) -> object: ...


class _Started(NamedTuple):
    operation: Operation
    result: Callable[[], Any]  # of the operation, when it is done


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


def current() -> _State:
    state = _state
    if state is None or state.context.is_closed:
        raise InvalidArgument("weft.horovod has not been initialized; call init() first")
    return state


def rank() -> int:
    """The number of this process, 0 ... size()-1."""
    return current().context.rank


def size() -> int:
    """The number of processes of the job."""
    return current().context.size


def local_rank() -> int:
    """The number of this process among those of its machine."""
    return current().context.local_rank


def local_size() -> int:
    """The number of processes of this machine."""
    return current().context.local_size


def cross_rank() -> int:
    """The number of this machine."""
    return current().context.machine_rank


def cross_size() -> int:
    """The number of machines."""
    return current().context.machine_size


def is_homogeneous() -> bool:
    """Whether all machines have the same number of processes."""
    return current().context.is_homogeneous


def named() -> Named:
    """The operations by name that the functions of this module use."""
    return current().named


def named_as(kind: str, name: Optional[str]) -> str:
    """Without a name the ranks' calls are numbered, so that their order matters."""
    return f"{kind}.{name}" if name is not None else f"{kind}.noname.{next(_unnamed)}"


def keep(operation: Operation, result: Callable[[], Any]) -> int:
    """The handle of a started operation. result: makes its result when it is done."""
    number = next(_numbers)
    with _lock:
        current().started[number] = _Started(operation, result)
    return number


def poll(handle: int) -> bool:
    """Whether the operation is done."""
    found = current().started.get(handle)
    return found is None or found.operation.test()


def synchronize(handle: int) -> Any:
    """Waits for an operation, and returns its result. A handle is valid once."""
    with _lock:
        found = current().started.pop(handle, None)
    if found is None:
        raise ValueError(f"there is no handle {handle}, or it was waited for already")
    found.operation.wait()
    return found.result()


def join() -> int:
    """This rank is out of data, and gives zeros until all have joined. Returns the last one."""
    return current().named.join()


def barrier() -> None:
    """Waits until all ranks are in the barrier."""
    current().named["barrier"].barrier()
