"""Ranks for tests: as threads of this process, or as processes under `weft run`.

The tests use the installed package, never the sources.
"""

from __future__ import annotations

import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any, Callable, List, Optional, Sequence

import pytest
import weft

LIMIT_S = 60.0


def as_threads(n: int, body: Callable[[weft.Context], Any], **config: Any) -> List[Any]:
    """body(context) on n ranks that are threads. Returns their results; raises the first error."""
    stores = weft.make_local_stores(n)
    results: List[Any] = [None] * n
    errors: List[Optional[BaseException]] = [None] * n

    def run(rank: int) -> None:
        try:
            settings = weft.Config(**{"deadline_ms": 20_000, **config})
            with weft.Context.create(settings, stores[rank]) as context:
                results[rank] = body(context)
        except BaseException as error:
            errors[rank] = error

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
        assert not thread.is_alive(), "a rank did not end in time"
    for error in errors:
        if error is not None:
            raise error
    return results


def as_processes(
    n: int,
    program: str,
    limit_s: float = LIMIT_S,
    options: Sequence[str] = (),
    **environment: str,
) -> "subprocess.CompletedProcess[str]":
    """The program's text on n ranks under `python -m weft.run` with these options, with their output."""
    import os

    command = [sys.executable, "-m", "weft.run", "-n", str(n), *options, "--"]
    return subprocess.run(
        [*command, sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=limit_s,
        env={**os.environ, **environment},
    )


def alone(program: str, limit_s: float = LIMIT_S) -> "subprocess.CompletedProcess[str]":
    """The program's text in one process, without a launcher."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=limit_s,
    )


def interrupt_a_wait(program: str) -> None:
    """Interrupts a program that prints "ready" before it waits, and "interrupted" afterwards."""
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        until_it_waits(child.pid)
        sent = time.monotonic()
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        assert time.monotonic() - sent < 5
        assert child.wait(LIMIT_S) == 0
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def until_it_waits(process: int) -> None:
    """Returns when the main thread of the process has slept for several looks in a row."""
    asleep = 0
    end = time.monotonic() + LIMIT_S
    while asleep < 5 and time.monotonic() < end:
        with open(f"/proc/{process}/stat") as file:
            state = file.read().rsplit(")", 1)[1].split()[0]
        asleep = asleep + 1 if state == "S" else 0
        select.select([], [], [], 0.005)  # the next look


@pytest.fixture
def context() -> Any:
    """A context of one rank."""
    store = weft.make_local_stores(1)[0]
    with weft.Context.create(weft.Config(deadline_ms=10_000), store) as made:
        yield made
