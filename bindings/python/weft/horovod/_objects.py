"""Parameters, states of optimizers and Python objects that all ranks get from one."""

from __future__ import annotations

import io
import pickle
from typing import Any, Dict, Iterable, List, Optional, Tuple, Union

import torch

from weft.horovod._exchanges import allgather
from weft.horovod._ops import ProcessSet, broadcast, broadcast_async_, check_process_set
from weft.horovod._state import current, synchronize

Parameters = Union[Dict[str, torch.Tensor], Iterable[Tuple[str, torch.Tensor]]]


def broadcast_parameters(
    params: Parameters, root_rank: int, process_set: Optional[ProcessSet] = None
) -> None:
    """Gives all ranks the root's parameters: a state_dict() or named_parameters()."""
    check_process_set(process_set)
    pairs = params.items() if isinstance(params, dict) else params
    handles = [
        broadcast_async_(each.data, root_rank, f"parameters.{name}")
        for name, each in sorted(pairs)
        if isinstance(each, torch.Tensor)
    ]
    for handle in handles:
        synchronize(handle)


def broadcast_object(
    obj: Any = None,
    root_rank: int = 0,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> Any:
    """The root's object, which is pickled."""
    title = "object" if name is None else name
    is_root = current().context.rank == root_rank
    packed = _packed(obj) if is_root else torch.empty(0, dtype=torch.uint8)
    length = torch.tensor([packed.numel()])
    length = broadcast(length, root_rank, f"{title}.length", process_set)
    if not is_root:
        packed = torch.empty(int(length), dtype=torch.uint8)
    packed = broadcast(packed, root_rank, title, process_set)
    return obj if is_root else _unpacked(packed)


def allgather_object(
    obj: Any, name: Optional[str] = None, process_set: Optional[ProcessSet] = None
) -> List[Any]:
    """The objects of all ranks, which are pickled."""
    title = "object" if name is None else name
    packed = _packed(obj)
    lengths = allgather(torch.tensor([packed.numel()]), f"{title}.length", process_set)
    whole = allgather(packed, title, process_set)
    return [_unpacked(each) for each in torch.split(whole, lengths.tolist())]


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    process_set: Optional[ProcessSet] = None,
) -> None:
    """Gives the optimizers of all ranks the root's state. Those of others may have none yet."""
    file = io.BytesIO()
    if current().context.rank == root_rank:
        torch.save(optimizer.state_dict(), file)
    state = broadcast_object(file.getvalue(), root_rank, "optimizer_state", process_set)
    if current().context.rank != root_rank:
        optimizer.load_state_dict(torch.load(io.BytesIO(state), map_location="cpu", weights_only=False))


def _packed(obj: Any) -> torch.Tensor:
    return torch.frombuffer(bytearray(pickle.dumps(obj)), dtype=torch.uint8)


def _unpacked(packed: torch.Tensor) -> Any:
    return pickle.loads(packed.numpy().tobytes())
