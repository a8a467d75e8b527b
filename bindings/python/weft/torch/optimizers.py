"""Optimizers that train one model on all ranks.

Each function wraps a torch.optim.Optimizer, and returns an optimizer of the same class that also
communicates. x_i: parameters of rank i, g_i: its gradients, gamma: learning rate, w_ij: weights.

    DistributedGradientAllreduceOptimizer   x_i <- x_i - gamma mean_j(g_j)
    DistributedAdaptWithCombineOptimizer    x_i <- sum_j(w_ij x_j) - gamma g_i
    DistributedAdaptThenCombineOptimizer    x_i <- sum_j(w_ij (x_j - gamma g_j))

(BlueFog: AWC and ATC.) Making one is collective, and raises Mismatch if the models of two ranks
differ in more than values; broadcast_parameters() gives them equal values. Parameters have to be
dense, on the CPU or on CUDA, and of one of Weft's floating types. From then on they are contiguous
views of segments. What else changes parameters (clipping of weights, for example) belongs after
step() and before the next forward(). Frozen parameters are not exchanged.

num_steps_per_communication = J > 1 is for both ways to communicate less often:

    J times backward(), then one step()      the gradients add up, then all is as above
    J times backward() and step()            J - 1 steps are local, and the last one is as above

All ranks call step() equally often, except with the optimizers that follow. A step() without a new
backward() is one more step with the same gradients, and for J = 1 it communicates as well.

Three optimizers work through windows (weft.torch.windows). x_j and p_j are what has come from rank
j so far. With `force_barrier = False` no rank waits for another one, and ranks may take different
numbers of steps. With True all ranks meet in each round.

    DistributedWinPutOptimizer     x_i <- sum_j(w_ij x_j) - gamma g_i, with what the others have put
    DistributedPullGetOptimizer    the same, with what this rank has got from the others
    DistributedPushSumOptimizer    x_i <- sum_j(a_ij (x_j - gamma g_j)), p_i <- sum_j(a_ij p_j);
                                   the gradients are those at x_i / p_i (stochastic gradient push)

While such an optimizer exists, the graph cannot be changed. unregister_window(), which is
collective, ends its windows.
"""

from __future__ import annotations

import warnings
from typing import Any, Optional

from weft._operations import CompressionLike
from weft.torch._combining import AdaptThenCombine, AdaptWithCombine, CommunicationType
from weft.torch._gradients import GradientAllreduce
from weft.torch._optimizer import Models, make_distributed
from weft.torch._windowed import PullGet, PushSum, WinPut

__all__ = [
    "CommunicationType",
    "DistributedAdaptThenCombineOptimizer",
    "DistributedAdaptWithCombineOptimizer",
    "DistributedAllreduceOptimizer",
    "DistributedGradientAllreduceOptimizer",
    "DistributedHierarchicalNeighborAllreduceOptimizer",
    "DistributedNeighborAllreduceOptimizer",
    "DistributedPullGetOptimizer",
    "DistributedPushSumOptimizer",
    "DistributedWinPutOptimizer",
]

# The optimizers are typed as Any: they have the class of the optimizer that is wrapped, and more.


def DistributedGradientAllreduceOptimizer(
    optimizer: Any,
    model: Models,
    num_steps_per_communication: int = 1,
    compression: CompressionLike = "none",
    error_feedback: bool = False,
) -> Any:
    """Averages the gradients of all ranks while backward() computes, then adapts.

    The result also has synchronize(), after which the gradients are the averages, for clipping:

        loss.backward()
        optimizer.synchronize()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    Args:
        optimizer: what adapts the parameters.
        model: a module or a list of modules that have all parameters of the optimizer.
        num_steps_per_communication: passes of backward() per communication.
        compression: "f16", "bf16", "sketch", "e4m3" or "e5m2": gradients of float32 on the CPU travel in fewer bytes.
        error_feedback: what compression takes is added to the next communication.
    """
    return make_distributed(
        GradientAllreduce,
        optimizer,
        model,
        num_steps_per_communication,
        compression,
        error_feedback,
    )


def DistributedAdaptWithCombineOptimizer(
    optimizer: Any,
    model: Models,
    communication_type: CommunicationType = CommunicationType.neighbor_allreduce,
    num_steps_per_communication: int = 1,
    compression: CompressionLike = "none",
    error_feedback: bool = False,
) -> Any:
    """Combines the parameters of the ranks, and adapts by gradients at the parameters before.

    The exchange starts with the model's forward(), if the model is in training mode and gradients
    are on, and goes on beside forward() and backward(). The result has the attributes self_weight,
    src_weights, dst_weights, src_machine_weights, dst_machine_weights (the arguments of
    neighbor_allreduce() and its hierarchical form), enable_topo_check and communication_type. Set
    before forward(), they count for the next exchange.

    Args:
        optimizer: what adapts the parameters.
        model: a module or a list of modules that have all parameters of the optimizer.
        communication_type: how the parameters are combined.
        num_steps_per_communication: passes of forward() per communication.
        compression: "f16", "bf16", "sketch", "e4m3" or "e5m2": models of float32 on the CPU travel in fewer bytes.
        error_feedback: what compression takes is added to the next communication.
    """
    result = make_distributed(
        AdaptWithCombine, optimizer, model, num_steps_per_communication, compression, error_feedback
    )
    result.communication_type = communication_type
    return result


def DistributedAdaptThenCombineOptimizer(
    optimizer: Any,
    model: Models,
    communication_type: CommunicationType = CommunicationType.neighbor_allreduce,
    num_steps_per_communication: int = 1,
    compression: CompressionLike = "none",
    error_feedback: bool = False,
) -> Any:
    """Adapts the parameters, then combines those of the ranks.

    The optimizer's step is done in parts inside backward(), as soon as the gradients of a part of
    the parameters are complete, and the exchange of the part starts then. So what changes gradients
    between backward() and step(), as clipping does, comes too late here. The optimizer has to treat
    each parameter by itself, as those of torch do (not LBFGS), or by a function of yours:
    `result.register_step_function(function)` with function(optimizer, parameter, gradient, group).
    The result has the attributes of DistributedAdaptWithCombineOptimizer(). Set before backward(),
    they count for the next exchange.

    Args:
        optimizer: what adapts the parameters.
        model: a module or a list of modules that have all parameters of the optimizer.
        communication_type: how the parameters are combined.
        num_steps_per_communication: passes of backward() per communication.
        compression: "f16", "bf16", "sketch", "e4m3" or "e5m2": models of float32 on the CPU travel in fewer bytes.
        error_feedback: what compression takes is added to the next communication.
    """
    result = make_distributed(
        AdaptThenCombine, optimizer, model, num_steps_per_communication, compression, error_feedback
    )
    result.communication_type = communication_type
    return result


def DistributedWinPutOptimizer(
    optimizer: Any,
    model: Models,
    num_steps_per_communication: int = 1,
    window_prefix: Optional[str] = None,
    compression: CompressionLike = "none",
) -> Any:
    """Puts the parameters to the out-neighbors during forward(), averages in step(), and adapts.

    The result has the attributes dst_weights (of win_put()), self_weight and neighbor_weights (of
    win_update()), which count for the next round, and force_barrier, which is False at first.

    Args:
        optimizer: what adapts the parameters.
        model: a module or a list of modules that have all parameters of the optimizer.
        num_steps_per_communication: passes of forward() per communication.
        window_prefix: how the names of the windows begin; None: a name of the optimizer's own.
        compression: "f16", "bf16", "sketch", "e4m3" or "e5m2": models of float32 on the CPU travel in fewer bytes.
    """
    return make_distributed(
        WinPut,
        optimizer,
        model,
        num_steps_per_communication,
        compression,
        _prefix=window_prefix,
    )


def DistributedPullGetOptimizer(
    optimizer: Any,
    model: Models,
    num_steps_per_communication: int = 1,
    window_prefix: Optional[str] = None,
) -> Any:
    """Gets the parameters of the in-neighbors during forward(), averages in step(), and adapts.

    The result has the attributes src_weights (of win_get()), self_weight and neighbor_weights (of
    win_update()), which count for the next round, and force_barrier, which is False at first. The
    arguments are those of DistributedWinPutOptimizer(), but for `compression`: nobody encodes what
    a get reads.
    """
    return make_distributed(
        PullGet, optimizer, model, num_steps_per_communication, _prefix=window_prefix
    )


def DistributedPushSumOptimizer(
    optimizer: Any,
    model: Models,
    num_steps_per_communication: int = 1,
    window_prefix: Optional[str] = None,
    compression: CompressionLike = "none",
) -> Any:
    """Adapts, then gives a part of the parameters and of their weight to each out-neighbor.

    The graph may be directed, and its weights need not be doubly stochastic: the ranks agree on the
    mean all the same. The result has the attributes self_weight and dst_weights, whose sum is 1
    (None: equal parts), which count for the next round, and force_barrier, which is True at first as
    in BlueFog. Without the barrier, a rank that has given away almost all, because nothing came,
    keeps the rest until something comes, and a rank whose p is below 1 applies p of its step. The
    arguments are those of DistributedWinPutOptimizer().
    """
    return make_distributed(
        PushSum,
        optimizer,
        model,
        num_steps_per_communication,
        compression,
        _prefix=window_prefix,
    )


def DistributedAllreduceOptimizer(
    optimizer: Any, model: Models, num_steps_per_communication: int = 1
) -> Any:
    """BlueFog's old name of DistributedAdaptWithCombineOptimizer() with allreduce."""
    return _renamed(optimizer, model, CommunicationType.allreduce, num_steps_per_communication)


def DistributedNeighborAllreduceOptimizer(
    optimizer: Any, model: Models, num_steps_per_communication: int = 1
) -> Any:
    """BlueFog's old name of DistributedAdaptWithCombineOptimizer() with neighbor_allreduce."""
    kind = CommunicationType.neighbor_allreduce
    return _renamed(optimizer, model, kind, num_steps_per_communication)


def DistributedHierarchicalNeighborAllreduceOptimizer(
    optimizer: Any, model: Models, num_steps_per_communication: int = 1
) -> Any:
    """BlueFog's old name of DistributedAdaptWithCombineOptimizer(), hierarchical."""
    kind = CommunicationType.hierarchical_neighbor_allreduce
    return _renamed(optimizer, model, kind, num_steps_per_communication)


def _renamed(optimizer: Any, model: Models, kind: CommunicationType, steps: int) -> Any:
    warnings.warn(
        "use DistributedAdaptWithCombineOptimizer(optimizer, model, "
        f"CommunicationType.{kind.name})",
        PendingDeprecationWarning,
        stacklevel=3,
    )
    return DistributedAdaptWithCombineOptimizer(optimizer, model, kind, steps)
