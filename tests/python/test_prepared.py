"""Operations that are prepared once and run many times."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest
import weft

from conftest import LIMIT_S, as_threads, interrupt_a_wait

TIMES = 20


def test_runs_read_and_write_the_arrays_as_they_are_then() -> None:
    def body(ctx: weft.Context) -> None:
        x, y = np.empty(4), np.empty(4)
        step = ctx.prepare("allreduce", x, y, op="sum")
        for time in range(TIMES):
            x[:] = ctx.rank + time
            if (ctx.rank + time) % 3 == 0:
                ctx.allreduce(x, y, op="sum")  # the same operation
            else:
                assert step.run() is y
            assert (y == 3 + 3 * time).all()

    as_threads(3, body)


OPERATIONS = [
    ("allreduce", {"op": "max"}),
    ("local_allreduce", {}),
    ("neighbor_allreduce", {}),
    ("neighbor_allgather", {}),
    ("allgather", {}),
    ("broadcast", {"root": 1}),
    ("reduce", {"root": 1}),
    ("gather", {}),
    ("scatter", {}),
    ("reduce_scatter", {}),
    ("alltoall", {}),
    ("alltoallv", {"send_counts": [1, 3], "receive_counts": None}),
    ("group_average", {"ranks": [0, 1]}),
]


@pytest.mark.parametrize("name, options", OPERATIONS, ids=lambda each: each if isinstance(each, str) else "")
def test_every_operation_is_the_call_of_its_name(name: str, options: Any) -> None:
    def body(ctx: weft.Context) -> None:
        given = dict(options)
        if name == "alltoallv":
            given["receive_counts"] = [given["send_counts"][ctx.rank]] * 2
        x = np.arange(4.0) + ctx.rank
        step = ctx.prepare(name, x, **given)
        for time in range(3):
            x[:] = np.arange(4.0) * time + ctx.rank
            expected = getattr(ctx, name)(x, **given)
            result = step.run()
            if expected is None:
                assert result is None
            else:
                np.testing.assert_array_equal(result, expected)

    as_threads(2, body)


def test_barriers_and_pairs() -> None:
    def body(ctx: weft.Context) -> None:
        x = np.zeros(2)
        if ctx.rank == 0:
            pair = ctx.prepare("send", x, 1)
        else:
            pair = ctx.prepare("recv", x, 0)
        barrier = ctx.prepare("barrier")
        for time in range(TIMES):
            if ctx.rank == 0:
                x[:] = time
            pair.run()
            assert (x == time).all()
            barrier.run()

    as_threads(2, body)


def test_starts_waits_and_is_awaited() -> None:
    go_on = threading.Event()

    def body(ctx: weft.Context) -> None:
        x, y = np.full(3, float(ctx.rank)), np.empty(3)
        step = ctx.prepare("allreduce", x, y)
        assert step.wait() is y  # nothing was started
        if ctx.rank == 1:
            assert go_on.wait(LIMIT_S)
        handle = step.start()
        if ctx.rank == 0:
            with pytest.raises(weft.InvalidArgument, match="under way"):
                step.run()
            with pytest.raises(weft.TimedOut):
                step.wait(timeout=0.01)
            go_on.set()
        assert step.wait(timeout=LIMIT_S) is y and (y == 0.5).all()
        assert handle.done() and handle.result is y

        async def once_more() -> Any:
            return await step.start()

        assert asyncio.run(once_more()) is y

    as_threads(2, body)


def test_keeps_its_arrays_alive(context: weft.Context) -> None:
    class Held(np.ndarray):
        """An array that a weak reference can watch."""

    x = np.ones(1000).view(Held)
    watched = weakref.ref(x)
    step = context.prepare("allreduce", x)
    del x
    gc.collect()
    assert watched() is not None and (step.run() == 1).all()
    del step
    gc.collect()
    assert watched() is None


@pytest.mark.parametrize(
    "prepare, error, text",
    [
        (lambda c: c.prepare("all_reduce", np.ones(2)), ValueError, "'all_reduce'; there are .*allreduce"),
        (lambda c: c.prepare("_run", np.ones(2)), ValueError, "'_run'"),
        (lambda c: c.prepare("", np.ones(2)), ValueError, "''"),
        (lambda c: c.prepare("allreduce"), TypeError, "x"),
        (lambda c: c.prepare("allreduce", np.ones((4, 4))[:, 0]), ValueError, "not contiguous"),
        (lambda c: c.prepare("allreduce", np.ones(2), np.ones(3)), ValueError, "shape"),
        (lambda c: c.prepare("broadcast", np.ones(2), root=7), weft.InvalidArgument, "7"),
    ],
)
def test_says_what_is_wrong(context: weft.Context, prepare: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        prepare(context)


def test_a_closed_context_ends_it(context: weft.Context) -> None:
    step = context.prepare("allreduce", np.ones(2))
    context.close()
    for call in (step.run, step.start):
        with pytest.raises(weft.Closed):
            call()


def test_torch_tensors(context: weft.Context) -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(3)
    step = context.prepare("allreduce", x, x)
    x += 2
    assert step.run() is x and x.tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match="not contiguous"):
        context.prepare("allreduce", torch.ones(2, 2).t())


def test_windows() -> None:
    def body(ctx: weft.Context) -> None:
        other = 1 - ctx.rank
        x, own = np.zeros(4), np.zeros(4)
        window = ctx.win_create(own, "w", zero_init=True)
        put = window.prepare_put(x)
        add = window.prepare_accumulate(x, dst_weights={other: 2})
        write = window.prepare_write(other, x, [(8, 0)], 8, signal=2)
        for time in range(1, TIMES):
            x[:] = time
            put.run()
            add.start().wait()
            ctx.barrier()
            window.update_then_collect()
            assert (own == 3 * time).all()
            ctx.barrier()
            own[:] = 0
            ctx.barrier()
            write.run()
            window.wait_signal(2, time)
            assert own.tolist() == [time, 0, 0, 0]
            ctx.barrier()
            own[:] = 0
            ctx.barrier()
        with pytest.raises(ValueError, match="not contiguous"):
            window.prepare_put(np.ones((4, 4))[:, 0])
        with pytest.raises(weft.InvalidArgument, match="elements"):
            window.prepare_put(np.ones(3))
        with pytest.raises(TypeError, match="nonsense"):
            window.prepare_put(x, nonsense=1)
        ctx.win_free("w")

    as_threads(2, body)


def test_control_c_leaves_a_run_that_can_be_waited_for() -> None:
    interrupt_a_wait(
        """
        import threading
        import numpy as np, weft
        stores = weft.make_local_stores(2)
        config = weft.Config(deadline_ms=50_000)
        joins = threading.Event()

        def other():
            ctx = weft.Context.create(config, stores[1])
            ctx.barrier()
            assert joins.wait(50)
            ctx.allreduce(np.ones(3))
            ctx.close()

        peer = threading.Thread(target=other)
        peer.start()
        ctx = weft.Context.create(config, stores[0])
        y = np.zeros(3)
        step = ctx.prepare("allreduce", np.full(3, 3.0), y)
        ctx.barrier()
        print("ready", flush=True)
        try:
            step.run()
        except KeyboardInterrupt:
            joins.set()
            assert step.wait(timeout=50) is y and (y == 2).all()
            print("interrupted", flush=True)
        peer.join()
        ctx.close()
        """
    )
