"""Decentralized training by Decent-DP over gloo and by weft.torch: one script, one graph, the same losses.

    python bench/python/decent.py [--ranks 4] [--rounds 9] [--steps 20]       # pip install decent-dp

Both train the same network from the same start on the same images of each rank: x_i <- sum_j(w_ij x_j)
- gamma g_i, the gradient at x_i, over the one-peer exponential graph. The exchange runs beside the
computation. First both take the same steps, and the losses of all ranks at all steps are compared. Then
their rounds are interleaved. Rank 0 prints one JSON line for each network:

    {"ranks": 4, "network": "cnn", "weft_us": 3100.0, "decent_us": 4400.0, "ratio": 1.42, …}

weft_us and decent_us are medians over the rounds of the time of a step, in microseconds; ratio is the
median of decent/weft, so it is that of the steps per second; spread is its interquartile range divided
by it. loss_difference is the largest difference of two losses, relative; last_loss that of rank 0.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import sys
import time
from typing import Any, Callable, Dict, List, Tuple

import torch
import torch.distributed as dist
from decent_dp.ddp import DecentralizedDataParallel
from loguru import logger
from torch import nn

import weft.torch as bf
from jobs import in_turn, launch, spread

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "python"))

from digits import make_model  # noqa: E402
from images import DATA, read_digits  # noqa: E402

BATCH = 16
COMPARED = 40  # steps whose losses are compared
Data = Tuple[torch.Tensor, torch.Tensor]


def make_wide() -> nn.Module:
    """5 MB of parameters, so that the exchange counts."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
    )


NETWORKS: Dict[str, Callable[[], nn.Module]] = {"cnn": make_model, "wide": make_wide}


def plain(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.02, momentum=0.9)


class Decent:
    """Decent-DP steps its optimizers itself, inside backward()."""

    def __init__(self, model: nn.Module) -> None:
        self._model = DecentralizedDataParallel(
            model, lambda named: plain([each for _, each in named]), topology="one-peer-exp"
        )

    def step(self, data: Data) -> float:
        loss = nn.functional.cross_entropy(self._model(data[0]), data[1])
        loss.backward()
        return loss.item()


class Weft:
    """The optimizer is told the neighbor of each step."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._optimizer = bf.DistributedAdaptWithCombineOptimizer(plain(model.parameters()), model)
        self._optimizer.self_weight = 0.5
        self._steps = 0

    def step(self, data: Data) -> float:
        # The exchanges of Decent-DP are over the graphs 1, 3, 4, 5, …: it leaves out the one after the first.
        turn = self._steps + (self._steps >= 2)
        peer = bf.rank() ^ (1 << turn % (bf.size().bit_length() - 1))
        self._optimizer.src_weights = {peer: 0.5}
        self._optimizer.dst_weights = [peer]
        self._steps += 1
        self._optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self._model(data[0]), data[1])
        loss.backward()
        self._optimizer.step()
        return loss.item()


def difference(losses: Dict[str, List[float]]) -> float:
    """The largest of all ranks, relative."""
    pairs = zip(losses["weft"], losses["decent"])
    worst = torch.tensor([max(abs(weft - decent) / decent for weft, decent in pairs)])
    dist.all_reduce(worst, op=dist.ReduceOp.MAX)
    return worst.item()


def compare(network: str, options: argparse.Namespace) -> None:
    torch.manual_seed(1)
    first = NETWORKS[network]()
    trained: Dict[str, Any] = {}
    for name, kind in (("weft", Weft), ("decent", Decent)):
        model = NETWORKS[network]()
        model.load_state_dict(first.state_dict())
        trained[name] = kind(model)
    pixels, digits = read_digits(DATA)
    mine = [slice(begin, begin + BATCH) for begin in range(bf.rank() * 320, bf.rank() * 320 + 320, BATCH)]
    batches = [(pixels[rows], digits[rows]) for rows in mine]
    losses = {
        name: [one.step(batches[step % len(batches)]) for step in range(COMPARED)]
        for name, one in trained.items()
    }

    def side(one: Any) -> Callable[[], float]:
        def round_of_steps() -> float:
            dist.barrier()
            begin = time.perf_counter()
            for step in range(options.steps):
                one.step(batches[step % len(batches)])
            return (time.perf_counter() - begin) / options.steps * 1e6

        return round_of_steps

    apart = difference(losses)
    times = in_turn(options.rounds, **{name: side(one) for name, one in trained.items()})
    ratios = [decent / weft for weft, decent in zip(times["weft"], times["decent"])]
    line = {
        "ranks": dist.get_world_size(),
        "network": network,
        "parameters": sum(each.numel() for each in first.parameters()),
        **{f"{name}_us": round(statistics.median(took), 1) for name, took in times.items()},
        "ratio": round(statistics.median(ratios), 2),
        "spread": round(spread(ratios), 2),
        "loss_difference": apart,
        "last_loss": losses["weft"][-1],
    }
    if dist.get_rank() == 0:
        print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=20, help="of a round")
    options = parser.parse_args()
    if options.ranks not in (2, 4) or options.rounds < 2 or options.steps < 1:
        parser.error("2 or 4 ranks, at least 2 rounds of 1 step")
    if "RANK" not in os.environ:
        words = ("--rounds", str(options.rounds), "--steps", str(options.steps))
        launch(options.ranks, os.path.abspath(__file__), *words)
        return
    logger.remove()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    bf.init()
    for network in NETWORKS:
        compare(network, options)
    bf.shutdown()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
