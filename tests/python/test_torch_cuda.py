"""weft.torch on tensors of CUDA: the backend of torch.distributed, BlueFog's operations, and training.

Run as a program, it is one rank of a job on whatever GPUs there are; without one the test skips.
"""

import os
import subprocess
import sys
import tempfile

import pytest

torch = pytest.importorskip("torch")

RANKS = 2
LIMIT_S = 240


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu() -> None:
    command = [sys.executable, "-m", "weft.run", "-n", str(RANKS), sys.executable, __file__]
    subprocess.run(command, check=True, timeout=LIMIT_S)


def _device() -> "torch.device":
    number = int(os.environ.get("WEFT_LOCAL_RANK", "0")) % torch.cuda.device_count()
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def _check_backend(dist, device, rank: int, size: int) -> None:
    for count in (1, 1000, 3_000_000):
        x = torch.full((count,), float(rank + 1), device=device)
        for _ in range(3):
            y = x * 2  # on the GPU, when the operation begins
            dist.all_reduce(y)
            assert (y == size * (size + 1)).all(), count
        works = []
        tensors = [torch.full((count,), float(rank + k), device=device) for k in range(6)]
        for each in tensors:
            works.append(dist.all_reduce(each, op=dist.ReduceOp.MAX, async_op=True))
            x.mul_(1.0)  # goes on meanwhile
        for k, (work, each) in enumerate(zip(works, tensors)):
            work.wait()
            assert (each == size - 1 + k).all()
        future = dist.all_reduce(torch.ones(count, device=device), async_op=True).get_future()
        assert (future.wait()[0] * 1 == size).all()
    matrix = torch.arange(12.0, device=device).view(3, 4).t()  # not contiguous
    dist.broadcast(matrix, src=0)
    gathered = torch.empty(size * 5, device=device)
    dist.all_gather_into_tensor(gathered, torch.full((5,), float(rank), device=device))
    assert gathered.view(size, 5)[:, 0].tolist() == list(range(size))
    if rank == 0:
        dist.send(torch.arange(7.0, device=device), 1)
    elif rank == 1:
        got = torch.empty(7, device=device)
        dist.recv(got, 0)
        assert got.tolist() == [float(i) for i in range(7)]
    dist.barrier()
    said = [None] * size
    dist.all_gather_object(said, f"rank {rank}")
    assert said == [f"rank {each}" for each in range(size)]


def _check_operations(bf, device, rank: int, size: int) -> None:
    x = torch.full((400_000,), float(rank), device=device)
    mean = (size - 1) / 2
    assert torch.allclose(bf.allreduce(x), torch.full_like(x, mean))
    handle = bf.neighbor_allreduce_nonblocking(x * 1.0, name="x")
    y = bf.synchronize(handle)
    assert y.device == device and torch.allclose(y, bf.neighbor_allreduce(x))
    rows = bf.allgather(torch.full((rank + 1, 3), float(rank), device=device))
    assert rows.device == device and rows[:, 0].tolist() == [
        float(each) for each in range(size) for _ in range(each + 1)
    ]
    bf.win_create(x, "w", zero_init=True)
    x.add_(1.0)  # in the current stream, before the put
    bf.win_put(x, "w")
    bf.win_fence()
    bf.win_update("w")
    near = bf.in_neighbor_ranks()
    own = (rank + 1.0 + sum(each + 1.0 for each in near)) / (len(near) + 1)
    assert torch.allclose(x, torch.full_like(x, own))
    clone = bf.win_update("w", clone=True)
    assert clone.device == device and clone is not x
    bf.win_free("w")


def _train(bf, device, rank: int, make) -> float:
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.ReLU(),
        torch.nn.Linear(512, 1),
    ).to(device)  # fmt: skip
    bf.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = make(torch.optim.SGD(model.parameters(), lr=0.05), model)
    torch.manual_seed(10 + rank)
    losses = []
    for _ in range(60):
        x = torch.randn(128, 64, device=device)
        loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True) / 8)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())  # waits for the GPU, behind what is under way
    assert losses[-1] < 0.5 * losses[0], (losses[0], losses[-1])
    flat = torch.cat([each.detach().reshape(-1) for each in model.parameters()])
    mine, other = flat, bf.allreduce(flat, average=True)
    return float((mine - other).abs().max())


def _check_ddp(dist, device, rank: int) -> None:
    torch.manual_seed(2)
    model = torch.nn.Linear(32, 32).to(device)
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for _ in range(10):
        optimizer.zero_grad()
        wrapped(torch.randn(16, 32, device=device)).pow(2).mean().backward()
        optimizer.step()
    weights = [torch.empty_like(model.weight.data) for _ in range(dist.get_world_size())]
    dist.all_gather(weights, model.weight.data)
    assert all(torch.equal(each, weights[0]) for each in weights)


def _main() -> None:
    import torch.distributed as dist

    import weft.torch as bf

    device = _device()
    bf.init()
    rank, size = bf.rank(), bf.size()
    _check_operations(bf, device, rank, size)
    assert _train(bf, device, rank, bf.DistributedGradientAllreduceOptimizer) < 1e-6
    assert _train(bf, device, rank, bf.DistributedAdaptThenCombineOptimizer) < 1e-1
    assert _train(bf, device, rank, bf.DistributedAdaptWithCombineOptimizer) < 1e-1
    with tempfile.TemporaryDirectory() as folder:
        place = bf.allgather(torch.tensor([ord(c) for c in f"{folder}/store"]))
        name = "".join(map(chr, place[: place.numel() // size].tolist()))  # rank 0's
        bf.shutdown()
        dist.init_process_group("weft", init_method=f"file://{name}", rank=rank, world_size=size)
        _check_backend(dist, device, rank, size)
        _check_ddp(dist, device, rank)
        dist.barrier()
        dist.destroy_process_group()
    print(f"rank {rank}: all right on {device}", flush=True)


if __name__ == "__main__":
    _main()
