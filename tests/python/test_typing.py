"""The package's types: a program that uses them passes mypy --strict, a wrong one does not."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import weft

pytest.importorskip("mypy")

RIGHT = '''
from __future__ import annotations

import asyncio

import numpy as np
import numpy.typing as npt
import weft
from weft import topology


def average() -> npt.NDArray[np.float32]:
    ctx: weft.Context = weft.init()
    x: npt.NDArray[np.float32] = np.full(4, ctx.rank, np.float32)
    ctx.set_graph(weft.ring_graph(ctx.size), weighted=True)
    y: npt.NDArray[np.float32] = ctx.neighbor_allreduce(x, self_weight=0.5, src_weights={0: 0.5})
    ctx.allreduce(x, y, op="sum")
    ctx.allreduce(x, op=weft.ReduceOp.max, algorithm=weft.AllreduceAlgorithm.ring)
    handle: weft.Handle = ctx.allreduce_start(x)
    handle.then(lambda error: None)
    handle.wait(timeout=1.0)
    window: weft.Window = ctx.win_create(x, "x", zero_init=True)
    started: weft.Handle = window.put_start(self_weight=0.5, dst_weights={0: 1.0}, signal=1)
    started.wait()
    with window.lock([0]):
        window.write(0, y, [(0, 0)], 4)
    versions: dict[int, int] = window.versions()
    z: npt.NDArray[np.float32] = window.read(0, y, offset=4 * versions[0])
    with weft.Strategy(ctx, "diloco", y, section=10, compression=weft.Compression.f16) as strategy:
        strategy.step(z)
        sent: int = strategy.counts()["bytes"] + len(weft.strategy_names()[0])
    strategy.set_rate(sent / 2)
    with weft.PartialAllreduce(ctx, y, law="random:2") as partial:
        group: list[int] = partial.average()
    with weft.GradientExchange(ctx, y, [2, 2], rule="bulk", rate=0.1) as exchange:
        exchange.begin()
        exchange.push(weft.bundle_layers([2, 2], 2)[0], y[:2])
        ended: weft.EndedIteration = exchange.end_iteration()
        exchange.update(lambda: None)
    total: int = ended.contributors[0] + len(group) + exchange.counts()["bytes"]
    assert total > 0 and (ended.pulled_from is None or ended.is_dropped)
    part = ctx.split(0)
    if part is not None:
        part.close()
    return z


async def wait(ctx: weft.Context) -> object:
    return await ctx.barrier_start()


def others() -> int:
    with weft.Context.create(weft.Config(size=1), weft.make_local_stores(1)[0]) as ctx:
        asyncio.run(wait(ctx))
        total: int = ctx.usage()["operations"]
        ctx.allreduce(weft.zeros((3, 4), "f32"))
    for sends, receives in topology.GetInnerOuterRingDynamicSendRecvRanks(8, 4, 1):
        return sends[0] + receives[0] + total
    return 0


def failure() -> tuple[int | None, str]:
    try:
        weft.Graph.from_edges(2, [(0, 1, 1.0)], [1.0, 1.0]).edges()[0].weight
    except weft.PeerDied as error:
        return error.rank, error.code
    return None, ""
'''

WRONG = '''
import numpy as np
import weft

ctx = weft.init()
ctx.allreduce(np.zeros(3), op=3.5)
ctx.set_graph("ring")
ctx.neighbour_allreduce(np.zeros(3))
weft.Handle().wait("soon")
weft.Strategy(ctx, "diloco", np.zeros(3), section=2.5)
weft.GradientExchange(ctx, np.zeros(3), 3)
weft.PartialAllreduce(ctx, np.zeros(3), law=2)
ctx.win_create(np.zeros(3), 3)
ctx.window("x").put(self_weight="half")
'''


def check(folder: Path, program: str) -> "subprocess.CompletedProcess[str]":
    (folder / "program.py").write_text(textwrap.dedent(program))
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(folder / "cache")]
    return subprocess.run(
        [*command, "program.py"], cwd=folder, capture_output=True, text=True, timeout=300
    )


def is_installed() -> bool:
    """The stub of the core comes with an installed package."""
    return (Path(weft.__file__).parent / "_core.pyi").is_file()


@pytest.mark.skipif(not is_installed(), reason="weft has been built without its stub")
def test_mypy_strict(tmp_path: Path) -> None:
    right = check(tmp_path, RIGHT)
    assert right.returncode == 0, right.stdout
    wrong = check(tmp_path, WRONG)
    assert wrong.stdout.count("error:") >= 9, wrong.stdout
