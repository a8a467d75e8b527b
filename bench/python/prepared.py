"""What prepared operations take from Python, beside the calls and beside NIXL's transfers.

    weft run -n 2 -- python bench/python/prepared.py

Rank 0 prints JSON lines: what it ran, the bytes, and medians of rounds in microseconds. `call_us` is the
call with its arguments, `prepared_us` a run of Context.prepare() or Window.prepare_write(). With NIXL
installed, rank 0 also writes the same number of bytes to another process by a transfer that is made
once and posted again and again (`nixl_us`); the three take turns.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import statistics
import time
from typing import Any, Callable, Dict, List, Optional

import numpy as np
import weft

ROUNDS = 9
SIZES = (4096, 65536)


def one_us(call: Callable[[], Any], calls: int) -> float:
    begin = time.perf_counter_ns()
    for _ in range(calls):
        call()
    return (time.perf_counter_ns() - begin) / calls / 1e3


def in_turn(ctx: weft.Context, calls: int, **ways: Callable[[int], float]) -> Dict[str, float]:
    """The median time of each way, over rounds in which they take turns; a way times its own calls."""
    found: Dict[str, List[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            ctx.barrier()
            found[name].append(way(calls))
    ctx.barrier()
    return {name: round(statistics.median(times), 3) for name, times in found.items()}


def timed(call: Callable[[], Any]) -> Callable[[int], float]:
    return lambda calls: one_us(call, calls)


def nixl_target(size: int, pipe: Any) -> None:
    """Memory that another process writes, until the pipe says that it is enough."""
    agent, memory, _ = nixl_agent_with("target", size)
    pipe.send((agent.get_agent_metadata(), memory.ctypes.data))
    pipe.recv()
    os._exit(0)  # its libraries do not survive their own end


def nixl_initiator(size: int, pipe: Any) -> None:
    """Times as many writes as the pipe says, again and again."""
    agent, memory, _ = nixl_agent_with("initiator", size)
    metadata, address = pipe.recv()
    peer = agent.add_remote_agent(metadata)
    here = agent.get_xfer_descs([(memory.ctypes.data, size, 0)], "DRAM")
    there = agent.get_xfer_descs([(address, size, 0)], "DRAM")
    transfer = agent.initialize_xfer("WRITE", here, there, peer)

    def write() -> None:
        state = agent.transfer(transfer)
        while state != "DONE":
            if state == "ERR":
                raise RuntimeError("NIXL's transfer failed")
            state = agent.check_xfer_state(transfer)

    while (calls := pipe.recv()) is not None:
        pipe.send(one_us(write, calls))
    os._exit(0)


def nixl_api() -> Any:
    """The module of the package for CUDA 13 or of the one for all; None: neither was installed."""
    for name in ("nixl_cu13._api", "nixl._api"):
        try:
            return importlib.import_module(name)
        except ImportError:
            pass
    return None


def nixl_agent_with(name: str, size: int) -> Any:
    api = nixl_api()
    agent = api.nixl_agent(name, api.nixl_agent_config(backends=["UCX"]))
    memory = np.zeros(size, np.uint8)
    registered = agent.register_memory([(memory.ctypes.data, size, 0, "")], "DRAM")
    return agent, memory, registered


class NixlWrite:
    """Writes of NIXL between two processes of their own."""

    def __init__(self, size: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._ends = []
        for role in (nixl_target, nixl_initiator):
            ours, theirs = context.Pipe()
            process = context.Process(target=role, args=(size, theirs), daemon=True)
            process.start()
            self._ends.append((ours, process))
        self._ends[1][0].send(self._ends[0][0].recv())

    def __call__(self, calls: int) -> float:
        pipe = self._ends[1][0]
        pipe.send(calls)
        took: float = pipe.recv()
        return took

    def end(self) -> None:
        for pipe, process in self._ends:
            pipe.send(None)
            process.join(10)


def nixl_write(size: int) -> Optional[NixlWrite]:
    return None if nixl_api() is None else NixlWrite(size)


def say(ctx: weft.Context, what: str, size: int, found: Dict[str, float]) -> None:
    if ctx.rank == 0:
        print(json.dumps({"op": what, "bytes": size, **found}), flush=True)


def main() -> None:
    ctx = weft.init()
    x, y = weft.zeros(1, np.float32), weft.zeros(1, np.float32)
    step = ctx.prepare("allreduce", x, y, op="sum")
    found = in_turn(
        ctx,
        20_000,
        call_us=timed(lambda: ctx.allreduce(x, y, op="sum")),
        prepared_us=timed(step.run),
    )
    say(ctx, "allreduce", 4, found)
    for size in SIZES:
        own, source = weft.zeros(size, np.uint8), np.zeros(size, np.uint8)
        window = ctx.win_create(own, "own")
        page = window.prepare_write(1 - ctx.rank, source)
        other = nixl_write(size) if ctx.rank == 0 else None
        has_nixl = bool(ctx.broadcast(np.array([other is not None], np.uint8))[0])
        ways: Dict[str, Callable[[int], float]] = {
            "call_us": timed(lambda: window.write(1 - ctx.rank, source)),
            "prepared_us": timed(page.run),
        }
        if has_nixl:
            ways["nixl_us"] = other if other is not None else nothing
        if ctx.rank != 0:  # it takes part in nothing but the barriers
            ways = dict.fromkeys(ways, nothing)
        say(ctx, "write", size, in_turn(ctx, 5_000, **ways))
        if other is not None:
            other.end()
        ctx.win_free("own")


def nothing(_: int) -> float:
    return 0.0


if __name__ == "__main__":
    main()
