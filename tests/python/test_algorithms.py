"""Push-sum, D-PSGD, AD-PSGD and bounded staleness."""

from __future__ import annotations

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
