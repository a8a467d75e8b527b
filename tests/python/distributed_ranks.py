"""Starts functions as the ranks of a torch.distributed job, with the variables that torchrun sets.

The processes are forked from a server that has imported what takes long, once for all tests.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import time
import traceback
from multiprocessing.connection import Connection
from typing import Any, Callable, Dict, List, Tuple

import pytest

pytest.importorskip("torch")

import torch.distributed as dist  # noqa: E402

PRELOADED = ["weft.torch", "torch._dynamo", "torch.distributed.fsdp", "torch.distributed.tensor"]

Outcome = Tuple[str, Any]  # ("ok", what the function returned) or ("error", the traceback)


def _function(path: str, name: str) -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location("rank_functions", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def _child(
    path: str, name: str, arguments: Tuple[Any, ...], variables: Dict[str, str], pipe: Connection
) -> None:
    os.environ.update(variables)
    try:
        import torch

        import weft.torch  # noqa: F401

        torch.set_num_threads(1)
        outcome: Outcome = ("ok", _function(path, name)(*arguments))
    except BaseException:
        outcome = ("error", traceback.format_exc())
    pipe.send(outcome)
    pipe.close()


def run_ranks(
    size: int,
    function: Callable[..., Any],
    *arguments: Any,
    timeout: float = 60,
    lost: Tuple[int, ...] = (),
    variables: Dict[str, str] = {},
) -> List[Any]:
    """Runs function(*arguments) on each rank, and returns what each returned, by rank.

    Args:
        function: of the top level of a test's file.
        timeout: seconds until the ranks that are not done are killed and the test fails.
        lost: ranks that end without a result, for which None is returned.
        variables: further environment variables.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    # As torchrun does: the launcher holds the store. Nobody else can take its port.
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    processes, pipes = [], []
    for rank in range(size):
        ours, theirs = context.Pipe(duplex=False)
        seat = {
            "RANK": str(rank),
            "WORLD_SIZE": str(size),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(store.port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_RESTART_COUNT": "0",
        }
        path = function.__code__.co_filename
        process = context.Process(
            target=_child,
            args=(path, function.__name__, arguments, {**seat, **variables}, theirs),
        )
        process.start()
        theirs.close()
        processes.append(process)
        pipes.append(ours)
    try:
        return _collect(processes, pipes, time.monotonic() + timeout, lost)
    finally:
        for process in processes:
            if process.is_alive():
                process.kill()
            process.join()


def _collect(processes: Any, pipes: Any, end: float, lost: Tuple[int, ...]) -> List[Any]:
    results: List[Any] = []
    failures: List[str] = []
    for rank, pipe in enumerate(pipes):
        if not pipe.poll(max(0.0, end - time.monotonic())):
            failures.append(f"rank {rank} was not done in time")
            results.append(None)
            continue
        try:
            kind, value = pipe.recv()
        except EOFError:
            kind, value = "lost", None
        if kind == "error":
            failures.append(f"rank {rank}:\n{value}")
        elif kind == "lost" and rank not in lost:
            failures.append(f"rank {rank} ended without a result")
        results.append(value)
    for process in processes:
        process.join(max(0.0, end - time.monotonic()))
        if process.is_alive():
            failures.append(f"process {process.pid} did not end in time")
    assert not failures, "\n".join(failures)
    return results
