"""Equal parameters and equal states of optimizers on all ranks."""

from __future__ import annotations

import io
from typing import Any, Iterable, List, Mapping, Tuple, Union

import torch

from weft._errors import InvalidArgument
from weft.torch import _job, handles, ops

# A dictionary of tensors, (name, tensor) pairs, or tensors.
Parameters = Union[
    Mapping[str, Any], Iterable[Tuple[str, torch.Tensor]], Iterable[torch.Tensor]
]


def broadcast_parameters(params: Parameters, root_rank: int) -> None:
    """Gives the tensors of all ranks the values of root_rank's, in place.

    params: model.state_dict(), model.named_parameters() or model.parameters(); all ranks have the
    same tensors in the same order. Entries of a dictionary that are no tensors are left alone.
    """
    waiting = [ops.broadcast_nonblocking_(each, root_rank) for each in _tensors(params)]
    for handle in waiting:
        handles.synchronize(handle)


def allreduce_parameters(params: Parameters) -> None:
    """Gives the tensors of all ranks their average, in place.

    params: as for broadcast_parameters(), all of floating types.
    """
    waiting = [ops.allreduce_nonblocking_(each) for each in _tensors(params)]
    for handle in waiting:
        handles.synchronize(handle)


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int) -> None:
    """Gives the optimizers of all ranks the state of root_rank's: options and tensors.

    The optimizers have equal parameters. Those of other ranks may have no state yet, and need none.
    The state has to be one that torch.load() accepts with weights_only=True.
    """
    is_root = _job.rank() == root_rank
    packed = torch.empty(0, dtype=torch.uint8)
    if is_root:
        file = io.BytesIO()
        torch.save(optimizer.state_dict(), file)
        packed = torch.frombuffer(file.getbuffer(), dtype=torch.uint8)
    bytes_ = ops.broadcast(torch.tensor([packed.numel()]), root_rank)
    if not is_root:
        packed = torch.empty(int(bytes_), dtype=torch.uint8)
    ops.broadcast_(packed, root_rank)
    if not is_root:
        state = torch.load(io.BytesIO(packed.numpy().tobytes()), weights_only=True)
        optimizer.load_state_dict(state)


def _tensors(params: Parameters) -> List[torch.Tensor]:
    """The tensors, in an order that is the same on all ranks."""
    result: List[torch.Tensor] = []
    if isinstance(params, Mapping):
        return [each for _, each in sorted(params.items()) if isinstance(each, torch.Tensor)]
    if isinstance(params, torch.Tensor):
        raise InvalidArgument("params has to be a collection of tensors, not one tensor")
    for each in params:
        tensor = each[1] if isinstance(each, tuple) else each
        if not isinstance(tensor, torch.Tensor):
            raise InvalidArgument(f"params has {type(tensor).__name__} in place of a tensor")
        result.append(tensor)
    return result
