"""weft.horovod: Horovod's functions and its optimizer, over operations by name."""

from __future__ import annotations

import pytest

from conftest import as_processes

pytest.importorskip("torch")

CALLS = """
import torch
import weft.horovod as hvd
hvd.init()
rank, size = hvd.rank(), hvd.size()
assert hvd.is_initialized() and hvd.local_size() == size and hvd.cross_size() == 1
names = ["a", "b", "c", "d"]
order = names if rank == 0 else names[::-1]
handles = {name: hvd.allreduce_async(torch.full((3, 2), rank + float(ord(name))), name=name) for name in order}
for name, handle in handles.items():
    assert torch.allclose(hvd.synchronize(handle), torch.full((3, 2), (size - 1) / 2 + ord(name)))
x = torch.ones(5) * (rank + 1)
assert hvd.allreduce_(x, op=hvd.Sum, name="x") is x and (x == size * (size + 1) / 2).all()
many = [torch.full((each,), float(rank)) for each in (1, 10, 100)]
for each in hvd.grouped_allreduce(many, op=hvd.Max):
    assert (each == size - 1).all()
assert hvd.grouped_allreduce_(many, average=False, name="many")[0] is many[0]
assert hvd.allgather(torch.full((rank + 1, 2), float(rank))).shape == (size * (size + 1) // 2, 2)
assert (hvd.broadcast(torch.full((4,), float(rank)), root_rank=1, name="b") == 1).all()
y = torch.full((4,), float(rank))
hvd.broadcast_parameters({"y": y}, root_rank=size - 1)
assert (y == size - 1).all()
hvd.barrier()
for batch in range(rank + 1):
    hvd.allreduce(torch.ones(1), name="loss", op=hvd.Sum)
assert hvd.join() == size - 1
try:
    hvd.allreduce(torch.ones(2 + rank), name="wrong")
    assert False
except Exception as error:
    assert "the tensor differs" in str(error), error
hvd.shutdown()
assert not hvd.is_initialized()
"""

TRAINING = """
import torch
import weft.horovod as hvd
hvd.init()
torch.manual_seed(hvd.rank())
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
reference = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
reference.load_state_dict(model.state_dict())
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model.named_parameters(), num_groups=GROUPS)
assert isinstance(optimizer, torch.optim.SGD)
expected = torch.optim.SGD(reference.parameters(), lr=0.1, momentum=0.9)
torch.manual_seed(7)
inputs, targets = torch.randn(20, hvd.size(), 4, 6), torch.randn(20, hvd.size(), 4, 1)
for step in range(20):
    # Gradients that are looked at and dropped, by the optimizer or behind its back.
    model(targets[step, hvd.rank()].expand(4, 6)).sum().backward()
    optimizer.synchronize()
    (optimizer if step % 2 else model).zero_grad()
    torch.nn.functional.mse_loss(model(inputs[step, hvd.rank()]), targets[step, hvd.rank()]).backward()
    optimizer.step()
    expected.zero_grad()
    torch.nn.functional.mse_loss(reference(inputs[step].reshape(-1, 6)), targets[step].reshape(-1, 1)).backward()
    expected.step()
for mine, all_data in zip(model.parameters(), reference.parameters()):
    assert torch.allclose(mine, all_data, atol=1e-5), (mine - all_data).abs().max()
assert hvd.named().usage()["cache_hits"] > 0
"""


def run(ranks: int, program: str) -> None:
    done = as_processes(ranks, program)
    assert done.returncode == 0, done.stdout + done.stderr


def test_functions() -> None:
    run(3, CALLS)


@pytest.mark.parametrize("groups", [0, 2])
def test_the_optimizer_steps_as_one_process_with_all_data(groups: int) -> None:
    run(2, TRAINING.replace("GROUPS", str(groups)))
