"""Windows: what each call does, handles, what keeps memory alive, and bad calls."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any, Dict

import numpy as np
import pytest
import weft

from conftest import LIMIT_S, as_processes, as_threads, interrupt_a_wait


def on_a_ring(ctx: weft.Context) -> Dict[str, int]:
    """Each rank writes to the next one."""
    size, rank = ctx.size, ctx.rank
    edges = [(each, (each + 1) % size, 0.5) for each in range(size)]
    ctx.set_graph(weft.Graph.from_edges(size, edges, [0.5] * size))
    return {"before": (rank - 1) % size, "after": (rank + 1) % size}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_put_and_update(dtype: Any) -> None:
    def body(ctx: weft.Context) -> None:
        around = on_a_ring(ctx)
        x = np.full((3, 5), float(ctx.rank), dtype)
        window = ctx.win_create(x, "w", zero_init=True)
        assert isinstance(window, weft.Window) and window.tensor is x and window.name == "w"
        assert window.in_neighbors == [around["before"]] and window.rank == ctx.rank
        assert window.out_neighbors == [around["after"]]
        window.put()
        ctx.win_fence()
        assert window.versions() == {around["before"]: 1}
        mean = (ctx.rank + around["before"]) / 2
        copy = window.update(clone=True)
        assert copy.shape == (3, 5) and copy.dtype == dtype and (copy == mean).all()
        assert (x == ctx.rank).all() and window.versions() == {around["before"]: 0}
        assert window.update() is x and (x == mean).all()
        ctx.barrier()
        y = np.full((3, 5), 8.0, dtype)
        window.put(y, self_weight=0.5, dst_weights={around["after"]: 2}, require_mutex=True)
        assert (y == 4).all()
        ctx.win_fence()
        window.update(
            self_weight=0, src_weights={around["before"]: 0.25}, reset=True, require_mutex=True
        )
        assert (x == 4).all() and (window.update_then_collect() == 4).all()
        ctx.win_free("w")

    as_threads(3, body)


def test_slots_begin_as_the_array() -> None:
    def body(ctx: weft.Context) -> None:
        x = np.full(4, 6.0)
        window = ctx.win_create(x, "w")
        assert (window.update() == 6).all()
        ctx.win_free_all()

    as_threads(2, body)


def test_accumulate_and_associated_p() -> None:
    def body(ctx: weft.Context) -> float:
        around = on_a_ring(ctx)
        x = np.full(1000, float(ctx.rank))
        window = ctx.win_create(x, "w", zero_init=True)
        window.set_associated_p(True)
        for _ in range(80):
            window.accumulate(self_weight=0.5, dst_weights={around["after"]: 0.5})
            ctx.win_fence()
            window.update_then_collect(require_mutex=True)
        p = window.associated_p()
        np.testing.assert_allclose(x / p, 1.5)
        ctx.win_free("w")
        return p

    assert sum(as_threads(4, body)) == pytest.approx(4)


def test_get() -> None:
    def body(ctx: weft.Context) -> None:
        around = on_a_ring(ctx)
        window = ctx.win_create(weft.zeros(7, np.float32), "w", zero_init=True)
        window.tensor[:] = ctx.rank
        ctx.barrier()
        window.get(src_weights={around["before"]: 2}, require_mutex=True)
        ctx.barrier()
        assert (window.update_then_collect() == ctx.rank + 2 * around["before"]).all()
        ctx.barrier()
        window.get_start().wait()
        window.get_start(src_weights=[around["before"]]).wait()
        assert window.versions() == {around["before"]: 2}
        ctx.win_free("w")

    as_threads(3, body)


def test_inputs_of_put_need_not_be_contiguous_or_writable() -> None:
    def body(ctx: weft.Context) -> None:
        window = ctx.win_create(np.zeros(6), "w", zero_init=True)
        wide = np.arange(12.0)
        fixed = np.arange(6.0)
        fixed.flags.writeable = False
        window.put(wide[::2])
        ctx.win_fence()
        assert (window.update_then_collect() == wide[::2]).all()
        ctx.barrier()
        window.accumulate(fixed)
        ctx.win_fence()
        assert (window.update_then_collect() == wide[::2] + fixed).all()
        with pytest.raises(ValueError, match="win_put: the output is read-only"):
            window.put(fixed, self_weight=0.5)
        with pytest.raises(ValueError, match="win_accumulate: the output is not contiguous"):
            window.accumulate(wide[::2], self_weight=0.5)
        ctx.win_free("w")

    as_threads(2, body)


def test_raw_access_and_signals() -> None:
    def body(ctx: weft.Context) -> None:
        around = on_a_ring(ctx)
        window = ctx.win_create(weft.zeros(8, np.int64), "w")
        x = np.array([ctx.rank, 20, 30, 40])
        window.write(around["after"], x, [(0, 8), (24, 0)], 8, signal=3)
        window.wait_signal(3, 1)
        assert list(window.tensor[:3]) == [40, around["before"], 0] and window.signal(3) == 1
        ctx.barrier()
        window.write_start(around["after"], x).wait()
        ctx.barrier()
        assert list(window.tensor[:5]) == [around["before"], 20, 30, 40, 0]
        y = np.zeros(2, np.int64)
        assert window.read(around["before"], y, 24) is y and list(y) == [40, 0]
        window.put(signal=4)
        window.wait_signal(4, 1, timeout=30)
        with pytest.raises(weft.TimedOut, match="signal 4 was raised 1 times, not 2"):
            window.wait_signal(4, 2, timeout=0.01)
        ctx.barrier()
        raised = window.wait_signal_start(5, 1)
        window.put(signal=5)
        raised.wait()
        ctx.win_free("w")

    as_threads(3, body)


def test_the_mutex_excludes() -> None:
    def body(ctx: weft.Context) -> int:
        ctx.set_graph(weft.fully_connected_graph(ctx.size))
        window = ctx.win_create(weft.zeros(1, np.int64), "w")
        ctx.barrier()
        number = np.zeros(1, np.int64)
        for _ in range(20):  # all ranks add to a number of rank 0
            with window.lock([0]):
                if ctx.rank == 0:
                    window.tensor[0] += 1
                else:
                    window.write(0, window.read(0, number) + 1)
        with window.lock():
            with pytest.raises(weft.InvalidArgument, match="locked by this rank already"):
                window.lock_raw([0])
        ctx.barrier()
        total = int(window.tensor[0])
        ctx.win_free("w")
        return total

    assert as_threads(3, body)[0] == 60


def test_a_lock_is_given_back_after_an_error() -> None:
    def body(ctx: weft.Context) -> None:
        window = ctx.win_create(np.zeros(1), "w")
        with pytest.raises(KeyError):
            with window.lock():
                raise KeyError
        with window.lock():
            pass
        ctx.win_free("w")

    as_threads(2, body)


def test_names_and_ends() -> None:
    def body(ctx: weft.Context) -> None:
        first = ctx.win_create(np.zeros(3), "b")
        second = ctx.win_create(np.zeros(3, np.float32), "a")
        assert ctx.window_names() == ["a", "b"]
        found = ctx.window("b")
        assert isinstance(found, weft.Window) and found.tensor is first.tensor
        assert repr(found) == '<weft.Window "b">'
        with pytest.raises(weft.InvalidArgument, match="window"):
            ctx.set_graph(weft.ring_graph(ctx.size))
        ctx.win_free("b")
        assert ctx.window_names() == ["a"]
        with pytest.raises(weft.InvalidArgument, match="freed"):
            found.put()
        with pytest.raises(weft.InvalidArgument, match='no window "b"'):
            ctx.window("b")
        ctx.win_create(np.zeros(9), "b")  # of another shape
        ctx.win_free_all()
        assert ctx.window_names() == []
        with pytest.raises(weft.InvalidArgument):
            second.update()

    as_threads(2, body)


def test_bad_calls(context: weft.Context) -> None:
    for wrong, kind in ((np.zeros((4, 4)).T, ValueError), ([1.0], TypeError), ("x", TypeError)):
        with pytest.raises(kind, match="win_create"):
            context.win_create(wrong, "w")
    with pytest.raises(weft.InvalidArgument, match="name"):
        context.win_create(np.zeros(3), "")
    window = context.win_create(np.zeros(3), "w")
    with pytest.raises(weft.InvalidArgument, match="there is a window of that name"):
        context.win_create(np.zeros(3), "w")
    for call in (
        lambda: window.put(np.zeros(4)),
        lambda: window.put(np.zeros(3, np.float32)),
        lambda: window.put(dst_weights={0: 1.0}),
        lambda: window.put(dst_weights={"a": 1.0}),
        lambda: window.put(signal=16),
        lambda: window.put(signal=-1),
        lambda: window.put(self_weight=float("nan")),
        lambda: window.get(src_weights=[0]),
        lambda: window.update(self_weight=1.0),
        lambda: window.update(src_weights={}),
        lambda: window.write(0, np.zeros(3)),
        lambda: window.read(0, np.zeros(3)),
        lambda: window.lock_raw([1]),
        lambda: window.signal(16),
        lambda: window.wait_signal(-1, 1),
        lambda: context.win_free("v"),
        lambda: context.window("v"),
    ):
        with pytest.raises(weft.InvalidArgument):
            call()
    with pytest.raises(TypeError):
        window.put([1.0])
    with pytest.raises(TypeError):
        weft.Window()  # type: ignore[call-arg]
    integers = context.win_create(np.zeros(3, np.int32), "i")
    with pytest.raises(weft.InvalidArgument, match="floating"):
        integers.accumulate()
    with pytest.raises(weft.InvalidArgument, match="floating"):
        integers.update()


def test_a_window_of_a_closed_context() -> None:
    store = weft.make_local_stores(1)[0]
    context = weft.Context.create(weft.Config(), store)
    window = context.win_create(np.zeros(3), "w")
    context.close()
    for call in (window.put, window.update, window.versions, window.flush, window.lock().__enter__):
        with pytest.raises(weft.Closed):
            call()
    with pytest.raises(weft.Closed):
        context.win_free("w")
    assert window.name == "w" and (window.tensor == 0).all()


def test_closing_the_context_ends_waits_of_other_threads() -> None:
    store = weft.make_local_stores(1)[0]
    context = weft.Context.create(weft.Config(deadline_ms=50_000), store)
    window = context.win_create(np.zeros(3), "w")
    begun, raised = threading.Event(), []

    def wait() -> None:
        begun.set()
        with pytest.raises(weft.Closed) as found:
            window.wait_signal(0, 1)
        raised.append(found)

    thread = threading.Thread(target=wait)
    thread.start()
    assert begun.wait(LIMIT_S)
    context.close()
    thread.join(LIMIT_S)
    assert len(raised) == 1


class Held(np.ndarray):
    """A NumPy array that a weak reference can watch."""


def held(n: int) -> Any:
    x = np.empty(n).view(Held)
    x[:] = 1
    return x


def test_the_array_lives_until_the_window_has_ended() -> None:
    def body(ctx: weft.Context) -> None:
        x = held(100)
        alive = weakref.ref(x)
        window = ctx.win_create(x, "w")
        del x, window
        gc.collect()
        assert alive() is not None and ctx.window("w").tensor is alive()
        ctx.win_free("w")
        gc.collect()
        assert alive() is None
        x = held(100)
        alive = weakref.ref(x)
        ctx.win_create(x, "w")
        del x
        ctx.win_free_all()
        gc.collect()
        assert alive() is None
        x = held(100)
        alive = weakref.ref(x)
        ctx.win_create(x, "w")
        del x
        ctx.barrier()
        ctx.close()
        gc.collect()
        assert alive() is None

    as_threads(2, body)


def test_started_works_are_awaited_and_flushed() -> None:
    async def work(ctx: weft.Context, window: weft.Window) -> None:
        await window.put_start()
        await window.accumulate_start()
        await asyncio.gather(_awaited(window.get_start()), _awaited(window.get_start()))

    async def _awaited(handle: weft.Handle) -> None:
        await handle

    def body(ctx: weft.Context) -> None:
        window = ctx.win_create(np.ones(50_000), "w", zero_init=True)
        asyncio.run(work(ctx, window))
        called = threading.Event()
        handles = [window.put_start() for _ in range(20)]
        handles[-1].then(lambda error: called.set())
        del handles
        window.flush()
        assert called.wait(LIMIT_S)
        ctx.win_fence()
        ctx.win_free("w")

    as_threads(2, body)
    as_threads(2, body, progress=weft.ProgressMode.waiter)


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")

    def body(ctx: weft.Context) -> None:
        x = torch.full((2, 3), float(ctx.rank), dtype=torch.bfloat16)
        window = ctx.win_create(x, "w", zero_init=True)
        assert window.tensor is x
        window.put()
        ctx.win_fence()
        copy = window.update(clone=True)
        assert copy.dtype is torch.bfloat16 and copy.shape == (2, 3) and bool((copy == 0.5).all())
        assert window.update() is x and bool((x == 0.5).all())
        ctx.win_free("w")

    as_threads(2, body)


def test_a_rank_that_died_is_named_and_others_go_on() -> None:
    done = as_processes(
        3,
        """
        import numpy as np, os, weft
        ctx = weft.init()
        ctx.set_graph(weft.fully_connected_graph(3))
        window = ctx.win_create(np.ones(1000), "w")
        ctx.barrier()
        if ctx.rank == 2:
            os._exit(3)
        other = 1 - ctx.rank
        try:
            while True:
                window.put(dst_weights=[2])
        except weft.PeerDied as error:
            print("learned", error.rank)
        window.put(dst_weights=[other], signal=0)
        window.wait_signal(0, 1)
        print("put", (window.update(self_weight=0.5, src_weights={other: 0.5}) == 1).all())
        """,
    )
    assert done.stdout.count("learned 2") == 2, done.stdout + done.stderr
    assert done.stdout.count("put True") == 2, done.stdout + done.stderr


# Rank 1 holds the mutexes of both ranks and takes no part until rank 0 was interrupted.
@pytest.mark.parametrize(
    "wait",
    [
        "window.wait_signal(0, 1)",
        "window.lock_raw([1])",
        "window.put_start(require_mutex=True); window.flush()",
        "window.update(require_mutex=True)",
        "window.put_start(require_mutex=True); window.update()",
        "window.put_start(require_mutex=True); window.read(1, x)",
        "ctx.win_fence()",
        "ctx.win_free('v')",
        "ctx.win_create(np.ones(3), 'u')",
    ],
)
def test_control_c_ends_a_wait(wait: str) -> None:
    interrupt_a_wait(
        f"""
        import threading
        import numpy as np, weft
        stores = weft.make_local_stores(2)
        config = weft.Config(deadline_ms=50_000)
        held, over = threading.Event(), threading.Event()

        def other():
            ctx = weft.Context.create(config, stores[1])
            window = ctx.win_create(np.ones(3), "w")
            ctx.win_create(np.ones(3), "v")
            with window.lock([0, 1]):
                held.set()
                over.wait()
            if {"lock" in wait}:  # the mutex that the call takes afterwards is given back
                with window.lock([1]):
                    pass
            ctx.close()

        thread = threading.Thread(target=other)
        thread.start()
        ctx = weft.Context.create(config, stores[0])
        x = np.ones(3)
        window = ctx.win_create(x, "w")
        ctx.win_create(np.ones(3), "v")
        held.wait()
        print("ready", flush=True)
        try:
            {wait}
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        over.set()
        thread.join()
        ctx.close()
        """
    )
