"""Steps of training over weft and over gloo, on the ranks of this machine.

    python bench/python/steps.py [--ranks 2 4] [--rounds 11] [--only ddp …]

One job for each number of ranks has a process group of each backend, whose rounds are interleaved. Rank 0
prints one JSON line for each way:

    ddp         DistributedDataParallel with a model of 10 MB, a batch of 32
    fsdp        the same model by fully_shard() on a mesh of CPUs
    gradients   the 161 gradients of ResNet-50: hvd.allreduce_async_() of each, beside the hook of DDP, which is
                given them by a backward() that computes nothing
    message     send and recv to and fro between two ranks, for each size; a time is that of one message

weft_us and gloo_us are medians over the rounds of the time of a step, ratio is the median of gloo / weft.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from typing import Any, Callable, Dict, Iterator, List, Tuple

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

import weft.horovod as hvd
import weft.torch
from jobs import in_turn, launch

BATCH = 32
MESSAGES = (4, 64 << 10, 4 << 20)
Sides = Dict[str, Callable[[], None]]


def make_model() -> nn.Sequential:
    """2.6 million parameters."""
    torch.manual_seed(1)
    return nn.Sequential(
        *(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU()),
        *(nn.Linear(1024, 720), nn.ReLU(), nn.Linear(720, 10)),
    )


def training_step(model: nn.Module) -> Callable[[], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    pixels, digits = torch.randn(BATCH, 784), torch.randint(10, (BATCH,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(pixels), digits).backward()
        optimizer.step()

    return step


def ddp(groups: Any) -> Sides:
    return {
        name: training_step(nn.parallel.DistributedDataParallel(make_model(), process_group=group))
        for name, group in groups.items()
    }


def fsdp(groups: Any) -> Sides:
    sides = {}
    for name, group in groups.items():
        model, mesh = make_model(), DeviceMesh.from_group(group, "cpu")
        for layer in model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        sides[name] = training_step(fully_shard(model, mesh=mesh))
    return sides


def resnet50_shapes() -> Iterator[Tuple[int, ...]]:
    """Of the parameters, in their order: weights of convolutions, and two vectors of each normalization."""

    def convolution(outputs: int, inputs: int, width: int) -> Iterator[Tuple[int, ...]]:
        yield from ((outputs, inputs, width, width), (outputs,), (outputs,))

    yield from convolution(64, 3, 7)
    inputs = 64
    for planes, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            yield from convolution(planes, inputs, 1)
            yield from convolution(planes, planes, 3)
            yield from convolution(4 * planes, planes, 1)
            if block == 0:
                yield from convolution(4 * planes, inputs, 1)
            inputs = 4 * planes
    yield from ((1000, inputs), (1000,))


class Given(torch.autograd.Function):
    """Its gradients are there already."""

    @staticmethod
    def forward(ctx: Any, gradients: List[torch.Tensor], *parameters: Any) -> torch.Tensor:
        ctx.gradients = gradients
        return torch.zeros(())

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        return (None, *ctx.gradients)


class Holder(nn.Module):
    """Parameters whose gradients backward() does not compute."""

    def __init__(self, gradients: List[torch.Tensor]) -> None:
        super().__init__()
        self.gradients = gradients
        self.all = nn.ParameterList(torch.zeros(each.shape) for each in gradients)

    def forward(self) -> torch.Tensor:
        loss: torch.Tensor = Given.apply(self.gradients, *self.all)
        return loss


def gradients(groups: Any) -> Sides:
    given = [torch.ones(shape) for shape in resnet50_shapes()]
    own = [each.clone() for each in given]
    model = nn.parallel.DistributedDataParallel(
        Holder(given), process_group=groups["gloo"], gradient_as_bucket_view=True
    )

    def by_name() -> None:
        # The last layer's gradient comes first.
        handles = [
            hvd.allreduce_async_(each, name=f"gradient.{place}")
            for place, each in reversed(list(enumerate(own)))
        ]
        for handle in handles:
            hvd.synchronize(handle)

    return {"weft": by_name, "gloo": lambda: model().backward()}


def message(groups: Any, size: int) -> Sides:
    buffer = torch.zeros(size // 4)

    def to_and_fro(group: Any) -> Callable[[], None]:
        def step() -> None:
            if dist.get_rank() == 0:
                dist.send(buffer, 1, group=group)
                dist.recv(buffer, 1, group=group)
            elif dist.get_rank() == 1:
                dist.recv(buffer, 0, group=group)
                dist.send(buffer, 0, group=group)

        return step

    return {name: to_and_fro(group) for name, group in groups.items()}


def timed(step: Callable[[], None], steps: int) -> Callable[[], float]:
    def round_of_steps() -> float:
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        return (time.perf_counter() - begin) / steps * 1e6

    return round_of_steps


def say(way: str, sides: Sides, rounds: int, steps: int, **more: Any) -> None:
    parts = more.pop("parts", 1)
    times = in_turn(rounds, **{name: timed(step, steps) for name, step in sides.items()})
    if dist.get_rank() == 0:
        line = {f"{name}_us": round(statistics.median(took) / parts, 1) for name, took in times.items()}
        ratio = statistics.median(gloo / weft for gloo, weft in zip(times["gloo"], times["weft"]))
        found = {"way": way, "ranks": dist.get_world_size(), **more, **line, "ratio": round(ratio, 3)}
        print(json.dumps(found), flush=True)


def rank_main(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("weft")
    groups = {"weft": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    hvd.init()
    for way, make, steps in (("ddp", ddp, 10), ("fsdp", fsdp, 10), ("gradients", gradients, 3)):
        if way in options.only:
            say(way, make(groups), options.rounds, steps)
    if "message" in options.only and dist.get_world_size() == 2:
        for size in MESSAGES:
            calls = 100 if size < MESSAGES[-1] else 10
            say("message", message(groups, size), options.rounds, calls, bytes=size, parts=2)
    hvd.shutdown()
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=11)
    ways = ["ddp", "fsdp", "gradients", "message"]
    parser.add_argument("--only", nargs="+", choices=ways, default=ways)
    options = parser.parse_args()
    if "RANK" in os.environ:
        rank_main(options)
        return
    words = ("--rounds", str(options.rounds), "--only", *options.only)
    for ranks in options.ranks:
        launch(ranks, os.path.abspath(__file__), *words)


if __name__ == "__main__":
    main()
