"""BlueFog's operations on tensors of the CPU or of CUDA: averages with neighbors and with pairs, and global ones.

Every operation exists as a blocking function, and with the name `..._nonblocking` as one that
returns an integer handle at once; poll(), synchronize() and wait() take it. Until the operation is
done, its input must not be written. A name that ends in `_` means in place: the result replaces the
input.

Operations without a name are matched by their order, which is the same on all ranks. An operation
with a name is matched by its kind and its name, so ranks may start such operations in any order; two
that are pending with the same kind and name are an error. set_skip_negotiate_stage(True) lets the
order count for them, too.

Tensors may have any strides. Gradients do not flow through an operation. Errors of the arguments
are TypeError or weft.InvalidArgument (a ValueError); later ones are other subclasses of weft.Error.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import torch

from weft import _core
from weft._core import ErrorFeedback
from weft._errors import InvalidArgument
from weft._operations import CompressionLike, compressed, needing_all
from weft.torch import _job, _weights, handles
from weft.torch._calls import (
    floating,
    in_place,
    like,
    run,
    run_checked,
    start,
    start_checked,
)
from weft.torch._dtype import computed_as, moved_as
from weft.torch._tensors import read_from
from weft.torch._timeline import timed
from weft.torch._weights import MACHINES, NEIGHBORS, Targets, Weights

_NEIGHBOR = int(_core.Collective.neighbor_allreduce)
_HIERARCHICAL = int(_core.Collective.hierarchical_neighbor_allreduce)
_ALLREDUCE = int(_core.Collective.allreduce)
_LOCAL_ALLREDUCE = int(_core.Collective.local_allreduce)
_BROADCAST = int(_core.Collective.broadcast)
_PAIR = int(_core.Collective.pair_average)
_SUM = int(_core.ReduceOp.sum)
_AVERAGE = int(_core.ReduceOp.average)


@timed
def neighbor_allreduce(
    tensor: torch.Tensor,
    *,
    self_weight: Optional[float] = None,
    src_weights: Optional[Weights] = None,
    dst_weights: Optional[Targets] = None,
    enable_topo_check: bool = True,
    name: Optional[str] = None,
    compression: CompressionLike = "none",
    feedback: Optional[ErrorFeedback] = None,
    needs_all: bool = False,
) -> torch.Tensor:
    """The weighted sum of the tensor of this rank and those of its in-neighbors.

    Args:
        tensor: of a floating type; the same shape and type on all ranks.
        self_weight: the weight of this rank's tensor, given together with src_weights. Without both
            the weights are those of the graph if it was set with is_weighted, else
            1/(in-neighbors + 1).
        src_weights: {rank: weight} of what other ranks send. Without dst_weights the ranks are some
            of the in-neighbors in the graph.
        dst_weights: {rank: factor} by which what is sent to each rank is multiplied, or a list of
            ranks for 1.0 each. Needs the other two. The edges need not be in the graph, but both
            ends have to name them.
        enable_topo_check: with dst_weights, whether all ranks compare which edges they name before
            any data moves. That costs a small message to all ranks. Without this check, the
            operation finds the difference too, but then no other operation is possible any more.
            All ranks give the same value.
        compression: "f16", "bf16", "sketch", "e4m3" or "e5m2": tensors of float32 on the CPU travel in fewer bytes,
            and dst_weights are 1.0.
        feedback: adds what compression has taken from the last tensor.
        needs_all: under WEFT_ON_DEATH=skip the call is PeerDied once a rank is gone, where others run among the
            ranks that are left. All ranks give the same value.

    Returns:
        A new tensor of the same shape and type.

    Raises:
        InvalidArgument: the type is no floating one, weights are missing or wrong, or two ranks
            differ about an edge.
    """
    if name is not None:
        return handles.synchronize(
            neighbor_allreduce_nonblocking(
                tensor,
                self_weight=self_weight,
                src_weights=src_weights,
                dst_weights=dst_weights,
                enable_topo_check=enable_topo_check,
                name=name,
                compression=compression,
                feedback=feedback,
                needs_all=needs_all,
            )
        )
    options = _weights.options(NEIGHBORS, self_weight, src_weights, dst_weights)
    x = read_from(tensor, NEIGHBORS.operation)
    number = floating(x, NEIGHBORS.operation)
    options.update(compressed(compression, feedback, x.shape), **needing_all(needs_all))
    y = like(x)
    if enable_topo_check and dst_weights is not None:
        run_checked(_NEIGHBOR, NEIGHBORS, x, y, number, options)
    else:
        run(_NEIGHBOR, x, y, number, 1, options)
    return y


@timed
def neighbor_allreduce_nonblocking(
    tensor: torch.Tensor,
    *,
    self_weight: Optional[float] = None,
    src_weights: Optional[Weights] = None,
    dst_weights: Optional[Targets] = None,
    enable_topo_check: bool = True,
    name: Optional[str] = None,
    compression: CompressionLike = "none",
    feedback: Optional[ErrorFeedback] = None,
    needs_all: bool = False,
) -> int:
    """Starts neighbor_allreduce(), and returns a handle."""
    options = _weights.options(NEIGHBORS, self_weight, src_weights, dst_weights)
    x = read_from(tensor, NEIGHBORS.operation)
    number = floating(x, NEIGHBORS.operation)
    options.update(compressed(compression, feedback, x.shape), **needing_all(needs_all))
    if enable_topo_check and dst_weights is not None:
        return start_checked(_NEIGHBOR, NEIGHBORS, x, like(x), number, options, name)
    return start(_NEIGHBOR, x, like(x), (number, 1), options, name)


@timed
def hierarchical_neighbor_allreduce(
    tensor: torch.Tensor,
    *,
    self_weight: Optional[float] = None,
    src_machine_weights: Optional[Weights] = None,
    dst_machine_weights: Optional[Targets] = None,
    enable_topo_check: bool = False,
    name: Optional[str] = None,
) -> torch.Tensor:
    """The average over the ranks of each machine, then neighbor_allreduce() of the machines.

    All ranks of a machine give the same weights, which are by machine, and get the same result.

    Args:
        tensor: of a floating type; the same shape and type on all ranks.
        self_weight, src_machine_weights, dst_machine_weights: as for neighbor_allreduce(). Without
            all three, set_machine_topology() has to be called before.
        enable_topo_check: accepted for BlueFog's programs. The operation itself finds differences.

    Raises:
        RuntimeError: there is no graph of machines, and not all three weights are given.
        InvalidArgument: the type is no floating one, or weights are missing or wrong.
    """
    return handles.synchronize(
        hierarchical_neighbor_allreduce_nonblocking(
            tensor,
            self_weight=self_weight,
            src_machine_weights=src_machine_weights,
            dst_machine_weights=dst_machine_weights,
            enable_topo_check=enable_topo_check,
            name=name,
        )
    )


@timed
def hierarchical_neighbor_allreduce_nonblocking(
    tensor: torch.Tensor,
    *,
    self_weight: Optional[float] = None,
    src_machine_weights: Optional[Weights] = None,
    dst_machine_weights: Optional[Targets] = None,
    enable_topo_check: bool = False,
    name: Optional[str] = None,
) -> int:
    """Starts hierarchical_neighbor_allreduce(), and returns a handle."""
    options = _weights.options(MACHINES, self_weight, src_machine_weights, dst_machine_weights)
    x = read_from(tensor, MACHINES.operation)
    number = floating(x, MACHINES.operation)
    if "destinations" not in options:
        check_machine_topology()
    return start(_HIERARCHICAL, x, like(x), (number, 1), options, name)


def check_machine_topology() -> None:
    """Raises RuntimeError if set_machine_topology() has not been called."""
    if _job.context().machine_graph is None:
        raise RuntimeError(f"{MACHINES.operation} needs a graph; call set_machine_topology() first")


def _allreduce_options(
    tensor: torch.Tensor,
    average: bool,
    is_hierarchical_local: bool,
    compression: CompressionLike = "none",
    feedback: Optional[ErrorFeedback] = None,
    needs_all: bool = False,
) -> Tuple[int, Tuple[int, int], Dict[str, Any]]:
    element = computed_as(tensor.dtype, "average" if average else "sum", "allreduce")
    kind = _LOCAL_ALLREDUCE if is_hierarchical_local else _ALLREDUCE
    less = compressed(compression, feedback, tensor.shape)
    op = _AVERAGE if average else _SUM
    return kind, element, {"op": op, **less, **needing_all(needs_all)}


@timed
def allreduce(
    tensor: torch.Tensor,
    average: bool = True,
    is_hierarchical_local: bool = False,
    name: Optional[str] = None,
    compression: CompressionLike = "none",
    feedback: Optional[ErrorFeedback] = None,
    needs_all: bool = False,
) -> torch.Tensor:
    """The average or the sum of the tensors of all ranks, or of those of this machine.

    Args:
        tensor: the same shape and type on all ranks.
        average: the average, which needs a floating type; else the sum.
        is_hierarchical_local: only of the ranks of this machine.
        compression: "f16", "bf16", "sketch", "e4m3" or "e5m2": tensors of float32 on the CPU travel in fewer bytes.
        feedback: adds what compression has taken from the last tensor.
        needs_all: as for neighbor_allreduce().

    Returns:
        A new tensor of the same shape and type.
    """
    if name is not None:
        handle = allreduce_nonblocking(
            tensor, average, is_hierarchical_local, name, compression, feedback, needs_all
        )
        return handles.synchronize(handle)
    x = read_from(tensor, "allreduce")
    kind, (number, parts), options = _allreduce_options(
        x, average, is_hierarchical_local, compression, feedback, needs_all
    )
    y = like(x)
    run(kind, x, y, number, parts, options)
    return y


@timed
def allreduce_nonblocking(
    tensor: torch.Tensor,
    average: bool = True,
    is_hierarchical_local: bool = False,
    name: Optional[str] = None,
    compression: CompressionLike = "none",
    feedback: Optional[ErrorFeedback] = None,
    needs_all: bool = False,
) -> int:
    """Starts allreduce(), and returns a handle."""
    x = read_from(tensor, "allreduce")
    kind, element, options = _allreduce_options(
        x, average, is_hierarchical_local, compression, feedback, needs_all
    )
    return start(kind, x, like(x), element, options, name)


@timed
def allreduce_(
    tensor: torch.Tensor,
    average: bool = True,
    is_hierarchical_local: bool = False,
    name: Optional[str] = None,
    needs_all: bool = False,
) -> torch.Tensor:
    """allreduce() in place. Returns the tensor."""
    handle = allreduce_nonblocking_(tensor, average, is_hierarchical_local, name, needs_all)
    return handles.synchronize(handle)


@timed
def allreduce_nonblocking_(
    tensor: torch.Tensor,
    average: bool = True,
    is_hierarchical_local: bool = False,
    name: Optional[str] = None,
    needs_all: bool = False,
) -> int:
    """Starts allreduce_(), and returns a handle. The tensor is complete after synchronize()."""
    block, finish = in_place(tensor, "allreduce_")
    kind, element, options = _allreduce_options(
        block, average, is_hierarchical_local, needs_all=needs_all
    )
    return start(kind, block, block, element, options, name, tensor, finish)


@timed
def broadcast(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None
) -> torch.Tensor:
    """The tensor of root_rank, as a new tensor. Any type; the same shape and type on all ranks."""
    return handles.synchronize(broadcast_nonblocking(tensor, root_rank, name))


@timed
def broadcast_nonblocking(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None
) -> int:
    """Starts broadcast(), and returns a handle."""
    x = read_from(tensor, "broadcast")
    return start(_BROADCAST, x, like(x), moved_as(x.dtype), {"root": root_rank}, name)


@timed
def broadcast_(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None
) -> torch.Tensor:
    """broadcast() in place. Returns the tensor."""
    return handles.synchronize(broadcast_nonblocking_(tensor, root_rank, name))


@timed
def broadcast_nonblocking_(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None
) -> int:
    """Starts broadcast_(), and returns a handle. The tensor is complete after synchronize()."""
    block, finish = in_place(tensor, "broadcast_")
    element = moved_as(tensor.dtype)
    return start(_BROADCAST, block, block, element, {"root": root_rank}, name, tensor, finish)


@timed
def pair_gossip(
    tensor: torch.Tensor,
    target_rank: int,
    self_weight: Optional[float] = None,
    pair_weight: Optional[float] = None,
    name: Optional[str] = None,
) -> torch.Tensor:
    """self_weight times this rank's tensor plus pair_weight times that of target_rank.

    Both ranks call it, each with the other's number; no other rank takes part. Without both weights
    the result is the average. Raises InvalidArgument if only one is given.
    """
    return handles.synchronize(
        pair_gossip_nonblocking(tensor, target_rank, self_weight, pair_weight, name)
    )


@timed
def pair_gossip_nonblocking(
    tensor: torch.Tensor,
    target_rank: int,
    self_weight: Optional[float] = None,
    pair_weight: Optional[float] = None,
    name: Optional[str] = None,
) -> int:
    """Starts pair_gossip(), and returns a handle."""
    if (self_weight is None) != (pair_weight is None):
        raise InvalidArgument("pair_gossip: self_weight and pair_weight have to be given together")
    options: Dict[str, Any] = {"peer": target_rank}
    if self_weight is not None and pair_weight is not None:
        options.update(self_weight=float(self_weight), pair_weight=float(pair_weight))
    x = read_from(tensor, "pair_gossip")
    number = floating(x, "pair_gossip")
    return start(_PAIR, x, like(x), (number, 1), options, name)
