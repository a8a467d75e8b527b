"""Push-sum, D-PSGD, AD-PSGD, bounded staleness, partial all-reduce and gradient exchange."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import weft

from conftest import as_threads


def test_push_sum_holds_the_exact_mean_after_log2_n_steps() -> None:
    def body(ctx: weft.Context) -> None:
        x = np.full((2, 50), float(ctx.rank))
        push_sum = weft.PushSum(ctx, weft.one_peer_exponential(ctx.size), x)
        push_sum.step()
        push_sum.begin_step()
        push_sum.end_step()
        assert push_sum.steps == 2 and abs(push_sum.weight() - 1) < 1e-12
        z = push_sum.debias()
        assert z.shape == (2, 50) and np.abs(z - 1.5).max() < 1e-12
        with pytest.raises(weft.InvalidArgument):
            push_sum.debias(np.empty(3))
        push_sum.settle()
        push_sum.end()

    as_threads(4, body)


@pytest.mark.parametrize("lag", [1, None])
def test_push_sum_with_a_lag_keeps_the_mean(lag: int) -> None:
    def body(ctx: weft.Context) -> None:
        x = np.full(20, float(ctx.rank))
        push_sum = weft.PushSum(ctx, weft.one_peer_exponential(ctx.size), x, name="late", lag=lag)
        for _ in range(40):
            push_sum.step()
        push_sum.settle()
        totals = ctx.allreduce(np.array([x[0], push_sum.weight()]), op="sum")
        assert np.allclose(totals, [6, 4])
        push_sum.end()

    as_threads(4, body)


def test_dpsgd_averages_pairs() -> None:
    def body(ctx: weft.Context) -> None:
        dpsgd = weft.DPsgd(ctx, weft.undirected_one_peer(ctx.size))
        x = np.full(10, float(ctx.rank))
        for _ in range(4):
            x = dpsgd.step(x)
        assert dpsgd.steps == 4 and np.allclose(ctx.allreduce(x), 1.5)
        with pytest.raises(ValueError, match="differ in size"):
            dpsgd.step(x, np.empty(3))

    as_threads(4, body)


def test_ad_psgd_keeps_the_mean_and_updates_alone() -> None:
    def body(ctx: weft.Context) -> None:
        model = np.full(30, float(ctx.rank))
        ad_psgd = weft.AdPsgd(ctx, model, seed=ctx.rank + 1)
        peers = {ad_psgd.average() for _ in range(20)}
        assert ctx.rank not in peers and all(0 <= each < ctx.size for each in peers)

        def change() -> None:
            model[:] += 1

        ad_psgd.update(change)

        def fail() -> None:
            raise RuntimeError("on purpose")

        with pytest.raises(RuntimeError, match="on purpose"):
            ad_psgd.update(fail)
        ctx.barrier()
        assert np.allclose(ctx.allreduce(ad_psgd.read()), 2.5)
        with pytest.raises(weft.InvalidArgument):
            ad_psgd.average(ctx.rank)
        ctx.barrier()
        ad_psgd.end()

    as_threads(4, body)


def test_an_array_that_others_write_to_stays_when_it_is_dropped() -> None:
    def body(ctx: weft.Context) -> None:
        x = np.zeros(50)
        array = weakref.ref(x)
        ad_psgd = weft.AdPsgd(ctx, x)
        del ad_psgd, x
        gc.collect()
        assert array() is not None
        ctx.barrier()

    as_threads(2, body)


def test_no_rank_is_further_ahead_than_the_bound() -> None:
    def body(ctx: weft.Context) -> None:
        x = np.full(5, float(ctx.rank))
        staleness = weft.BoundedStaleness(ctx, x, bound=2)
        for step in range(20):
            staleness.step()
            assert staleness.version == step + 1
            assert min(staleness.delivered()) + 2 >= staleness.version
        ctx.barrier()
        staleness.end()

    as_threads(3, body)


def test_a_wait_ends_at_its_timeout_and_with_its_context() -> None:
    def body(ctx: weft.Context) -> None:
        x = np.zeros(5)
        staleness = weft.BoundedStaleness(ctx, x, bound=0)
        if ctx.rank == 0:
            staleness.publish()
            with pytest.raises(weft.TimedOut):
                staleness.wait(timeout=0.01)
        ctx.barrier()
        ctx.close()
        with pytest.raises(weft.Closed):
            staleness.publish()

    as_threads(2, body)


def test_partial_allreduce_averages_in_groups_and_keeps_the_mean() -> None:
    def body(ctx: weft.Context) -> None:
        x = np.full((2, 20), float(ctx.rank), np.float32)
        with weft.PartialAllreduce(ctx, x, law="random:2", seed=3) as partial:
            partial.begin()
            for _ in range(20 + ctx.rank):  # different numbers of iterations
                group = partial.average()
                assert ctx.rank in group and group == sorted(group) and len(group) <= 2
            usage = partial.usage()
        assert usage["messages_sent"] >= 20 and usage["messages_received"] >= 20
        assert usage["successions"] == 0
        assert ctx.allreduce(np.array([usage["groups"]]), op="sum")[0] > 0
        assert np.abs(ctx.allreduce(x) - 1.5).max() < 1e-5
        with pytest.raises(weft.Closed, match="has ended"):
            partial.average()

    as_threads(4, body)


def test_partial_allreduce_averages_once_a_section() -> None:
    def body(ctx: weft.Context) -> None:
        x = np.zeros(5)
        with weft.PartialAllreduce(ctx, x, name="scheduled", law="static", section=2) as partial:
            assert [len(partial.average()) > 0 for _ in range(6)] == [False, True] * 3

    as_threads(3, body)


def test_a_partial_allreduce_that_is_refused_says_why() -> None:
    def body(ctx: weft.Context) -> None:
        x = np.zeros(5)
        for options, text in [
            ({"law": "eager"}, "eager"),
            ({"threshold": 1}, "threshold"),
            ({"section": 0}, "a section of 0 iterations"),
        ]:
            with pytest.raises(weft.InvalidArgument, match=text):
                weft.PartialAllreduce(ctx, x, **options)
        with pytest.raises(weft.InvalidArgument, match="a model of i64 cannot be averaged"):
            weft.PartialAllreduce(ctx, np.zeros(5, np.int64))
        with pytest.raises(weft.Mismatch, match="ranks 0 and 1 disagree: .* seed 8, .* seed 7,") as info:
            weft.PartialAllreduce(ctx, x, seed=7 if ctx.rank == 1 else 8)
        assert info.value.rank == 1

    as_threads(2, body)


def exchange_of(ctx: weft.Context, x: Any, **options: Any) -> weft.GradientExchange:
    return weft.GradientExchange(ctx, x, [70, 20, 10], **options)


def push_all(exchange: weft.GradientExchange, value: float) -> None:
    for colayer, count in enumerate([70, 20, 10]):
        exchange.push(colayer, np.full(count, float(value)))


def test_a_bulk_exchange_gives_the_mean_of_all_ranks() -> None:
    def body(ctx: weft.Context) -> None:
        x, mean = np.ones((10, 10)), np.empty((10, 10))
        with exchange_of(ctx, x, rule="bulk", rate=0.5) as exchange:
            assert exchange.iteration == -1
            for step in range(4):
                exchange.begin()
                push_all(exchange, ctx.rank)
                ended = exchange.end_iteration(mean if step % 2 == 0 else None)
                assert ended[:4] == (step, False, None, [ctx.size] * 3)
                assert ended.mean.shape == (10, 10) and (ended.mean == 1.5).all()
            assert ended.mean is not mean and (mean == 1.5).all()
            assert (x == 1 - 0.5 * 4 * 1.5).all() and exchange.iteration == 3
            assert len(exchange.index()) > 0
            sent = 4 * (ctx.size - 1) * x.nbytes
            assert exchange.counts() == {"iterations": 4, "dropped": 0, "pulls": 0, "bytes": sent}
        with pytest.raises(weft.Closed, match="has ended"):
            exchange.begin()

    as_threads(4, body)


def test_the_gradients_of_a_mesh_travel_as_sketches() -> None:
    def body(ctx: weft.Context) -> None:
        x = np.zeros(9000, np.float32)
        options = {"rule": "bulk", "rate": 1.0, "topology": "mesh", "compression": "sketch"}
        with weft.GradientExchange(ctx, x, [6000, 3000], **options) as exchange:
            for step in range(4):
                exchange.begin()
                slope = np.sin(np.arange(9000, dtype=np.float32) + ctx.rank + step)
                exchange.push(0, slope[:6000])
                exchange.push(1, slope[6000:])
                assert exchange.end_iteration().contributors == [3, 3]
            sent = exchange.counts()["bytes"]
        want = -sum(np.sin(np.arange(9000) + rank + step) for rank in range(3) for step in range(4)) / 3
        assert np.abs(x - want).max() < 0.3
        assert 0 < sent < 4 * 2 * x.nbytes / 2

    as_threads(3, body)


def test_a_late_rank_drops_its_gradients_and_takes_the_model_of_the_fastest() -> None:
    def body(ctx: weft.Context) -> None:
        x = np.ones(100)
        exchange = exchange_of(ctx, x, staleness=2, proportion=2, rate=0.5)
        exchange.begin()
        ctx.barrier()
        for _ in range(4 if ctx.rank == 0 else 0):
            push_all(exchange, 1)
            exchange.end_iteration()
            exchange.begin()
        ctx.barrier()
        assert exchange.staleness() == (0 if ctx.rank == 0 else 4)
        if ctx.rank != 0:
            push_all(exchange, 1)
        ended = exchange.end_iteration()
        assert ended.is_dropped == (ctx.rank != 0)
        assert ended.pulled_from == (None if ctx.rank == 0 else 0)
        assert (x == 1 - 0.5 * 4).all()
        ctx.barrier()  # all have pulled

        def fail() -> None:
            x[:] += 1
            raise RuntimeError("on purpose")

        with pytest.raises(RuntimeError, match="on purpose"):
            exchange.update(fail)
        assert (x == 0).all()
        exchange.end()

    as_threads(3, body)


def test_an_exchange_that_is_refused_says_why() -> None:
    def body(ctx: weft.Context) -> None:
        x = np.zeros(100)
        for options, text in [
            ({"rule": "eager"}, "no exchange rule 'eager'; there are bulk, bounded"),
            ({"staleness": -1}, "a staleness of -1"),
            ({"proportion": 4}, "a proportion of 4 of 3 colayers"),
            ({"rate": 0}, "the rate is 0"),
            ({"topology": "ring"}, "no exchange topology 'ring'; there are all_to_all, mesh"),
            ({"compression": "sketch"}, "a model of f64 cannot be compressed"),
        ]:
            with pytest.raises(weft.InvalidArgument, match=text):
                exchange_of(ctx, x, **options)
        with pytest.raises(weft.Mismatch, match="ranks 0 and 1 disagree"):
            exchange_of(ctx, x, rate=0.1 * (ctx.rank + 1))
        exchange = exchange_of(ctx, x)
        with pytest.raises(weft.InvalidArgument, match="no iteration has begun"):
            exchange.push(0, np.zeros(70))
        exchange.begin()
        with pytest.raises(weft.InvalidArgument, match="colayer 3 is not one of 0…2"):
            exchange.push(3, np.zeros(70))
        with pytest.raises(weft.InvalidArgument, match="the mean has 3 elements"):
            exchange.end_iteration(np.zeros(3))
        exchange.end_iteration()
        exchange.end()

    as_threads(2, body)


def test_layers_are_bundled_by_kind_and_size() -> None:
    assert weft.bundle_layers([70, 60, 50], 2, kinds=[1, 0, 0]) == [0, 1, 1]
    assert weft.bundle_layers([70, 60, 50], colayers=3) == [0, 1, 2]
    with pytest.raises(weft.InvalidArgument, match="4 colayers of 3 layers"):
        weft.bundle_layers([70, 60, 50], 4)
    with pytest.raises(weft.InvalidArgument, match="kinds of 2 layers, and counts of 3"):
        weft.bundle_layers([70, 60, 50], 2, [0, 1])


def test_what_others_write_to_stays_with_the_context() -> None:
    def body(ctx: weft.Context) -> None:
        exchange = exchange_of(ctx, np.ones(100), rule="asynchronous")
        partial = weft.PartialAllreduce(ctx, np.ones(100), law="static")
        partial.average()
        exchange.begin()
        push_all(exchange, 1)
        if ctx.rank == 0:
            del exchange, partial
        gc.collect()
        for _ in range(10 if ctx.rank != 0 else 0):
            exchange.end_iteration()
            exchange.begin()
            push_all(exchange, 1)
        ctx.barrier()
        ctx.close()
        if ctx.rank != 0:
            for call in (exchange.begin, partial.begin):
                with pytest.raises(weft.Closed):
                    call()

    as_threads(3, body)


def test_an_exception_leaves_a_block_without_waiting_for_the_others() -> None:
    def body(ctx: weft.Context) -> None:
        with pytest.raises(ZeroDivisionError):
            with exchange_of(ctx, np.ones(100)), weft.PartialAllreduce(ctx, np.ones(100)):
                raise ZeroDivisionError
        ctx.barrier()

    as_threads(2, body)
