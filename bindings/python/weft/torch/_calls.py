"""What the operations share: how one runs or starts, and the memory of its tensors."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

import torch

from weft._core import Request
from weft._errors import InvalidArgument
from weft.torch import _edges, _job, _staged, handles
from weft.torch._devices import behind, in_order
from weft.torch._dtype import FLOATING, NUMBERS
from weft.torch._tensors import Once, updated
from weft.torch._weights import Names

Finish = Optional[Callable[[], None]]


def run(
    kind: int, x: torch.Tensor, y: torch.Tensor, number: int, parts: int, options: Dict[str, Any]
) -> None:
    """Runs an operation from x to y. An element is `parts` of the DataType `number`."""
    count = x.numel() * parts
    memory = (x.data_ptr(), count, y.data_ptr(), count)
    _job.context().run_raw(
        Request(kind, *memory, number, keep=(x, y), **in_order(x, y), **options)
    )


def start(
    kind: int,
    x: torch.Tensor,
    y: torch.Tensor,
    element: Tuple[int, int],
    options: Dict[str, Any],
    name: Optional[str],
    result: Optional[torch.Tensor] = None,
    finish: Finish = None,
) -> int:
    """Starts an operation from x to y, by name if it has one, and returns a handle.

    element: the DataType's number, and how many of it an element is. result: what the handle
    returns; None: y. finish: as for handles.add().
    """
    title = handles.with_kind(kind, name)
    handles.check_name(title)
    count = x.numel() * element[1]
    memory = (x.data_ptr(), count, y.data_ptr(), count)
    options = {**options, **behind(x, y)}
    operation = _job.current().start(
        title, kind, *memory, element[0], shape=x.shape, keep=(x, y), **options
    )
    output = y if result is None else result
    return handles.add(operation, lambda: output, title, finish)


def run_checked(
    kind: int,
    names: Names,
    x: torch.Tensor,
    y: torch.Tensor,
    number: int,
    options: Dict[str, Any],
) -> None:
    """As run(), after all ranks have compared their edges."""
    compare_edges(names, options)
    run(kind, x, y, number, 1, options)


def compare_edges(names: Names, options: Dict[str, Any]) -> None:
    """Waits until all ranks have compared their edges. Raises InvalidArgument if two differ."""
    mine, all_ = _told(names, options)
    _edges.compare(_job.current(), mine, all_).wait()
    _edges.check(names, all_)


def start_checked(
    kind: int,
    names: Names,
    x: torch.Tensor,
    y: torch.Tensor,
    number: int,
    options: Dict[str, Any],
    name: Optional[str],
) -> int:
    """As start(), after all ranks have compared their edges, for which it does not wait."""
    title = handles.with_kind(kind, name)
    handles.check_name(title)
    job = _job.current()
    is_by_name = name is not None and not job.is_ordered
    moving = None if is_by_name else job.second_stages()
    mine, all_ = _told(names, options)
    options = {**options, **behind(x, y)}

    def move() -> _staged.Stage:
        _edges.check(names, all_)
        count = x.numel()
        memory = (x.data_ptr(), count, y.data_ptr(), count)
        if moving is not None:
            request = Request(kind, *memory, number, keep=(x, y), **options)
            return [moving.start_raw(request)]
        return [
            job.start(title, kind, *memory, number, shape=x.shape, keep=(x, y), **options)
        ]

    first = [_edges.compare(job, mine, all_, f"edges of {title}" if is_by_name else None)]
    staged = _staged.start(_staged.Staged(first, move, is_by_name=is_by_name))
    return handles.add(staged, lambda: y, title)


def _told(names: Names, options: Dict[str, Any]) -> Tuple[torch.Tensor, torch.Tensor]:
    mine = _edges.told(
        _edges.other_ranks(names, options["sources"]),
        _edges.other_ranks(names, options["destinations"]),
    )
    return mine, torch.empty((len(mine), len(mine)), dtype=torch.int64)


def floating(tensor: torch.Tensor, what: str) -> int:
    """The DataType's number. Raises InvalidArgument if it is no floating type."""
    number = NUMBERS.get(tensor.dtype)
    if number is None or number not in FLOATING:
        raise InvalidArgument(
            f"{what}: the weighted sum of {tensor.dtype} is not possible; it needs a floating type"
        )
    return number


def like(x: torch.Tensor) -> torch.Tensor:
    """A new dense tensor of the same shape, type and device."""
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def in_place(tensor: torch.Tensor, what: str) -> Tuple[torch.Tensor, Finish]:
    """The memory for an operation in place, and what to do afterwards."""
    block, copy = updated(tensor, what)

    def finish() -> None:
        with torch.no_grad():
            if copy is not None:
                copy()
            elif not tensor.is_inference():
                torch.autograd.graph.increment_version(tensor)  # Weft writes behind torch's back

    return block, Once(finish, [tensor])
