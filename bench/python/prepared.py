"""What prepared operations take from Python, beside the calls and beside NIXL's transfers.

    weft run -n 2 -- python bench/python/prepared.py

Rank 0 prints JSON lines: what it ran, the bytes, and medians of rounds in microseconds. `call_us` is the
call with its arguments, `prepared_us` a run of Context.prepare() or Window.prepare_write(). With NIXL
installed, rank 0 also writes the same number of bytes to another process by a transfer that is made
once and posted again and again (`nixl_us`); the three take turns.
"""

from __future__ import annotations

import json
import multiprocessing
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


def in_turn(ctx: weft.Context, calls: int, **ways: Callable[[], Any]) -> Dict[str, float]:
    """The median time of each way, over rounds in which they take turns."""
    found: Dict[str, List[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            ctx.barrier()
            found[name].append(one_us(way, calls))
    ctx.barrier()
    return {name: round(statistics.median(times), 3) for name, times in found.items()}


def nixl_target(size: int, pipe: Any) -> None:
    """Memory that another process writes, until the pipe says that it is enough."""
    agent, memory, _ = nixl_agent_with("target", size)
    pipe.send((agent.get_agent_metadata(), memory.ctypes.data))
    pipe.recv()


def nixl_agent_with(name: str, size: int) -> Any:
    from nixl._api import nixl_agent, nixl_agent_config

    agent = nixl_agent(name, nixl_agent_config(backends=["UCX"]))
    memory = np.zeros(size, np.uint8)
    registered = agent.register_memory([(memory.ctypes.data, size, 0, "")], "DRAM")
    return agent, memory, registered


class NixlWrite:
    """A write of NIXL to a process of its own."""

    def __init__(self, size: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=nixl_target, args=(size, theirs), daemon=True)
        self._process.start()
        self._agent, self._memory, self._registered = nixl_agent_with("initiator", size)
        metadata, address = self._pipe.recv()
        peer = self._agent.add_remote_agent(metadata)
        here = self._agent.get_xfer_descs([(self._memory.ctypes.data, size, 0)], "DRAM")
        there = self._agent.get_xfer_descs([(address, size, 0)], "DRAM")
        self._transfer = self._agent.initialize_xfer("WRITE", here, there, peer)

    def __call__(self) -> None:
        state = self._agent.transfer(self._transfer)
        while state != "DONE":
            if state == "ERR":
                raise RuntimeError("NIXL's transfer failed")
            state = self._agent.check_xfer_state(self._transfer)

    def end(self) -> None:
        self._pipe.send(None)
        self._process.join(10)


def nixl_write(size: int) -> Optional[NixlWrite]:
    try:
        import nixl._api  # noqa: F401
    except ImportError:
        return None
    return NixlWrite(size)


def say(ctx: weft.Context, what: str, size: int, found: Dict[str, float]) -> None:
    if ctx.rank == 0:
        print(json.dumps({"op": what, "bytes": size, **found}), flush=True)


def main() -> None:
    ctx = weft.init()
    x, y = weft.zeros(1, np.float32), weft.zeros(1, np.float32)
    step = ctx.prepare("allreduce", x, y, op="sum")
    say(ctx, "allreduce", 4, in_turn(
        ctx, 20_000, call_us=lambda: ctx.allreduce(x, y, op="sum"), prepared_us=step.run))  # fmt: skip
    for size in SIZES:
        own, source = weft.zeros(size, np.uint8), np.zeros(size, np.uint8)
        window = ctx.win_create(own, "own")
        page = window.prepare_write(1 - ctx.rank, source)
        other = nixl_write(size) if ctx.rank == 0 else None
        ways = {"call_us": lambda: window.write(1 - ctx.rank, source), "prepared_us": page.run}
        if ctx.rank != 0:  # it takes part in nothing but the barriers
            ways = {name: lambda: None for name in ways}
        has_nixl = bool(ctx.broadcast(np.array([other is not None], np.uint8))[0])
        if has_nixl:
            ways["nixl_us"] = other if other is not None else lambda: None
        say(ctx, "write", size, in_turn(ctx, 5_000, **ways))
        if other is not None:
            other.end()
        ctx.win_free("own")


if __name__ == "__main__":
    main()
