"""What the programs of this folder share: jobs of ranks on this machine, and medians of rounds in turn."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from typing import Callable, Dict, List

import torch.distributed as dist

LIMIT_S = 500  # of one job


def launch(ranks: int, *command: str) -> None:
    """One job, whose ranks run this program with the seat that torchrun would give them."""
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    jobs = []
    for rank in range(ranks):
        seat = {
            "RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(store.port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
        }
        jobs.append(subprocess.Popen([sys.executable, *command], env={**os.environ, **seat}))
    end = time.monotonic() + LIMIT_S
    try:
        codes = [job.wait(max(0.1, end - time.monotonic())) for job in jobs]
    finally:
        for job in jobs:
            job.kill()
    if any(codes):
        sys.exit(f"a rank of {ranks} failed: exit codes {codes}")


def in_turn(rounds: int, **sides: Callable[[], float]) -> Dict[str, List[float]]:
    """The times of the sides, one after the other in each round; the first round warms up."""
    times: Dict[str, List[float]] = {name: [] for name in sides}
    for turn in range(rounds + 1):
        for name, side in sides.items():
            took = side()
            if turn:
                times[name].append(took)
    return times


def spread(times: List[float]) -> float:
    """The interquartile range divided by the median."""
    low, _, high = statistics.quantiles(times, n=4)
    return (high - low) / statistics.median(times)
