"""Optimizers by Weft's asynchronous algorithms: partial all-reduce (Prague) and gradient exchange (Canary).

    optimizer = bf.DistributedPartialAllreduceOptimizer(optimizer, model)
    optimizer = bf.DistributedGradientExchangeOptimizer(optimizer, model, rule="bounded", staleness=4)

Both wrap any optimizer of torch, such as AdamW. Making one is collective: the parameters of rank 0 become
those of all ranks, and options or parameters that differ are a Mismatch. Parameters have to be dense and of one
floating type; from then on they are views of one segment. Those on CUDA are copied to the host and back for each
average, and so are gradients and their means. Buffers of the model are not exchanged. end() is collective, and belongs after the last step; what has not ended stays until the job ends.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

from weft._errors import InvalidArgument
from weft._operations import CompressionLike
from weft.torch._in_groups import InGroups
from weft.torch._in_pieces import InPieces
from weft.torch._optimizer import Models, make_distributed

__all__ = ["DistributedGradientExchangeOptimizer", "DistributedPartialAllreduceOptimizer"]


def DistributedPartialAllreduceOptimizer(
    optimizer: Any,
    model: Models,
    law: str = "smart",
    threshold: int = 2,
    section: int = 1,
    seed: int = 1,
) -> Any:
    """Takes a step alone, then averages the parameters in a small group that a generator makes.

        x_i <- the step of rank i,   x_i <- mean_j(x_j) over the group (Prague)

    A request for a group leaves at the start of an iteration, and the answer comes while the model computes.
    Ranks may take different numbers of steps (not with "static"). Between two steps a rank must not wait for
    what another rank does after a step, as in a collective operation.

    The result also has usage(), and `group`, the ranks of the last average.

    Args:
        optimizer: what takes the steps; any of torch's.
        model: a module or a list of modules that have all parameters of the optimizer.
        law: how groups are made: "smart", "random" or either with a size ("random:2"), "pairs" or "static".
        threshold: smart; a worker is slow if others take so many iterations while it takes one.
        section: averages only after every so many steps.
        seed: of the groups.
    """
    options = {"law": law, "threshold": threshold, "section": section, "seed": seed}
    return make_distributed(InGroups, optimizer, model, 1, _options=options)


# Which rule has which options.
_OPTIONS = {
    "bulk": (),
    "bounded": ("staleness",),
    "asynchronous": (),
    "canary": ("staleness", "proportion"),
}


def DistributedGradientExchangeOptimizer(
    optimizer: Any,
    model: Models,
    rule: str = "canary",
    colayers: Optional[int] = None,
    staleness: Optional[int] = None,
    proportion: Optional[int] = None,
    topology: str = "all_to_all",
    compression: CompressionLike = "none",
) -> Any:
    """Sends gradients in pieces to all ranks while backward() computes, and takes a step with their means.

    A piece is the gradient of a *colayer*: of layers that follow each other in backward(), which
    weft.bundle_layers() chooses. It leaves as soon as backward() has made it. step() takes what has come since
    the last one; with "bulk" those are the gradients of all ranks.

    The result also has synchronize(), after which the gradients are the means, and counts(). Ranks may take
    different numbers of steps with "asynchronous" and "canary". The graph becomes the fully connected one.

    Args:
        optimizer: what takes the steps; any of torch's. It takes none where gradients were dropped.
        model: a module or a list of modules that have all parameters of the optimizer.
        rule: whom a step waits for. "bulk": all ranks. "bounded": those that are `staleness` iterations
            behind. "asynchronous" and "canary": nobody. With "canary" a rank that is more than `staleness`
            behind, and has pushed less than `proportion` colayers, drops its gradients and takes the
            parameters of the fastest.
        colayers: how many; 10 if absent, or one for each layer if those are fewer.
        staleness: iterations; 18 if absent.
        proportion: colayers; six of ten if absent.
        topology: "all_to_all": pieces go to all ranks. "mesh": shares of pieces go to their owners, who send the
            means to all, in less than 2 models a step.
        compression: "f16", "bf16", "sketch", "e4m3" or "e5m2": float32 travels in fewer bytes. What that loses is
            added to later pieces.
    """
    given = {"staleness": staleness, "proportion": proportion}
    options: Dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name, value in options.items():
        if name not in _OPTIONS.get(rule, given):
            raise InvalidArgument(f'{name}={value}: the rule "{rule}" has no {name}')
    options.update(rule=rule, topology=topology, compression=compression)
    return make_distributed(InPieces, optimizer, model, 1, _options=options, _colayers=colayers)
