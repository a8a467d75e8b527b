"""Parameters, states of optimizers and Python objects that all ranks get from one."""

from __future__ import annotations

import io
import pickle
from typing import Any, Dict, Iterable, List, Optional, Tuple, Union

import torch

from weft.horovod._allgather import allgather
from weft.horovod._basics import rank
from weft.horovod._broadcast import broadcast, broadcast_async_
from weft.horovod._handles import synchronize
from weft.horovod._process_sets import ProcessSet

Parameters = Union[Dict[str, Any], Iterable[Tuple[str, Any]]]


def broadcast_parameters(
    params: Union[Parameters, Iterable[torch.Tensor]],
    root_rank: int,
    process_set: Optional[ProcessSet] = None,
) -> None:
    """Gives all ranks the root's parameters: a state_dict(), named_parameters() or parameters()."""
    pairs: List[Any] = sorted(params.items()) if isinstance(params, dict) else list(params)
    handles = []
    for place, each in enumerate(pairs):
        name, tensor = each if isinstance(each, tuple) else (f"{place}", each)
        if isinstance(tensor, torch.Tensor):
            name = f"parameters.{name}"
            handles.append(broadcast_async_(tensor.data, root_rank, name, process_set))
    for handle in handles:
        synchronize(handle)


def broadcast_object(
    obj: Any = None,
    root_rank: int = 0,
    name: Optional[str] = None,
    process_set: Optional[ProcessSet] = None,
) -> Any:
    """The root's object. It is pickled, by cloudpickle where that is installed."""
    title = "object" if name is None else name
    is_root = rank() == root_rank
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
    """The objects of all ranks, pickled as by broadcast_object()."""
    title = "object" if name is None else name
    packed = _packed(obj)
    lengths = allgather(torch.tensor([packed.numel()]), f"{title}.length", process_set)
    whole = allgather(packed, title, process_set)
    return [_unpacked(each) for each in torch.split(whole, lengths.tolist())]


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer,
    root_rank: int,
    model: Optional[torch.nn.Module] = None,
    process_set: Optional[ProcessSet] = None,
) -> None:
    """Gives the optimizers of all ranks the root's state. Those of others may have none yet.

    Parameters of an optimizer without a state get gradients of zeros, as by Horovod.

    model: says whose gradients are sparse.
    """
    if not optimizer.state:
        _give_zeros(optimizer, model)
    file = io.BytesIO()
    if rank() == root_rank:
        torch.save(optimizer.state_dict(), file)
    state = broadcast_object(file.getvalue(), root_rank, "optimizer_state", process_set)
    if rank() != root_rank:
        optimizer.load_state_dict(torch.load(io.BytesIO(state), map_location="cpu", weights_only=False))


def _give_zeros(optimizer: torch.optim.Optimizer, model: Optional[torch.nn.Module]) -> None:
    tables = [] if model is None else [each for each in model.modules() if getattr(each, "sparse", False)]
    sparse = {parameter for table in tables for parameter in table.parameters()}
    for group in optimizer.param_groups:
        for each in group["params"]:
            if each.requires_grad and each.grad is None:
                zeros = torch.zeros_like(each)
                each.grad = zeros.to_sparse(1) if each in sparse else zeros


def _packed(obj: Any) -> torch.Tensor:
    return torch.frombuffer(bytearray(_dumps(obj)), dtype=torch.uint8)


def _dumps(obj: Any) -> bytes:
    try:
        import cloudpickle
    except ImportError:
        return pickle.dumps(obj)
    packed: bytes = cloudpickle.dumps(obj)
    return packed


def _unpacked(packed: torch.Tensor) -> Any:
    return pickle.loads(packed.numpy().tobytes())
