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


def is_near(result: np.ndarray, wanted: np.ndarray) -> bool:
    return float(np.sqrt(np.mean((result - wanted) ** 2))) < 6e-3


@pytest.mark.parametrize("compression", ["f16", "bf16", "sketch", weft.Compression.sketch])
def test_operations(compression: Any) -> None:
    def body(ctx: weft.Context) -> Any:
        x = values(ctx.rank)
        mean = ctx.allreduce(x, compression=compression)
        handle = ctx.neighbor_allreduce_start(
            x, self_weight=0.5, src_weights={(ctx.rank + 1) % 2: 0.5}, compression=compression
        )
        prepared = ctx.prepare("allreduce", x, op="sum", compression=compression)
        return mean, handle.wait(), prepared.run()

    a, b = values(0), values(1)
    for mean, neighbors, total in as_threads(2, body):
        assert is_near(mean, (a + b) / 2)
        assert is_near(neighbors, (a + b) / 2)
        assert is_near(total / 2, (a + b) / 2)


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
        with pytest.raises(weft.InvalidArgument, match="only an allreduce"):
            named["c"].neighbor_allreduce(x[0], compression="sketch")
        named.end()
        return results

    for results in as_threads(2, body):
        for i, result in enumerate(results):
            first = 10 * (i % 2)
            assert is_near(result, (values(first) + values(first + 1)) / 2)


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
bf.shutdown()
hvd.init()
assert torch.allclose(hvd.allreduce(x, name="x", compression=hvd.Compression.sketch), wanted, atol=0.05)
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
hvd.shutdown()
"""


def test_torch_and_horovod() -> None:
    pytest.importorskip("torch")
    as_processes(2, TORCH)
