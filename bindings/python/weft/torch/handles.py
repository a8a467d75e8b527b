"""Handles of non-blocking operations, which are plain integers as in BlueFog.

A handle is valid until it has been waited for. A name given to an operation is taken for operations
of its kind until the operation has been waited for, or poll() has returned True.
"""

from __future__ import annotations

import itertools
import threading
from typing import Callable, Dict, Optional, Protocol

import torch

from weft import _core
from weft._errors import InvalidArgument


class Operation(Protocol):
    """A started operation: weft.Handle, or one of several stages."""

    def test(self) -> bool: ...

    def wait(self) -> object: ...


class _Pending:
    __slots__ = ("operation", "output", "name", "finish")

    def __init__(
        self,
        operation: Operation,
        output: Callable[[], torch.Tensor],
        name: Optional[str],
        finish: Optional[Callable[[], None]],
    ) -> None:
        self.operation = operation
        self.output = output
        self.name = name
        self.finish = finish


_lock = threading.Lock()
_numbers = itertools.count()
_pending: Dict[int, _Pending] = {}
_names: Dict[str, int] = {}


def with_kind(kind: int, name: Optional[str]) -> Optional[str]:
    """The name that operations of this kind alone have: "allreduce.NAME"."""
    return None if name is None else f"{_core.Collective(kind).name}.{name}"


def check_name(name: Optional[str]) -> None:
    """Raises InvalidArgument if an operation of that name, with its kind, is pending."""
    if name is None:
        return
    taken = _names.get(name)
    if taken is not None:
        kind, given = name.split(".", 1)
        raise InvalidArgument(
            f"{kind}: an operation named {given!r} is pending; wait for its handle {taken} first"
        )


def add(
    operation: Operation,
    output: Callable[[], torch.Tensor],
    name: Optional[str],
    finish: Optional[Callable[[], None]] = None,
) -> int:
    """The handle of an operation that was started after check_name().

    output: makes the result when the operation is done. finish: is called before that, by
    each thread that waits.
    """
    with _lock:
        number = next(_numbers)
        _pending[number] = _Pending(operation, output, name, finish)
        if name is not None:
            _names[name] = number
    return number


def follow(handle: int, call: Callable[..., None]) -> None:
    """Calls `call` when the operation is done; one of several stages, when it has been waited for."""
    found = _find(handle)
    then = getattr(found.operation, "then", None)
    if then is not None:
        then(call)
        return
    finish = found.finish

    def finish_both() -> None:
        call()
        if finish is not None:
            finish()

    found.finish = finish_both


def finish_named() -> None:
    """Waits for the operations that have names. Their handles stay valid."""
    with _lock:
        pending = [_pending[number] for number in _names.values() if number in _pending]
    for each in pending:
        each.operation.wait()


def clear() -> None:
    """Forgets all handles."""
    with _lock:
        _pending.clear()
        _names.clear()


def _find(handle: int) -> _Pending:
    found = _pending.get(handle)
    if found is None:
        raise InvalidArgument(
            f"handle {handle!r} is not pending: it does not exist, or it has been waited for"
        )
    return found


def _free_name(pending: _Pending, handle: int) -> None:
    if pending.name is not None and _names.get(pending.name) == handle:
        del _names[pending.name]


def poll(handle: int) -> bool:
    """Whether the operation is done, with or without an error. Does not wait.

    Raises InvalidArgument, a ValueError, for a handle that is not pending.
    """
    found = _find(handle)
    if not found.operation.test():
        return False
    with _lock:
        _free_name(found, handle)
    return True


def synchronize(handle: int) -> torch.Tensor:
    """Waits until the operation is done, and returns its result.

    Each handle can be waited for once. Raises InvalidArgument, a ValueError, for a handle that is
    not pending, and the error of an operation that failed.
    """
    found = _find(handle)
    try:
        found.operation.wait()
    except BaseException:
        if found.operation.test():  # else the wait was interrupted, and the handle remains valid
            _drop(handle)
        raise
    _drop(handle)
    if found.finish is not None:
        found.finish()
    return found.output()


def wait(handle: int) -> torch.Tensor:
    """The same as synchronize()."""
    return synchronize(handle)


def _drop(handle: int) -> None:
    """Forgets the handle, unless another thread has done so before."""
    with _lock:
        found = _pending.pop(handle, None)
        if found is not None:
            _free_name(found, handle)
