"""What ranks see when one of them dies, and when a cable is pulled.

    weft run -n 4 --keep-going -- python bench/python/deaths.py error FILE
    WEFT_ON_DEATH=skip weft run -n 16 --restart 1 -- python bench/python/deaths.py skip
    tools/netns -n 2 -r 2 --each python bench/python/deaths.py cable FILE
    tools/netns -n 2 --each python bench/python/deaths.py off FILE
    WEFT_BITS=fixed weft run -n 4 -- python bench/python/deaths.py bits

error   the last rank ends itself by SIGKILL during allreduces of 1 MiB; each other rank prints the seconds until its error
skip    ranks learn digits on the exponential graph; four die, two of which come back. Each rank at the end prints
        the steps that it lost, its accuracy, and how far its model is from the mean of all; with --spared nobody dies
cable   allreduces of 256 KiB while rank 0 has rail 1 of host 1 pulled: the median step and the longest one
off     host 1 is taken off its only rail; each rank prints the seconds until its error
bits    a CRC of the sums of random tensors of 1 to 16 Mi elements (4 B to 64 MiB), the same on all ranks

FILE takes the time of the fault; a JSON line is printed for each result.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import signal
import socket
import statistics
import sys
import time
import zlib
from typing import Any

import numpy as np

import weft

DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "data" / "digits.csv"
TEST_IMAGES = 360
STEPS = 200
DEATHS = {3: 40, 7: 70, 11: 100, 14: 130}  # rank: step
COME_BACK = (3, 7)
RATE = 0.5
WARM_STEPS = 100
CABLE_STEPS_S = 2.0


def say(**found: Any) -> None:
    print(json.dumps(found), flush=True)


def write_time(file: pathlib.Path) -> None:
    beside = file.with_suffix(".new")
    beside.write_text(repr(time.monotonic()), encoding="ascii")
    beside.rename(file)


def say_error(ctx: weft.Context, error: weft.Error, file: pathlib.Path) -> None:
    now = time.monotonic()
    say(rank=ctx.rank, s=now - float(file.read_text(encoding="ascii")), error=type(error).__name__)


def ask_for_cable(words: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as control:
        control.connect(os.environ["NETNS_CONTROL"])
        control.sendall(words.encode() + b"\n")
        answer = control.makefile().readline().strip()
    if answer != "ok":
        raise RuntimeError(f"{words}: {answer}")


def error_at_a_death(ctx: weft.Context, file: pathlib.Path) -> None:
    x = np.ones(1 << 18, np.float32)
    try:
        for step in range(1_000_000):
            if ctx.rank == ctx.size - 1 and step == WARM_STEPS:
                write_time(file)
                os.kill(os.getpid(), signal.SIGKILL)
            ctx.allreduce(x)
    except weft.Error as error:
        say_error(ctx, error, file)


def error_off_the_rail(ctx: weft.Context, file: pathlib.Path) -> None:
    x = np.ones(1 << 16, np.float32)
    try:
        for step in range(1_000_000):
            if ctx.rank == 0 and step == WARM_STEPS:
                write_time(file)
                ask_for_cable("down 1 0")
            ctx.allreduce(x)
    except weft.Error as error:
        say_error(ctx, error, file)


def steps_at_a_cable(ctx: weft.Context, file: pathlib.Path) -> None:
    x, times, pulled = np.zeros(1 << 16, np.float32), [], 0.0
    while True:
        x[0] = ctx.rank == 0 and pulled > 0 and time.monotonic() - pulled > CABLE_STEPS_S
        begin = time.monotonic()
        y = ctx.allreduce(x, op=weft.ReduceOp.max)
        times.append(time.monotonic() - begin)
        if y[0] > 0:
            break
        if ctx.rank == 0 and len(times) == WARM_STEPS:
            pulled = time.monotonic()
            write_time(file)
            ask_for_cable("down 1 1")
    if ctx.rank == 0:
        say(median_ms=1e3 * statistics.median(times[10:WARM_STEPS]), longest_ms=1e3 * max(times[WARM_STEPS:]))


def probabilities(images: np.ndarray, model: np.ndarray) -> np.ndarray:
    scores = np.exp(images @ model - (images @ model).max(axis=1, keepdims=True))
    return scores / scores.sum(axis=1, keepdims=True)


def learn(ctx: weft.Context, spared: bool) -> None:
    table = np.loadtxt(DIGITS, delimiter=",", skiprows=1)
    table = table[np.random.default_rng(0).permutation(len(table))]
    images = np.hstack([table[:, :64] / 16, np.ones((len(table), 1))])
    digits = table[:, 64].astype(int)
    mine = slice(TEST_IMAGES + ctx.rank, None, ctx.size)
    wanted = np.eye(10)[digits[mine]]
    model, step, lost = np.zeros((65, 10)), np.zeros(1, np.int64), 0
    is_first_life = True
    while step[0] < STEPS:
        came = ctx.admit([model, step])
        if ctx.rank in came:
            is_first_life = False
        if ctx.rank in DEATHS and not spared:
            if is_first_life and step[0] == DEATHS[ctx.rank]:
                os.kill(os.getpid(), signal.SIGKILL)
            if not is_first_life and ctx.rank not in COME_BACK:
                sys.exit(1)
        own = images[mine]
        adapted = model - RATE * own.T @ (probabilities(own, model) - wanted) / len(own)
        model = ctx.neighbor_allreduce(adapted)
        lost += bool(np.array_equal(model, adapted))
        step += 1
    members = ctx.members
    mean = ctx.allreduce(model, op=weft.ReduceOp.average)
    found = probabilities(images[:TEST_IMAGES], model).argmax(axis=1)
    say(rank=ctx.rank, lost=lost, accuracy=float((found == digits[:TEST_IMAGES]).mean()), members=len(members),
        distance=float(np.abs(model - mean).max() / np.abs(mean).max()))


def bits(ctx: weft.Context) -> None:
    crc = 0
    for count in (1, 2, 7, 100, 4_096, 65_537, 1 << 20, 1 << 24):
        x = np.random.default_rng([ctx.rank, count]).standard_normal(count).astype(np.float32)
        crc = zlib.crc32(ctx.allreduce(x).tobytes(), crc)
    say(rank=ctx.rank, crc=crc)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("error", "off", "cable", "skip", "bits"))
    parser.add_argument("file", nargs="?", type=pathlib.Path)
    parser.add_argument("--spared", action="store_true")
    given = parser.parse_args()
    ctx = weft.init()
    if given.what == "skip":
        learn(ctx, given.spared)
    elif given.what == "bits":
        bits(ctx)
    elif given.file is None:
        parser.error(f"{given.what} needs a FILE")
    else:
        {"error": error_at_a_death, "off": error_off_the_rail, "cable": steps_at_a_cable}[given.what](ctx, given.file)


main()
