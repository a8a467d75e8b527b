"""Tensors that travel in fewer bytes: NumPy, by name, weft.torch and weft.horovod."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import weft

from conftest import as_processes, as_threads

COUNT = 5000


def values(rank: int) -> np.ndarray:
    return np.random.default_rng(rank).uniform(-1, 1, COUNT).astype(np.float32)


def is_near(result: np.ndarray, wanted: np.ndarray, most: float = 6e-3) -> bool:
    return float(np.sqrt(np.mean((result - wanted) ** 2))) < most


@pytest.mark.parametrize("compression", ["f16", "bf16", "sketch", "e4m3", "e5m2", weft.Compression.sketch])
def test_operations(compression: Any) -> None:
    def body(ctx: weft.Context) -> Any:
        x = values(ctx.rank)
        mean = ctx.allreduce(x, compression=compression)
        handle = ctx.neighbor_allreduce_start(
            x, self_weight=0.5, src_weights={(ctx.rank + 1) % 2: 0.5}, compression=compression
        )
        prepared = ctx.prepare("allreduce", x, op="sum", compression=compression)
        return mean, handle.wait(), prepared.run()

    wanted = (values(0) + values(1)) / 2
    most = {"e4m3": 2e-2, "e5m2": 4e-2}.get(compression, 6e-3)
    for mean, neighbors, total in as_threads(2, body):
        assert is_near(mean, wanted, most)
        assert is_near(neighbors, wanted, most)
        assert is_near(total / 2, wanted, most)


def matrix(rank: int) -> np.ndarray:
    """Of rank 1, so that the sum of two has a rank of 2."""
    random = np.random.default_rng(rank)
    return np.outer(random.uniform(-1, 1, 120), random.uniform(-1, 1, 90)).astype(np.float32)


def test_matrices_of_low_rank() -> None:
    def body(ctx: weft.Context) -> Any:
        x, bias = matrix(ctx.rank), values(ctx.rank)
        results = [
            ctx.allreduce(x, compression="low_rank:2"),
            ctx.neighbor_allreduce(x, compression=weft.Compression.low_rank),
            ctx.prepare("allreduce", x, compression="low_rank:3").run(),
        ]
        named = ctx.named()
        results.append(named["x"].neighbor_allreduce(x, compression="low_rank:1"))
        group = named.grouped_allreduce("group", [x, bias], compression="low_rank:2")
        results.append(group[0])
        assert is_near(group[1], (values(0) + values(1)) / 2)  # is no matrix, and goes as a sketch
        with pytest.raises(ValueError, match="low_rank:many"):
            ctx.allreduce(x, compression="low_rank:many")
        window = ctx.win_create(x, "matrix")
        with pytest.raises(weft.InvalidArgument, match="low_rank"):
            window.put(compression="low_rank:2")
        named.end()
        return results

    wanted = (matrix(0) + matrix(1)) / 2
    for results in as_threads(2, body):
        for each in results:
            assert is_near(each, wanted, 2e-3)
    assert 'weft_encoded_tensors_total{form="low_rank"}' in weft.metrics()
    assert weft.flight().endswith('{"end":true}\n')


def test_by_name() -> None:
    def body(ctx: weft.Context) -> Any:
        named = ctx.named()
        x = [values(ctx.rank), values(ctx.rank + 10)]
        names = ["a", "b"] if ctx.rank == 0 else ["b", "a"]
        handles = {
            name: named[name].allreduce_start(x[name == "b"], compression="sketch")
            for name in names
        }
        results = [handles[name].wait() for name in ("a", "b")]
        results += named.grouped_allreduce("group", x, compression="bf16")
        results.append(named["c"].neighbor_allreduce(x[0], compression="sketch"))
        named.end()
        return results

    for results in as_threads(2, body):
        for i, result in enumerate(results):
            first = 10 * (i % 2)
            assert is_near(result, (values(first) + values(first + 1)) / 2)


def test_windows() -> None:
    def body(ctx: weft.Context) -> Any:
        x = values(ctx.rank)
        window = ctx.win_create(x.copy(), "w", zero_init=True)
        window.put(compression="sketch")
        window.accumulate(x, compression="f16")
        ctx.barrier()
        window.prepare_put(compression="bf16")
        result = window.update_then_collect().copy()
        with pytest.raises(ValueError, match="compression 'zip' does not exist"):
            window.put(compression="zip")
        ctx.win_free("w")
        return result

    a, b = values(0), values(1)
    for result, wanted in zip(as_threads(2, body), (a + 2 * b, b + 2 * a)):
        assert is_near(result / 3, wanted / 3)


def test_feedback() -> None:
    def body(ctx: weft.Context) -> Any:
        named, x, steps = ctx.named(), values(ctx.rank), 30
        sums = [np.zeros(COUNT) for _ in range(6)]
        feedbacks = [weft.ErrorFeedback() for _ in range(4)]
        out = np.empty_like(x)
        prepared = ctx.prepare("allreduce", x, out, compression="sketch", feedback=feedbacks[0])
        for _ in range(steps):
            sums[0] += ctx.allreduce(x, compression="sketch")
            sums[1] += prepared.run()
            sums[2] += named["a"].allreduce(x, compression="sketch", feedback=feedbacks[1])
            one = named.grouped_allreduce("b", [x], compression="sketch", feedback=feedbacks[2:3])
            sums[3] += one[0]
            sums[4] += named["c"].neighbor_allreduce(
                x, self_weight=0.5, src_weights={1 - ctx.rank: 0.5}, compression="sketch"
            )
            sums[5] += ctx.neighbor_allreduce(
                x,
                self_weight=0.5,
                src_weights={1 - ctx.rank: 0.5},
                compression="sketch",
                feedback=feedbacks[3],
            )
        assert len(feedbacks[0].residual()) == COUNT
        with pytest.raises(weft.InvalidArgument, match="belongs to a tensor of 5000 elements"):
            ctx.allreduce(x[:10].copy(), compression="sketch", feedback=feedbacks[0])
        feedbacks[0].clear()
        assert feedbacks[0].residual() == []
        with pytest.raises(weft.InvalidArgument, match="error feedback is for compressed tensors"):
            ctx.allreduce(x, feedback=feedbacks[0])
        named.end()
        wanted = steps * (values(0) + values(1)) / 2
        return [float(np.sqrt(np.mean((each - wanted) ** 2))) for each in sums]

    for errors in as_threads(2, body):
        assert max(errors[1], errors[2], errors[3]) < errors[0] / 5
        assert errors[5] < errors[4] / 5


def test_what_cannot_be_compressed() -> None:
    def body(ctx: weft.Context) -> None:
        with pytest.raises(weft.InvalidArgument, match="takes f32, not f64"):
            ctx.allreduce(np.ones(3), compression="sketch")
        with pytest.raises(ValueError, match="compression 'zip' does not exist"):
            ctx.allreduce(values(0), compression="zip")
        with pytest.raises(weft.InvalidArgument, match="max of compressed tensors"):
            ctx.allreduce(values(0), op="max", compression="f16")

    as_threads(1, body)


TORCH = """
import torch
import weft.torch as bf
import weft.horovod as hvd
bf.init()
rank, size = bf.rank(), bf.size()
x = torch.linspace(-1, 1, 4000) + rank
wanted = torch.linspace(-1, 1, 4000) + (size - 1) / 2
assert torch.allclose(bf.allreduce(x, compression="sketch"), wanted, atol=0.05)
assert torch.allclose(bf.allreduce(x, name="x", compression="f16"), wanted, atol=0.01)
assert torch.allclose(bf.neighbor_allreduce(x, compression="bf16"), wanted, atol=0.02)
handle = bf.neighbor_allreduce_nonblocking(x, compression="sketch")
assert torch.allclose(bf.synchronize(handle), wanted, atol=0.05)
assert torch.allclose(bf.neighbor_allreduce(x, name="n", compression="sketch"), wanted, atol=0.05)
thin = torch.outer(torch.linspace(-1, 1, 80), torch.linspace(1, 2, 60))
mean = thin * (1 + (size - 1) / 2)
thin *= 1 + rank
assert torch.allclose(bf.allreduce(thin, compression="low_rank:1"), mean, atol=0.02)
assert torch.allclose(bf.neighbor_allreduce(thin, name="m", compression="low_rank"), mean, atol=0.02)
bf.win_create(x, "w", zero_init=True)
bf.win_put(x, "w", compression="sketch")
bf.win_accumulate(x, "w", compression="f16")
bf.barrier()
assert torch.allclose(bf.win_update("w", 1 / size, {r: 0.5 / size for r in bf.in_neighbor_ranks()}), wanted, atol=0.05)
bf.win_free("w")
bf.shutdown()
hvd.init()
assert torch.allclose(hvd.allreduce(x, name="x", compression=hvd.Compression.sketch), wanted, atol=0.05)
for low_rank in (hvd.Compression.low_rank, hvd.Compression.of_rank(1)):
    assert torch.allclose(hvd.allreduce(thin, name="m", compression=low_rank), mean, atol=0.02)
whole = torch.arange(4000)  # integers travel as they are
assert torch.equal(hvd.allreduce(whole, op=hvd.Max, name="w", compression=hvd.Compression.sketch), whole)
model = torch.nn.Linear(100, 50)
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(), compression=hvd.Compression.sketch)
torch.manual_seed(rank)
batch = torch.randn(64, 100)
losses = []
for step in range(20):
    optimizer.zero_grad()
    loss = (model(batch) - 1).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < 0.7 * losses[0], losses
first = hvd.broadcast(model.weight.detach().clone(), root_rank=0, name="first")
assert torch.equal(first, model.weight), "all ranks have the same model to the bit"
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters(prefix="f"), groups=1,
    compression=hvd.Compression.of_rank(2), error_feedback=True)
for step in range(3):
    optimizer.zero_grad()
    (model(batch) - 1).square().mean().backward()
    optimizer.step()
assert all(sum(map(abs, each.residual())) > 0 for each in optimizer._feedbacks[0])
try:
    hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), error_feedback=True)
except ValueError as error:
    assert "error_feedback needs compression" in str(error)
else:
    raise AssertionError("error_feedback without a compression")
hvd.shutdown()
bf.init()
for kind in (bf.DistributedGradientAllreduceOptimizer, bf.DistributedAdaptWithCombineOptimizer,
             bf.DistributedAdaptThenCombineOptimizer):
    torch.manual_seed(0)
    model = torch.nn.Linear(100, 50)
    trained = kind(torch.optim.SGD(model.parameters(), lr=0.1), model, compression="sketch", error_feedback=True)
    losses = []
    for step in range(20):
        trained.zero_grad()
        loss = (model(batch) - 1).square().mean()
        loss.backward()
        trained.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0], (kind, losses)
    assert all(any(each.residual()) for each in trained._feedback.values())
    try:
        kind(torch.optim.SGD(model.parameters(), lr=0.1), model, compression="low_rank:4")
    except ValueError as error:
        assert "takes matrices" in str(error), error
    else:
        raise AssertionError("low rank of tensors that travel as one")
torch.manual_seed(0)
model = torch.nn.Linear(100, 50)
pushed = bf.DistributedWinPutOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model, compression="f16")
for step in range(3):
    pushed.zero_grad()
    (model(batch) - 1).square().mean().backward()
    pushed.step()
pushed.unregister_window()
bf.shutdown()
"""


def test_torch_and_horovod() -> None:
    pytest.importorskip("torch")
    as_processes(2, TORCH)
