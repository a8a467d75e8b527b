"""Wrong arguments and wrong order: an error that names the thing, never a crash or a hang."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import weft

from conftest import as_threads

X = np.ones(4)


def test_every_error_is_an_error_of_weft() -> None:
    classes = [
        weft.InvalidArgument,
        weft.Mismatch,
        weft.TimedOut,
        weft.PeerDied,
        weft.PeerLeft,
        weft.NoPermission,
        weft.Exhausted,
        weft.Unavailable,
        weft.Closed,
        weft.OperatingSystem,
    ]
    assert all(issubclass(each, weft.Error) for each in classes)
    assert issubclass(weft.Error, RuntimeError)  # what training loops catch
    assert len({each.code for each in classes}) == len(classes)
    assert issubclass(weft.InvalidArgument, ValueError)
    assert issubclass(weft.TimedOut, TimeoutError)
    assert weft.Error.rank is None


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda c: c.allreduce(X, op="median"), ValueError, "median"),
        (lambda c: c.allreduce(X, op=[]), ValueError, "op"),
        (lambda c: c.allreduce(X, algorithm="magic"), ValueError, "magic"),
        (lambda c: c.allreduce(X.astype(int)), weft.InvalidArgument, "average"),
        (lambda c: c.allreduce(X, op="bit_or"), weft.InvalidArgument, "bit_or"),
        (lambda c: c.allreduce(X, needs_all="yes"), TypeError, "needs_all is True or False, not 'yes'"),
        (lambda c: c.barrier(needs_all=2), TypeError, "needs_all"),
        (lambda c: c.neighbor_allreduce(X.astype(int)), weft.InvalidArgument, "floating"),
        (lambda c: c.broadcast(X, root=7), weft.InvalidArgument, "7"),
        (lambda c: c.reduce(X, root=-3), weft.InvalidArgument, "-3"),
        (lambda c: c.pair_average(X, peer=5), weft.InvalidArgument, "5"),
        (lambda c: c.send(X, 9), weft.InvalidArgument, "9"),
        (lambda c: c.recv(X, 9), weft.InvalidArgument, "9"),
        (lambda c: c.group_average(X, ranks=[0, 4]), weft.InvalidArgument, "4"),
        (lambda c: c.group_average(X, ranks=["a"]), weft.InvalidArgument, "'a'"),
        (lambda c: c.allgather(X, counts=[1, 2, 3]), ValueError, "counts"),
        (lambda c: c.allgather(X, counts=[-1]), ValueError, "negative"),
        (lambda c: c.reduce_scatter(X, counts=[3]), ValueError, "sums to 3"),
        (lambda c: c.scatter(None), TypeError, "root"),
        (lambda c: c.win_create(X, "a\0b"), weft.InvalidArgument, '"a" has a NUL'),
        (lambda c: c.named()["a\0b"].allreduce(X), weft.InvalidArgument, '"a" has a NUL'),
        (lambda c: c.alltoallv(X, send_counts=[9], receive_counts=[4]), ValueError, "send_counts"),
        (
            lambda c: c.neighbor_allreduce(X, self_weight=0.5, src_weights={"a": 0.5}),
            weft.InvalidArgument,
            "'a'",
        ),
        (
            lambda c: c.neighbor_allreduce(X, self_weight=0.5, src_weights={3: 0.5}),
            weft.InvalidArgument,
            "3",
        ),
        (
            lambda c: c.neighbor_allreduce(X, self_weight=float("nan"), src_weights={}),
            weft.InvalidArgument,
            "weight",
        ),
        (lambda c: c.neighbor_allreduce(X, push_sum=True), weft.InvalidArgument, "push-sum"),
        (lambda c: c.hierarchical_neighbor_allreduce(X), weft.Error, "machine"),
        (lambda c: c.set_graph(weft.ring_graph(5)), weft.InvalidArgument, "5"),
        (lambda c: c.set_machine_graph(weft.ring_graph(5)), weft.InvalidArgument, "5"),
        (lambda c: c.run_raw(weft._core.Request(99, 0, 0, 0, 0, 2)), weft.InvalidArgument, "99"),
        (lambda c: c.run_raw(weft._core.Request(3, 0, 0, 0, 0, 17)), weft.InvalidArgument, "17"),
        (lambda c: c.run_raw(weft._core.Request(3, 0, 4, 0, 4, 2)), weft.InvalidArgument, "null"),
        (lambda c: c.run_raw(weft._core.Request(3, 0, 0, 0, 0, 2, op=9)), weft.InvalidArgument, "9"),
    ],
)
def test_wrong_arguments(context: weft.Context, call: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        call(context)
    np.testing.assert_array_equal(context.allreduce(X), X)  # the context still works


def test_a_closed_context_raises_closed(context: weft.Context) -> None:
    context.close()
    context.close()
    assert context.is_closed and "closed" in repr(context)
    for call in (
        lambda: context.allreduce(X),
        lambda: context.allreduce_start(X),
        lambda: context.barrier(),
        lambda: context.set_graph(weft.ring_graph(1)),
        lambda: context.split(0),
        lambda: context.usage(),
        lambda: context.explain(),
        lambda: context.machine_graph,
    ):
        with pytest.raises(weft.Closed, match="closed"):
            call()


def test_two_ranks_that_disagree_both_learn_it() -> None:
    def body(ctx: weft.Context) -> Any:
        with pytest.raises(weft.Mismatch) as raised:
            ctx.allreduce(np.ones(3 + ctx.rank))
        return raised.value.rank

    assert as_threads(2, body) == [1, 0]


def test_a_rank_that_does_not_come_is_named() -> None:
    def body(ctx: weft.Context) -> Any:
        if ctx.rank == 1:
            done.wait(30)
            return None
        start = time.monotonic()
        try:
            with pytest.raises(weft.TimedOut, match="1") as raised:
                ctx.allreduce(X)
        finally:
            done.set()
        assert time.monotonic() - start < 10
        return raised.value.rank

    import threading

    done = threading.Event()
    assert as_threads(2, body, deadline_ms=500)[0] == 1


def test_config_of_nonsense() -> None:
    with pytest.raises(AttributeError):
        weft.Config(no_such_field=1)
    with pytest.raises(TypeError):
        weft.Config(size="many")
    with pytest.raises(weft.InvalidArgument):
        weft.Config(rank=3, size=2).check()
    with pytest.raises(weft.InvalidArgument):
        weft.make_local_stores(0)
    with pytest.raises(TypeError):
        weft.Context.create(weft.Config(), None)  # type: ignore[arg-type]
