"""DDP, FSDP2, DTensor, functional collectives and torch.distributed.nn on the backend "weft"."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import Any, Callable

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, os.path.dirname(__file__))

import torch.distributed as dist  # noqa: E402
import torch.distributed.nn  # noqa: E402
from distributed_ranks import run_ranks  # noqa: E402

STEPS = 3


def model() -> Any:
    torch.manual_seed(1)
    return torch.nn.Sequential(
        torch.nn.Linear(20, 50), torch.nn.ReLU(), torch.nn.Linear(50, 50), torch.nn.ReLU(),
        torch.nn.Linear(50, 5),
    )  # fmt: skip


def train(wrapped: Any) -> None:
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1, momentum=0.9)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for _ in range(STEPS):
        x = torch.randn(8, 20, generator=generator)
        wrapped(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def parameters(trained: Any) -> Any:
    return torch.cat([each.detach().reshape(-1) for each in trained.parameters()])


def ddp() -> None:
    """The same parameters as with gloo, with one bucket and with several."""
    dist.init_process_group("weft")
    gloo = dist.new_group(backend="gloo")
    trained = []
    for group in (None, gloo):
        for megabytes in (25, 0.001):
            wrapped = torch.nn.parallel.DistributedDataParallel(
                model(), process_group=group, bucket_cap_mb=megabytes
            )
            train(wrapped)
            trained.append(parameters(wrapped))
    for other in trained[1:]:
        torch.testing.assert_close(trained[0], other)
    everyone = [torch.empty_like(trained[0]) for _ in range(dist.get_world_size())]
    dist.all_gather(everyone, trained[0])
    assert all(torch.equal(each, everyone[0]) for each in everyone)
    dist.destroy_process_group()


def ddp_hook() -> None:
    """A communication hook whose future has a callback in Python."""
    dist.init_process_group("weft")
    wrapped = torch.nn.parallel.DistributedDataParallel(model(), bucket_cap_mb=0.001)
    size = dist.get_world_size()

    def hook(state, bucket):  # type: ignore[no-untyped-def]  # torch checks annotations
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda done: done.value()[0] / size)

    wrapped.register_comm_hook(None, hook)
    train(wrapped)
    plain = torch.nn.parallel.DistributedDataParallel(model())
    train(plain)
    torch.testing.assert_close(parameters(wrapped), parameters(plain))
    dist.destroy_process_group()


def fsdp2() -> None:
    """fully_shard on CPU gives what one process gives that sees all data."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    dist.init_process_group("weft")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    sharded = model()
    for layer in sharded:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    train(sharded)
    whole = torch.cat([each.full_tensor().reshape(-1) for each in sharded.parameters()])
    wrapped = torch.nn.parallel.DistributedDataParallel(model())
    train(wrapped)
    torch.testing.assert_close(whole.detach(), parameters(wrapped))
    dist.destroy_process_group()


def dtensor() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    dist.init_process_group("weft")
    size = dist.get_world_size()
    mesh = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("a", "b"))
    whole = torch.arange(64.0).view(8, 8)
    split = distribute_tensor(whole, mesh, [Shard(0), Shard(1)])
    assert torch.equal((split @ split).full_tensor(), whole @ whole)
    moved = split.redistribute(mesh, [Replicate(), Shard(0)])
    assert torch.equal(moved.full_tensor(), whole)
    dist.destroy_process_group()


def functional() -> None:
    import torch.distributed._functional_collectives as functional

    dist.init_process_group("weft")
    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.group.WORLD
    x = torch.full((size, 2), float(rank))
    total = functional.all_reduce(x, "sum", group)
    assert torch.equal(total + 0, torch.full((size, 2), float(sum(range(size)))))
    gathered = functional.all_gather_tensor(x, 0, group)
    assert torch.equal(gathered[::size, 0] + 0, torch.arange(float(size)))
    part = functional.reduce_scatter_tensor(x, "sum", 0, group)
    assert torch.equal(part + 0, torch.full((1, 2), float(sum(range(size)))))
    swapped = functional.all_to_all_single(x, None, None, group)
    assert torch.equal(swapped[:, 0] + 0, torch.arange(float(size)))
    both = functional.all_reduce_coalesced([x, x + 1], "sum", group)
    assert torch.equal(both[1] + 0, total + size)
    root = functional.broadcast(x, 1, group)
    assert torch.equal(root + 0, torch.ones(size, 2))
    dist.destroy_process_group()


def with_gradients() -> None:
    """torch.distributed.nn: collectives with gradients, against gloo's."""
    dist.init_process_group("weft")
    gloo = dist.new_group(backend="gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    gradients = []
    for group in (dist.group.WORLD, gloo):
        x = torch.full((size, 3), rank + 1.0, requires_grad=True)
        y = dist.nn.all_reduce(x, group=group)
        y = y * torch.stack(list(dist.nn.all_gather(x, group=group))).sum(0)
        (z,) = dist.nn.all_to_all([torch.zeros(size, 3)] * size, [x] * size, group=group)[:1]
        w = dist.nn.broadcast(x, 0, group=group)
        (y.sum() + (z * (rank + 1)).sum() + w.square().sum()).backward()
        gradients.append(x.grad)
    torch.testing.assert_close(gradients[0], gradients[1])
    dist.destroy_process_group()


def compiled() -> None:
    """torch.compile calls Weft outside of its graphs."""
    import weft.torch as bf

    dist.init_process_group("weft")
    bf.init()
    rank = dist.get_rank()

    def broadcast(x: Any) -> Any:
        dist.broadcast(x, 1)
        return x + 1

    def started(x: Any) -> Any:
        work = dist.broadcast(x, 1, async_op=True)
        work.wait()
        return x + 1

    def named(x: Any) -> Any:
        return bf.synchronize(bf.allreduce_nonblocking(x, name="x")) + bf.allreduce(x) + bf.rank()

    x = torch.full((3,), float(rank))
    for function, expected in ((broadcast, 2.0), (started, 2.0), (named, 1.0 + rank)):
        y = torch.compile(function, backend="eager")(x.clone())
        assert (y == expected).all(), (function.__name__, y)
    normed = torch.nn.parallel.DistributedDataParallel(torch.nn.BatchNorm1d(4))
    torch.compile(normed, backend="eager")(torch.full((2, 4), float(rank))).sum().backward()
    assert normed.module.bias.grad.tolist() == [2.0] * 4
    bf.shutdown()
    dist.destroy_process_group()


@pytest.mark.parametrize("size", [2, 4])
def test_ddp_gives_what_gloo_gives(size: int) -> None:
    run_ranks(size, ddp)


@pytest.mark.parametrize("case", [ddp_hook, fsdp2, functional], ids=lambda c: c.__name__)
def test_torch_runs_unchanged(case: Callable[[], None]) -> None:
    run_ranks(2, case)


def test_compiled_functions_call_weft_outside_of_their_graphs() -> None:
    run_ranks(2, compiled, variables={"WEFT_JOB_KEY": "a secret of the test"})


def test_meshes_of_two_dimensions() -> None:
    run_ranks(4, dtensor)


def test_gradients_through_collectives() -> None:
    run_ranks(2, with_gradients)


def test_the_example_learns_digits() -> None:
    example = pathlib.Path(__file__).parents[2] / "examples" / "python" / "ddp.py"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [*command, str(example), "--epochs", "4"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=120,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("epoch 4: ") and float(last.split()[2].rstrip("%")) > 85, done.stdout
