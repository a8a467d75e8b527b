"""Optimizers that train by a strategy (docs/strategies.md has the formula of each).

    optimizer = bf.DistributedDiLoCoOptimizer(torch.optim.AdamW(model.parameters()), model, section=50)
    optimizer = bf.DistributedStrategyOptimizer(model, "qg_dmsgd", lr=0.05)

Making one is collective: the parameters of rank 0 become those of all ranks, and a strategy, options
or parameters that differ are a Mismatch. Parameters have to be dense and of a floating type; from then
on they are views of one segment. Those on CUDA are copied to the host and back in each step of the
strategy, and its arithmetic is done there. Buffers of the model are not exchanged. All ranks
call step() equally often (not with "ad_psgd").

The results also have counts(), with the bytes that this rank has sent, and end(), which is
collective: it takes what is under way and frees the memory of the strategy. Without end() that memory
stays until the job ends. What a strategy keeps from step to step, as the momentum of sections, is not in
state_dict().
"""

from __future__ import annotations

from typing import Any, Optional

import torch

from weft._errors import InvalidArgument
from weft._operations import CompressionLike
from weft.torch._by_strategy import AllSteps, GradientSteps, Sections
from weft.torch._optimizer import Models, make_distributed

__all__ = [
    "DistributedDiLoCoOptimizer",
    "DistributedNoLoCoOptimizer",
    "DistributedStrategyOptimizer",
]


def DistributedDiLoCoOptimizer(
    optimizer: Any,
    model: Models,
    section: int = 10,
    outer_rate: float = 0.7,
    outer_momentum: float = 0.9,
    compression: CompressionLike = "none",
) -> Any:
    """Takes `section` steps alone, then a Nesterov step of all ranks over what they have changed.

    With s the parameters at the start of the section, x those after it, b the outer momentum and R
    the outer rate (DiLoCo):

        d <- mean_j(s - x_j),   m <- b m + d,   s <- s - R (d + b m),   x_i <- s

    Args:
        optimizer: what takes the steps of a section; any of torch's. Its state stays.
        model: a module or a list of modules that have all parameters of the optimizer.
        section: steps between two exchanges.
        outer_rate, outer_momentum: R and b.
        compression: "f16", "bf16", "sketch", "e4m3" or "e5m2": d of float32 travels in fewer bytes.
    """
    options = {"outer_rate": outer_rate, "outer_momentum": outer_momentum}
    return _by_sections("diloco", optimizer, model, section, compression, options)


def DistributedNoLoCoOptimizer(
    optimizer: Any,
    model: Models,
    section: int = 10,
    outer_rate: float = 0.7,
    outer_momentum: float = 0.5,
    seed: int = 1,
) -> Any:
    """The same in random pairs instead of among all ranks, of which none waits for a third one.

    With the mean over the pair (NoLoCo, with its gamma = 1):

        m <- b m + mean_j(s_j + R (x_j - s_j)) - s_i,   s_i <- s_i + m,   x_i <- s_i

    Args:
        optimizer, model, section, outer_rate, outer_momentum: as for DistributedDiLoCoOptimizer().
        seed: of the pairs; the same on all ranks.
    """
    options = {"outer_rate": outer_rate, "outer_momentum": outer_momentum, "seed": seed}
    return _by_sections("noloco", optimizer, model, section, "none", options)


def DistributedStrategyOptimizer(
    model: Models,
    strategy: str,
    lr: float = 0.1,
    momentum: Optional[float] = None,
    section: Optional[int] = None,
    peers: Optional[int] = None,
    seed: Optional[int] = None,
    compression: CompressionLike = "none",
    outer_rate: Optional[float] = None,
    outer_momentum: Optional[float] = None,
    colayers: Optional[int] = None,
    staleness: Optional[int] = None,
    proportion: Optional[int] = None,
    topology: Optional[str] = None,
) -> Any:
    """Trains by any strategy, which takes all steps itself: gradient steps, with or without momentum.

    There is no other optimizer. The result has the parameters of the model that are not frozen, in one
    group, whose "lr" counts for the next step. The iteration begins with the model's forward(), if the
    model is in training mode and gradients are on: what can travel beside the computation starts then.

    Args:
        model: a module or a list of modules.
        strategy: one of weft.strategy_names().
        lr: the rate of the steps; a scheduler may change it, equally on all ranks.
        momentum, section, peers, seed, outer_rate, outer_momentum, colayers, staleness, proportion, topology:
            as for weft.Strategy.
        compression: "f16", "bf16", "sketch", "e4m3" or "e5m2": float32 travels in fewer bytes.
    """
    models = [model] if isinstance(model, torch.nn.Module) else list(model)
    learned = [each for one in models for each in one.parameters() if each.requires_grad]
    options = {
        "rate": lr,
        "momentum": momentum,
        "section": section,
        "peers": peers,
        "seed": seed,
        "outer_rate": outer_rate,
        "outer_momentum": outer_momentum,
        "colayers": colayers,
        "staleness": staleness,
        "proportion": proportion,
        "topology": topology,
    }
    return make_distributed(
        AllSteps,
        GradientSteps(learned, lr),
        models,
        1,
        compression,
        _strategy=strategy,
        _options=options,
    )


def _by_sections(
    strategy: str,
    optimizer: Any,
    model: Models,
    section: int,
    compression: CompressionLike,
    options: Any,
) -> Any:
    if section != int(section) or section < 1:
        raise InvalidArgument(f"section={section} is no positive whole number")
    # The optimizer counts the steps of a section. Each step of the strategy is a section of its own.
    return make_distributed(
        Sections,
        optimizer,
        model,
        section,
        compression,
        _strategy=strategy,
        _options={**options, "section": 1},
    )
