"""Ways to train one model together, by name."""

from __future__ import annotations

import gc
from typing import Any, Dict

import numpy as np
import pytest
import weft

from conftest import as_threads

RATE = 0.1
FREE = ["ad_psgd", "prague", "prague:random", "canary", "canary:asynchronous"]  # ranks may take different numbers of steps


def slope(ctx: weft.Context, x: Any) -> Any:
    """That of (x - r)^2 / 2 at rank r: the mean of all ranks pulls to the mean of their numbers."""
    return x - ctx.rank


def test_each_strategy_comes_nearer_to_the_model_of_least_loss() -> None:
    assert {"allreduce", "diloco", "prague:static"} < set(weft.strategy_names())

    def body(ctx: weft.Context) -> None:
        ctx.set_graph(weft.exponential_graph(ctx.size))
        for name in weft.strategy_names():
            x = np.full((2, 9), 5.0 if ctx.rank == 0 else -1.0)
            with weft.Strategy(ctx, name, x, rate=RATE) as strategy:
                assert strategy.name == name and strategy.runs_free == (name in FREE)
                assert (x == 5).all()  # the model of rank 0
                for step in range(20):
                    if step % 2 == 0:
                        strategy.begin()
                    strategy.step(slope(ctx, x))
                    if name.startswith("canary"):
                        ctx.barrier()  # many gradients that come at once would be a step too far
                counts = strategy.counts()
            assert counts["steps"] == 20 and counts["bytes"] > 0, name
            assert counts["dropped"] == 0 or name == "canary"
            assert np.abs(ctx.allreduce(x) - 1.5).max() < 1.5, name
            with pytest.raises(weft.Closed, match="has ended"):
                strategy.begin()

    as_threads(4, body)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_allreduce_with_momentum_takes_the_steps_of_one_process(library: str) -> None:
    def new(value: float) -> Any:
        if library == "numpy":
            return np.full(6, value, np.float32)
        return pytest.importorskip("torch").full((6,), value)

    new(0.0)  # skips in the main thread

    def body(ctx: weft.Context) -> None:
        x = new(5.0)
        strategy = weft.Strategy(ctx, "allreduce", x, rate=0.5, momentum=0.5)
        strategy.set_rate(RATE)
        expected, momentum = 5.0, 0.0
        for _ in range(5):
            strategy.step(slope(ctx, x))
            momentum = 0.5 * momentum + expected - 1.5
            expected -= RATE * momentum
            assert abs(x - expected).max() < 1e-5
        strategy.end()

    as_threads(4, body)


@pytest.mark.parametrize(
    "name, options",
    [
        ("local_sgd", {"section": 2}),
        ("diloco", {"section": 2, "outer_rate": 1.0, "outer_momentum": 0.0}),
        ("noloco", {"section": 2, "outer_rate": 1.0, "outer_momentum": 0.0, "seed": 3}),
    ],
)
def test_a_section_is_alone_and_its_exchange_the_mean(name: str, options: Dict[str, Any]) -> None:
    def body(ctx: weft.Context) -> None:
        x = np.full(4, 5.0)
        with weft.Strategy(ctx, name, x, rate=RATE, **options) as strategy:
            mine = mean = 5.0
            for step in range(1, 7):
                strategy.step(slope(ctx, x))
                mine -= RATE * (mine - ctx.rank)
                mean -= RATE * (mean - 0.5)
                mine = mean if step % 2 == 0 else mine
                assert np.abs(x - mine).max() < 1e-12
        assert strategy.counts()["bytes"] == 3 * x.nbytes

    as_threads(2, body)


def test_models_travel_compressed() -> None:
    def body(ctx: weft.Context) -> None:
        sent = []
        for compression in ("none", weft.Compression.f16):
            x = np.ones(1000, np.float32)
            with weft.Strategy(ctx, "allreduce", x, compression=compression) as strategy:
                strategy.step(np.full(1000, ctx.rank, np.float32))
            assert np.abs(x - 0.95).max() < 1e-3
            sent.append(strategy.counts()["bytes"])
        assert sent[1] < 0.6 * sent[0]

    as_threads(2, body)


def test_what_is_refused() -> None:
    def body(ctx: weft.Context) -> None:
        x = np.zeros(5)
        with pytest.raises(weft.InvalidArgument, match='no strategy "hogwild", only parameter_server'):
            weft.Strategy(ctx, "hogwild", x)
        with pytest.raises(weft.InvalidArgument, match="the rate is 0; a number above 0 is needed"):
            weft.Strategy(ctx, "dpsgd", x, rate=0)
        with pytest.raises(weft.InvalidArgument, match="ad_psgd.*it has no momentum"):
            weft.Strategy(ctx, "ad_psgd", x, momentum=0.9)
        with pytest.raises(weft.InvalidArgument, match="a model of i64 cannot be averaged"):
            weft.Strategy(ctx, "dpsgd", np.zeros(5, np.int64))
        with pytest.raises(ValueError, match="compression 'zip' does not exist"):
            weft.Strategy(ctx, "allreduce", x, compression="zip")
        with pytest.raises(ValueError, match="Strategy"):
            weft.Strategy(ctx, "allreduce", np.zeros((4, 4))[:, 1])
        with pytest.raises(weft.Mismatch, match="ranks 0 and 1 disagree: rate 0.1.* and rate 0.2") as info:
            weft.Strategy(ctx, "diloco", x, rate=0.1 if ctx.rank == 0 else 0.2)
        assert info.value.rank == 1
        strategy = weft.Strategy(ctx, "dpsgd", x)
        with pytest.raises(weft.InvalidArgument, match="the gradient has 3 elements of f64"):
            strategy.step(np.zeros(3))
        strategy.begin()
        with pytest.raises(weft.InvalidArgument, match="has begun and not ended"):
            strategy.end()
        strategy.step(np.zeros(5))
        strategy.end()

    as_threads(2, body)


def test_an_exception_leaves_without_waiting_for_the_others() -> None:
    def body(ctx: weft.Context) -> None:
        with pytest.raises(ZeroDivisionError):
            with weft.Strategy(ctx, "allreduce", np.zeros(3)):
                raise ZeroDivisionError
        ctx.barrier()

    as_threads(2, body)


def test_what_others_write_to_stays_with_the_context() -> None:
    def body(ctx: weft.Context) -> None:
        x = np.zeros(100)
        dropped = weft.Strategy(ctx, "dpsgd:awc", np.zeros(100), window_name="a")
        dropped.begin()
        strategy = weft.Strategy(ctx, "ad_psgd", x, window_name="b")
        del dropped
        if ctx.rank == 0:
            del strategy
        gc.collect()
        if ctx.rank != 0:
            for _ in range(10):
                strategy.step(np.ones(100))
        ctx.barrier()
        ctx.close()
        if ctx.rank != 0:
            with pytest.raises(weft.Closed):
                strategy.step(np.ones(100))

    as_threads(3, body)
