"""Training steps of the digits CNN (examples/python/digits.py) on the ranks of this machine.

    python bench/python/training.py [--ranks 2] [--rounds 15] [--steps 40]

One job trains the same network in several ways, whose rounds are interleaved. Rank 0 prints one JSON
line. Its figures are medians over the rounds of the time of a step, in microseconds:

    ddp_weft_us, ddp_gloo_us   DistributedDataParallel over each backend
    compute_us                 forward, backward and step of the plain optimizer, no communication
    exchange_us                neighbor_allreduce of all parameters as one tensor, nothing else
    awc_us                     DistributedAdaptWithCombineOptimizer: an exchange beside the compute

ddp_ratio is the median over the rounds of ddp_gloo_us / ddp_weft_us, and awc_ratio that of awc_us over
the greater of compute_us and exchange_us.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import sys
import time
from typing import Any, Callable

import torch
import torch.distributed as dist
from torch import nn

import weft.torch as bf
import weft.torch.distributed
from jobs import in_turn, launch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples" / "python"))

from digits import make_model  # noqa: E402
from images import DATA, read_digits  # noqa: E402

BATCH = 32


def time_steps(step: Callable[[], None], steps: int) -> float:
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    return (time.perf_counter() - begin) / steps * 1e6


class Training:
    """A model with its optimizer, and a step over the same images."""

    def __init__(self, model: Any, optimizer: Any, images: Any) -> None:
        self.model, self.optimizer, self.images = model, optimizer, images

    def step(self) -> None:
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.model(self.images[0]), self.images[1]).backward()
        self.optimizer.step()


def plain(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)


def rank_main(options: argparse.Namespace) -> None:
    weft.torch.distributed.register()
    torch.set_num_threads(1)
    dist.init_process_group("weft")
    groups = {"weft": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    bf.init()
    pixels, digits = read_digits(DATA)
    images = (pixels[:BATCH], digits[:BATCH])

    def of_ddp(group: Any) -> Training:
        model = nn.parallel.DistributedDataParallel(make_model(), process_group=group)
        return Training(model, plain(model), images)

    alone = make_model()
    together = make_model()
    combining = bf.DistributedAdaptWithCombineOptimizer(plain(together), together)
    flat = torch.zeros(sum(one.numel() for one in alone.parameters()))
    trainings = {f"ddp_{name}": of_ddp(group) for name, group in groups.items()}
    trainings["compute"] = Training(alone, plain(alone), images)
    trainings["awc"] = Training(together, combining, images)
    steps = {name: training.step for name, training in trainings.items()}
    steps["exchange"] = lambda: bf.neighbor_allreduce(flat)

    def side(step: Callable[[], None]) -> Callable[[], float]:
        return lambda: time_steps(step, options.steps)

    times = in_turn(options.rounds, **{name: side(step) for name, step in steps.items()})
    if dist.get_rank() == 0:
        line = {f"{name}_us": round(statistics.median(took), 1) for name, took in times.items()}
        line["ddp_ratio"] = round(
            statistics.median(g / w for g, w in zip(times["ddp_gloo"], times["ddp_weft"])), 3
        )
        line["awc_ratio"] = round(
            statistics.median(
                awc / max(compute, exchange)
                for awc, compute, exchange in zip(times["awc"], times["compute"], times["exchange"])
            ),
            3,
        )
        print(json.dumps({"ranks": dist.get_world_size(), **line}), flush=True)
    bf.shutdown()
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=40, help="of a round")
    options = parser.parse_args()
    if "RANK" in os.environ:
        rank_main(options)
        return
    for ranks in options.ranks:
        words = ("--rounds", str(options.rounds), "--steps", str(options.steps))
        launch(ranks, os.path.abspath(__file__), *words)


if __name__ == "__main__":
    main()
