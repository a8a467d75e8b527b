"""Operations by name: any order, groups, neighbors, joining, and bad calls."""

from __future__ import annotations

import random
from typing import Any, List

import numpy as np
import pytest
import weft

from conftest import LIMIT_S, alone, as_processes, as_threads


def test_ranks_submit_in_their_own_orders() -> None:
    def body(ctx: weft.Context) -> None:
        named = ctx.named()
        assert isinstance(named, weft.Named) and named.rank == ctx.rank and named.size == ctx.size
        names = [f"layer{each}" for each in range(30)]
        for step in range(3):
            order = random.Random(100 * ctx.rank + step).sample(names, len(names))
            handles = {
                name: named[name].allreduce_start(
                    np.full((2, 3), float(ctx.rank + int(name[5:])), np.float32), op="sum"
                )
                for name in order
            }
            for name, handle in handles.items():
                y = handle.wait(timeout=LIMIT_S)
                assert y.shape == (2, 3) and (y == 3 + 3 * int(name[5:])).all()
        used = named.usage()
        assert used["submitted"] == 90 and used["pending"] == 0 and used["cache_hits"] > 0
        named.end()

    as_threads(3, body)


def test_groups_and_priorities() -> None:
    def body(ctx: weft.Context) -> None:
        named = ctx.named(fusion_bytes=1 << 20, piece_bytes=4096)
        assert named.usage()["piece_bytes"] == 4096
        tensors = [np.full(each + 1, float(ctx.rank)) for each in range(40)]
        results = named.grouped_allreduce("all", tensors, op="max", priority=3)
        assert all((each == ctx.size - 1).all() for each in results)
        outs: List[Any] = [np.empty(each + 1) for each in range(40)]
        handle = named.grouped_allreduce_start("all", tensors, outs, op="sum")
        assert handle.wait(timeout=LIMIT_S) == outs or all(
            a is b for a, b in zip(handle.result, outs)
        )
        assert (outs[7] == sum(range(ctx.size))).all()
        assert named.usage()["fused"] >= 80
        assert (named.name("late", priority=-1).allreduce(np.ones(3)) == 1).all()
        named.end()

    as_threads(2, body)


def test_every_kind_of_operation() -> None:
    def body(ctx: weft.Context) -> None:
        named = ctx.named()
        rank, size = ctx.rank, ctx.size
        x = np.arange(4.0) + rank
        assert (named["b"].broadcast(x, root=1) == np.arange(4.0) + 1).all()
        assert named["g"].allgather(x).shape == (4 * size,)
        assert (named["n"].neighbor_allreduce(x) == ctx.neighbor_allreduce(x)).all()
        assert (named["ng"].neighbor_allgather(x) == ctx.neighbor_allgather(x)).all()
        named.set_graph(weft.ring_graph(size, 2))
        before, after = (rank - 1) % size, (rank + 1) % size
        y = named["r"].neighbor_allreduce(
            x, self_weight=0.5, src_weights={before: 0.25}, dst_weights={after: 2.0}
        )
        assert np.allclose(y, 0.5 * x + 0.5 * (np.arange(4.0) + before))
        mean = named["w"].group_average(x, ranks=list(range(size)))
        assert np.allclose(mean, np.arange(4.0) + 1)
        if rank < 2:
            assert (named["p"].pair_average(x, peer=1 - rank) == np.arange(4.0) + 0.5).all()
        if rank == 0:
            named["s"].send(x, 2)
        if rank == 2:
            assert (named["s"].recv(np.empty(4), 0) == np.arange(4.0)).all()
        named["barrier"].barrier()
        named.end()

    as_threads(3, body)


def test_ranks_join_when_they_are_out_of_data() -> None:
    def body(ctx: weft.Context) -> None:
        named = ctx.named()
        for batch in range(ctx.rank + 1):
            y = named["loss"].allreduce(np.ones(2), op="sum")
            assert (y == ctx.size - batch).all()
        assert named.join() == ctx.size - 1
        assert (named["loss"].allreduce(np.ones(2), op="sum") == ctx.size).all()
        named.end()

    as_threads(3, body)


def test_what_is_wrong_is_named() -> None:
    def body(ctx: weft.Context) -> None:
        named = ctx.named()
        either = r"^a: the tensor differs: rank (0 has 2|1 has 3|2 has 4) elements"
        with pytest.raises(weft.Mismatch, match=either):
            named["a"].allreduce(np.ones(2 + ctx.rank))
        with pytest.raises(weft.InvalidArgument, match="needs a name"):
            named[""].allreduce(np.ones(2))
        with pytest.raises(ValueError, match="2 tensors and 1 outputs"):
            named.grouped_allreduce("g", [np.ones(1), np.ones(1)], [np.ones(1)])
        with pytest.raises(weft.InvalidArgument, match="a cache of"):
            ctx.named(cache_capacity=10**9)
        assert (named["a"].allreduce(np.ones(2)) == 1).all()
        ctx.barrier()
        ctx.close()
        with pytest.raises(weft.Closed):
            named["a"].allreduce(np.ones(2))

    as_threads(2, body)


def test_shapes_are_compared() -> None:
    def body(ctx: weft.Context) -> None:
        named = ctx.named()
        x = np.arange(6.0).reshape((3, 2) if ctx.rank == 1 else (2, 3))
        for call in (named["a"].allreduce, named["a"].broadcast, named["a"].neighbor_allreduce):
            with pytest.raises(weft.Mismatch, match=r"^a: .*rank [01] .*\(([23]), .*\((?!\1)[23], "):
                call(x)
        with pytest.raises(weft.Mismatch, match=r"^g: the shape of tensor 1 differs: rank [01]"):
            named.grouped_allreduce("g", [x.ravel(), x])
        # The first extent may differ in a gather, the others may not.
        assert named["b"].allgather(np.ones((2 + ctx.rank, 3)), counts=[2, 3]).shape == (5, 3)
        with pytest.raises(weft.Mismatch, match=r"^b: .*\(any, (6|2, 3)\)"):
            named["b"].allgather(np.ones((2, 2, 3) if ctx.rank == 1 else (2, 6)))
        named.end()

    as_threads(2, body)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", ["allreduce", "neighbor_allreduce"])
def test_a_rank_that_leaves_ends_what_waits_for_it(when: str, call: str) -> None:
    done = as_processes(
        3,
        f'''
import numpy as np
import weft
ctx = weft.init()
named = ctx.named()
named["a"].{call}(np.ones(3))
handle = named["late"].{call}_start(np.ones(3)) if ctx.rank != 1 and "{when}" == "after" else None
ctx.barrier()
if ctx.rank == 1:
    raise SystemExit(0)
try:
    (handle or named["late"].{call}_start(np.ones(3))).wait()
    raise SystemExit("no error")
except weft.PeerLeft as error:
    assert error.rank == 1 and "late: rank 1 closed its context" in str(error), error
''',
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_as_processes() -> None:
    done = as_processes(
        2,
        """
import numpy as np
import weft
ctx = weft.init()
named = ctx.named()
for step in range(5):
    names = ["a", "b", "c"] if ctx.rank == 0 else ["c", "b", "a"]
    handles = [named[name].allreduce_start(np.ones(1000)) for name in names]
    assert all((handle.wait() == 1).all() for handle in handles)
assert named.usage()["cache_hits"] > 0
""",
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_end_waits_for_callbacks_without_the_gil() -> None:
    done = alone(
        """
import threading
import numpy as np
import weft
named = weft.init().named()
has_begun, may_end = threading.Event(), threading.Event()
handle = named["a"].allreduce_start(np.ones(3))
handle.then(lambda error: (has_begun.set(), may_end.wait()))
has_begun.wait()
threading.Timer(0.2, may_end.set).start()
named.end()
assert may_end.is_set()
"""
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_rank_that_dies_ends_what_waits_for_it() -> None:
    done = as_processes(
        3,
        """
import os
import numpy as np
import weft
ctx = weft.init()
named = ctx.named()
named["a"].allreduce(np.ones(3))
if ctx.rank == 1:
    os._exit(0)
for call in (lambda: named["a"].allreduce(np.ones(3)), lambda: named["n"].neighbor_allreduce(np.ones(3))):
    try:
        call()
        raise SystemExit("no error")
    except (weft.PeerDied, weft.PeerLeft) as error:
        assert "rank 1" in str(error), error
""",
    )
    assert done.returncode == 0, done.stdout + done.stderr
