"""DistributedOptimizer: an optimizer that steps on what all ranks have computed."""

from __future__ import annotations

from typing import Any, Optional

import torch

from weft.horovod._adasum import Adasum
from weft.horovod._averaging import Averaging, Options
from weft.horovod._basics import size
from weft.horovod._buckets import Groups
from weft.horovod._compression import Compression, CompressorLike, encoding_of
from weft.horovod._delta_optimizer import Delta
from weft.horovod._objects import Parameters
from weft.horovod._process_sets import ProcessSet
from weft.horovod._reductions import Average


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters: Optional[Parameters] = None,
    compression: Optional[CompressorLike] = None,
    backward_passes_per_step: int = 1,
    op: str = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    sparse_as_dense: bool = False,
    process_set: Optional[ProcessSet] = None,
    error_feedback: bool = False,
) -> Any:
    """An optimizer of the same class and state, which steps on gradients reduced over all ranks.

    Gradients are submitted by name as backward() makes them, so they travel beside the rest of it.

    Args:
        named_parameters: names that are the same on all ranks; None: by their place.
        compression: Compression.fp16 halves what travels, Compression.sketch leaves a quarter of it.
        backward_passes_per_step: passes whose gradients add up before they are reduced.
        gradient_predivide_factor: with an average, divides gradients by it before they are summed,
            and the sum by the rest.
        op: Average, Sum, or Adasum, with which each rank steps by itself, and the changes are reduced.
        groups: so many groups of parameters, each of which travels whole, or lists of the
            parameters of each group; None or 0: each by itself. num_groups is Horovod's old name.
        sparse_as_dense: sparse gradients travel as dense ones, and are sparse again after it. Else the ranks gather their entries,
            of which a rank that does not use the parameter has none.
        process_set: the ranks that average their gradients. The others step by themselves.
        error_feedback: what Compression.sketch takes from a gradient is added to the next one. That
            takes the memory of one more gradient. Not Horovod's.
    """
    chosen = num_groups if groups is None else groups
    if backward_passes_per_step < 1 or (isinstance(chosen, int) and chosen < 0):
        raise ValueError("backward_passes_per_step must be positive, groups not negative")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise ValueError("gradient_predivide_factor needs op=Average")
    how = compression or Compression.none
    if error_feedback and encoding_of(how) == "none":
        raise ValueError("error_feedback needs compression=Compression.sketch")
    if op == Adasum and size() > 1:
        wrapped = _mixed(Delta, optimizer)
        wrapped._begin(named_parameters, how, process_set)
        return wrapped
    wrapped = _mixed(Averaging, optimizer)
    options = Options(
        op, how, process_set, sparse_as_dense, error_feedback, gradient_predivide_factor
    )
    wrapped._begin(named_parameters, backward_passes_per_step, options, chosen)
    return wrapped


def _mixed(mixin: type, optimizer: torch.optim.Optimizer) -> Any:
    """An optimizer of the same class and state, with the functions of the mixin before its own."""
    base = type(optimizer)
    made: Any = type(base.__name__, (mixin, base), {"_base": base})
    wrapped = made.__new__(made)
    wrapped.__dict__.update(optimizer.__dict__)
    return wrapped
