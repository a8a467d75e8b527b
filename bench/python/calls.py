"""What a call of neighbor_allreduce takes from Python: NumPy arrays and torch tensors of 1,024 float32.

    weft run -n 2 -- python bench/python/calls.py [--calls N]

Rank 0 prints one JSON line. Its figures are medians of single calls in microseconds. The arrays lie
in Weft's segments, as those of `weft perf neighbor_allreduce --sizes 4K` do:

    numpy_us      ctx.neighbor_allreduce(x, out=y)
    numpy_new_us  y = ctx.neighbor_allreduce(x), which makes a new array
    torch_us      y = weft.torch.neighbor_allreduce(x), which makes a new tensor
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any, Callable

import numpy as np
import torch
import weft
import weft.torch as bf

COUNT = 1024


def median_us(call: Callable[[], Any], calls: int) -> float:
    times = []
    for _ in range(calls):
        begin = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - begin)
    return statistics.median(times[calls // 10 :]) / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=20_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    ctx = weft.init()
    x = weft.zeros(COUNT, np.float32)
    y = weft.zeros(COUNT, np.float32)
    tensor = torch.from_numpy(x)
    found = {
        "numpy_us": median_us(lambda: ctx.neighbor_allreduce(x, out=y), options.calls),
        "numpy_new_us": median_us(lambda: ctx.neighbor_allreduce(x), options.calls),
    }
    ctx.close()
    bf.init()
    found["torch_us"] = median_us(lambda: bf.neighbor_allreduce(tensor), options.calls)
    if bf.rank() == 0:
        print(json.dumps({name: round(us, 2) for name, us in found.items()}), flush=True)
    bf.shutdown()


if __name__ == "__main__":
    main()
