"""Started operations: waiting, testing, callbacks, asyncio, and what keeps memory alive."""

from __future__ import annotations

import os
import asyncio
import gc
import threading
import time
import weakref
from typing import Any, List

import numpy as np
import pytest
import weft

from conftest import LIMIT_S, as_threads


class Held(np.ndarray):
    """A NumPy array that a weak reference can watch."""


def held(n: int, value: float) -> np.ndarray:
    x = np.empty(n).view(Held)
    x[:] = value
    return x


def test_wait_gives_the_result_again_and_again() -> None:
    def body(ctx: weft.Context) -> None:
        handle = ctx.allreduce_start(np.full(3, float(ctx.rank)))
        result = handle.wait()
        assert handle.wait() is result and handle.result is result
        assert handle.done() and handle.test()
        assert (result == 0.5).all()

    as_threads(2, body)


def test_a_wait_with_a_timeout_leaves_the_operation_as_it_is() -> None:
    go_on = threading.Event()

    def body(ctx: weft.Context) -> None:
        if ctx.rank == 1:
            assert go_on.wait(LIMIT_S)
        handle = ctx.allreduce_start(np.full(3, float(ctx.rank)))
        if ctx.rank == 0:
            start = time.monotonic()
            with pytest.raises(weft.TimedOut):
                handle.wait(timeout=0.05)
            with pytest.raises(TimeoutError):
                handle.wait(timeout=0)
            assert time.monotonic() - start < 5 and not handle.test()
            go_on.set()
        assert (handle.wait(timeout=30) == 0.5).all()

    as_threads(2, body)


def test_a_callback_runs_once_on_another_thread() -> None:
    def body(ctx: weft.Context) -> Any:
        calls: List[Any] = []
        called = threading.Event()

        def callback(error: Any) -> None:
            calls.append((error, threading.get_ident()))
            called.set()

        handle = ctx.allreduce_start(np.ones(1000))
        handle.then(callback)
        assert called.wait(LIMIT_S)
        handle.wait()
        assert len(calls) == 1 and calls[0][0] is None
        return calls[0][1] != threading.get_ident()

    assert as_threads(2, body) == [True, True]


def test_a_callback_gets_the_error() -> None:
    def body(ctx: weft.Context) -> Any:
        errors: List[Any] = []
        called = threading.Event()

        def callback(error: Any) -> None:
            errors.append(error)
            called.set()

        handle = ctx.allreduce_start(np.ones(3 + ctx.rank))
        handle.then(callback)
        assert called.wait(LIMIT_S)
        with pytest.raises(weft.Mismatch):
            handle.wait()
        with pytest.raises(weft.Mismatch):  # again, and in later calls
            handle.wait()
        with pytest.raises(weft.Mismatch):
            ctx.barrier()
        return type(errors[0])

    assert as_threads(2, body) == [weft.Mismatch, weft.Mismatch]


def test_what_a_callback_raises_reaches_the_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: List[Any] = []
    both = threading.Event()

    def hook(arguments: Any) -> None:
        seen.append(arguments.exc_value)
        if len(seen) == 2:
            both.set()

    monkeypatch.setattr("sys.unraisablehook", hook)

    def body(ctx: weft.Context) -> None:
        def callback(error: Any) -> None:
            raise KeyError("of the callback")

        ctx.allreduce_start(np.ones(3)).then(callback)
        ctx.barrier()

    as_threads(2, body)
    assert both.wait(LIMIT_S) and all(isinstance(each, KeyError) for each in seen)


def test_a_callback_may_close_the_context() -> None:
    store = weft.make_local_stores(1)[0]
    context = weft.Context.create(weft.Config(), store)
    closed = threading.Event()

    def callback(error: Any) -> None:
        context.close()
        closed.set()

    context.allreduce_start(np.ones(3)).then(callback)
    assert closed.wait(LIMIT_S) and context.is_closed


def test_a_callback_may_wait_for_other_operations() -> None:
    """By wait(), with and without a timeout, by a blocking call, and in an event loop."""

    async def awaited(ctx: weft.Context) -> Any:
        return await ctx.allreduce_start(np.ones(1000), op="sum")

    def body(ctx: weft.Context) -> Any:
        results: List[Any] = []
        called = threading.Event()

        def callback(error: Any) -> None:
            results.append(ctx.allreduce_start(np.ones(1000), op="sum").wait())
            results.append(ctx.allreduce_start(np.ones(1000), op="sum").wait(timeout=30))
            results.append(ctx.allreduce(np.ones(1000), op="sum"))
            results.append(asyncio.run(awaited(ctx)))
            called.set()

        ctx.barrier_start().then(callback)
        assert called.wait(LIMIT_S)
        return [float(each[-1]) for each in results]

    assert as_threads(2, body) == [[2.0] * 4] * 2


def test_then_wants_something_callable(context: weft.Context) -> None:
    with pytest.raises(TypeError, match="callable"):
        context.barrier_start().then(3)  # type: ignore[arg-type]


def test_asyncio() -> None:
    async def work(ctx: weft.Context) -> Any:
        first = ctx.allreduce_start(np.full(10_000, float(ctx.rank)))
        second = ctx.allreduce_start(np.full(3, float(ctx.rank)), op="max")
        results = await asyncio.gather(_awaited(first), _awaited(second))
        with pytest.raises(weft.Mismatch):
            await ctx.allreduce_start(np.ones(3 + ctx.rank))
        return results

    async def _awaited(handle: weft.Handle) -> Any:
        return await handle

    for one, two in as_threads(2, lambda ctx: asyncio.run(work(ctx))):
        assert (one == 0.5).all() and (two == 1).all()


def test_asyncio_without_a_thread_of_weft() -> None:
    async def work(ctx: weft.Context) -> Any:
        handle = ctx.allreduce_start(np.full(10, float(ctx.rank)))
        assert handle.needs_polling
        return await handle

    def body(ctx: weft.Context) -> Any:
        assert (ctx.allreduce(np.full(10, float(ctx.rank))) == 0.5).all()
        return asyncio.run(work(ctx))

    for result in as_threads(2, body, progress=weft.ProgressMode.waiter):
        assert (result == 0.5).all()


def test_asyncio_that_is_cancelled() -> None:
    go_on = threading.Event()

    async def work(ctx: weft.Context) -> None:
        handle = ctx.barrier_start()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(handle, 0.05)
        go_on.set()
        await handle

    def body(ctx: weft.Context) -> None:
        if ctx.rank == 0:
            asyncio.run(work(ctx))
        else:
            assert go_on.wait(LIMIT_S)
            ctx.barrier()

    as_threads(2, body)


def test_arrays_live_until_the_operation_is_done() -> None:
    go_on = threading.Event()

    def body(ctx: weft.Context) -> Any:
        if ctx.rank == 1:
            assert go_on.wait(LIMIT_S)
            return float(ctx.allreduce(np.full(100_000, 2.0), op="sum")[-1])
        x = held(100_000, 1.0)
        watched = weakref.ref(x)
        handle = ctx.allreduce_start(x, op="sum")
        del x
        gc.collect()
        assert watched() is not None
        del handle  # nobody waits for it any more
        gc.collect()
        assert watched() is not None
        go_on.set()
        ctx_gone = time.monotonic() + LIMIT_S
        while watched() is not None:  # freed by the completion thread
            assert time.monotonic() < ctx_gone
            gc.collect()
            os.sched_yield()
        return None

    assert as_threads(2, body)[1] == 3.0


def test_arrays_are_released_when_the_handle_knows_of_the_end(context: weft.Context) -> None:
    x = held(10, 1.0)
    watched = weakref.ref(x)
    handle = context.allreduce_start(x)
    del x
    handle.wait()
    gc.collect()
    assert watched() is None and handle.result is not None


def test_closing_ends_what_is_in_flight() -> None:
    def body(ctx: weft.Context) -> Any:
        if ctx.rank == 1:
            assert closed.wait(LIMIT_S)
            return None
        x = held(10, 1.0)
        watched = weakref.ref(x)
        handle = ctx.allreduce_start(x)
        dropped = ctx.allreduce_start(x)
        del x, dropped
        ctx.close()
        closed.set()
        with pytest.raises(weft.Closed):
            handle.wait()
        gc.collect()
        return watched() is None

    closed = threading.Event()
    assert as_threads(2, body)[0] is True


def test_closing_while_another_thread_waits() -> None:
    def body(ctx: weft.Context) -> Any:
        if ctx.rank == 1:
            assert closed.wait(LIMIT_S)
            return None
        errors: List[BaseException] = []

        def wait() -> None:
            try:
                ctx.allreduce(np.ones(3))
            except weft.Error as error:
                errors.append(error)

        waiter = threading.Thread(target=wait)
        waiter.start()
        while waiter.is_alive() and ctx.usage()["plans_cached"] == 0:  # until it waits
            os.sched_yield()
        ctx.close()
        closed.set()
        waiter.join(LIMIT_S)
        assert not waiter.is_alive()
        return [type(error) for error in errors]

    closed = threading.Event()
    assert as_threads(2, body)[0] == [weft.Closed]


def test_the_interpreter_runs_while_a_rank_waits() -> None:
    """The GIL is released: a thread counts while the main one waits for the other rank."""

    def body(ctx: weft.Context) -> Any:
        if ctx.rank == 1:
            return sum(range(200_000)) and ctx.allreduce(np.ones(3))
        return ctx.allreduce(np.ones(3))

    as_threads(2, body)
