"""torch.distributed's allreduce on weft against gloo, on the ranks of this machine.

    python bench/python/distributed.py [--ranks 2 4] [--rounds 9] [--sizes 4096 …]

For each number of ranks, one job has a group of each backend. Rounds of both are interleaved, so a
load of the machine meets both. One JSON line for each number of ranks and size:

    {"ranks": 2, "bytes": 4096, "weft_us": 21.0, "gloo_us": 310.2, "ratio": 14.8, …}

weft_us and gloo_us are medians over the rounds of the time of a call at rank 0, in microseconds;
weft_spread and gloo_spread are the interquartile range divided by the median; ratio is gloo/weft.
The tensors are ordinary torch tensors of float32.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from typing import Any

import torch
import torch.distributed as dist
from jobs import in_turn, launch, spread

KIB, MIB = 1 << 10, 1 << 20
SIZES = (4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB)


def calls_in_round(size: int, quick: bool) -> int:
    """About as much time for each size; at least two calls."""
    calls = min(200, max(2, (32 * MIB) // size))
    return max(2, calls // 4) if quick else calls


def time_round(x: torch.Tensor, group: Any, calls: int) -> float:
    """Microseconds of one call."""
    dist.barrier(group)
    begin = time.perf_counter()
    for _ in range(calls):
        dist.all_reduce(x, group=group)
    return (time.perf_counter() - begin) / calls * 1e6


def measure(size: int, rounds: int, quick: bool, groups: Any) -> Any:
    x = torch.zeros(size // 4)
    calls = calls_in_round(size, quick)

    def side(group: Any) -> Any:
        return lambda: time_round(x, group, calls)

    return in_turn(rounds, **{name: side(group) for name, group in groups.items()})


def rank_main(options: argparse.Namespace) -> None:
    import weft.torch.distributed

    weft.torch.distributed.register()
    torch.set_num_threads(1)
    dist.init_process_group("weft")
    groups = {"weft": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    for size in options.sizes:
        times = measure(size, options.rounds, options.quick, groups)
        if dist.get_rank() != 0:
            continue
        line = {"ranks": dist.get_world_size(), "bytes": size}
        for name in groups:
            line[f"{name}_us"] = round(statistics.median(times[name]), 1)
            line[f"{name}_spread"] = round(spread(times[name]), 2)
        line["ratio"] = round(line["gloo_us"] / line["weft_us"], 2)
        print(json.dumps(line), flush=True)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="bytes")
    parser.add_argument("--quick", action="store_true", help="fewer calls in a round")
    options = parser.parse_args()
    if options.rounds < 2 or min(options.sizes) < 4 or min(options.ranks) < 1:
        parser.error("at least 2 rounds, 4 bytes and 1 rank")
    if "RANK" in os.environ:
        rank_main(options)
        return
    words = ["--rounds", str(options.rounds), "--sizes", *map(str, options.sizes)]
    for ranks in options.ranks:
        launch(ranks, os.path.abspath(__file__), *words, *["--quick"] * options.quick)


if __name__ == "__main__":
    main()
