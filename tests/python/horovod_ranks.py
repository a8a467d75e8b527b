"""Checks of weft.horovod, as a program for 4 ranks (test_horovod.py)."""

from __future__ import annotations

import json
import os
import tempfile
from typing import Any, Callable, Dict, List

import torch
import weft
import weft.horovod as hvd
from torch_jobs import run_checks


def check_functions() -> None:
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
    # Averages of integers are divided towards zero.
    for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64):
        numbers = torch.tensor([5, 7, rank]).to(dtype)
        assert hvd.allreduce(numbers, name=str(dtype)).tolist() == [5, 7, (size - 1) // 2], dtype
        assert hvd.allreduce_(numbers, op=hvd.Average) is numbers and numbers.dtype is dtype
    below = [torch.tensor([-rank]), torch.full((2,), float(rank))]
    assert [each.tolist() for each in hvd.grouped_allreduce(below)] == [
        [-((size - 1) // 2)], [(size - 1) / 2] * 2]
    for dtype in (torch.bool, torch.int16, torch.complex64, torch.bfloat16, torch.float8_e5m2):
        moved = torch.tensor([rank, 1, 0]).to(torch.float32).to(dtype)
        assert hvd.allgather(moved).shape == (3 * size,)
        first = hvd.broadcast(moved, root_rank=0)
        assert torch.equal(first.view(torch.uint8), torch.tensor([0.0, 1, 0]).to(dtype).view(torch.uint8))
        hvd.broadcast_parameters({"b": moved}, root_rank=0)
    hvd.barrier()
    for batch in range(rank + 1):
        hvd.allreduce(torch.ones(1), name="loss", op=hvd.Sum)
    assert hvd.join() == size - 1
    # Operations without a name meet again, although some ranks have done more of them.
    for batch in range(rank):
        hvd.allreduce(torch.ones(1))
    assert hvd.join() == size - 1
    assert (hvd.allreduce(torch.ones(2), op=hvd.Sum) == size).all()
    try:
        hvd.allreduce(torch.ones(2 + rank), name="wrong")
        assert False
    except Exception as error:
        assert "the tensor differs" in str(error), error
    hvd.shutdown()
    assert not hvd.is_initialized()


def check_gradients_flow_through_operations() -> None:
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    weights = torch.arange(1.0, 5.0)

    def gradient(call: Callable[[Any], Any], shape: Any = (4,), weight: Any = weights) -> Any:
        # Of the sum of (rank + 1) * weight * call(x).
        x = torch.ones(shape, requires_grad=True)
        y = call(x)
        assert y.requires_grad
        ((rank + 1) * weight * y).sum().backward()
        return x.grad

    every = size * (size + 1) / 2
    assert torch.allclose(gradient(lambda x: hvd.allreduce(x, name="a")), weights * every / size)
    assert torch.allclose(gradient(lambda x: hvd.allreduce(2 * x, op=hvd.Sum)), 2 * weights * every)
    assert torch.allclose(gradient(lambda x: hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.5)), weights * every / 2)
    assert torch.allclose(gradient(lambda x: hvd.grouped_allreduce([x, 2 * x])[1]), 2 * weights * every / size)
    assert torch.allclose(gradient(lambda x: hvd.broadcast(x, 1, name="b")), weights * every / size * (rank == 1))
    rows = torch.arange(1.0 + size * (size + 1) / 2 - 1)
    mine = rows[rank * (rank + 1) // 2:][:rank + 1]
    assert torch.allclose(gradient(lambda x: hvd.allgather(x), (rank + 1,), rows), mine * every / size)
    assert torch.allclose(gradient(lambda x: hvd.grouped_allgather([x, 2 * x])[1], (rank + 1,), rows), 2 * mine * every / size)
    assert torch.allclose(gradient(lambda x: hvd.alltoall(x), (size,), torch.full((size,), rank + 1.0)),
                          torch.tensor([(each + 1.0) ** 2 for each in range(size)]))
    squares = torch.tensor([(each + 1.0) ** 2 for each in range(size)])
    mine = torch.tensor([1.0 + rank])
    assert torch.allclose(gradient(lambda x: hvd.alltoall(x, [1] * size)[0], (size,), torch.full((size,), rank + 1.0)), squares)
    assert torch.allclose(gradient(lambda x: hvd.reducescatter(x), (size,), mine), squares)
    assert torch.allclose(gradient(lambda x: hvd.reducescatter(x, op=hvd.Sum, prescale_factor=3.0), (size,), mine), 3 * size * squares)
    assert torch.allclose(gradient(lambda x: hvd.grouped_reducescatter([x, 2 * x])[1], (size,), mine), 2 * squares)


def check_the_rest_of_the_functions() -> None:
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    assert hvd.HorovodInternalError is weft.Error and issubclass(weft.Error, RuntimeError)
    for call in (lambda x: hvd.allreduce(x, name="s"), lambda x: hvd.broadcast(x, 0, name="s"),
                 lambda x: hvd.grouped_allreduce([x, x], name="s")):
        try:
            call(torch.ones((2, 3) if rank == 0 else (3, 2)))
            raise SystemExit("no error")
        except hvd.HorovodInternalError as error:
            text = str(error)
            assert ".s:" in text and "rank 0 has (2, 3)" in text and " has (3, 2)" in text, text
    assert hvd.allreduce(torch.full((3,), 5.3), name="h", compression=hvd.Compression.fp16).dtype is torch.float32
    x = torch.ones(4, 4)
    assert (hvd.allreduce_(x, op=hvd.Sum, prescale_factor=2.0, postscale_factor=0.5) == size).all()
    sent = torch.full((sum(range(size)),), float(rank))
    result, received = hvd.alltoall(sent, splits=list(range(size)), name="v")
    assert received.tolist() == [rank] * size and result.tolist() == [each for each in range(size) for _ in range(rank)]
    handle = hvd.allgather_async(torch.full((rank, 2), float(rank)), name="g")
    hvd.barrier()
    assert hvd.synchronize(handle).shape == (sum(range(size)), 2)
    assert hvd.broadcast_object({"epoch": rank}, root_rank=1) == {"epoch": 1}
    assert hvd.allgather_object("x" * rank) == ["x" * each for each in range(size)]
    sparse = torch.sparse_coo_tensor([[0, rank]], [1.0, 2.0], (5,))
    started = hvd.sparse_allreduce_async(sparse, name="sp", op=hvd.Sum)
    whole = started().to_dense()
    assert hvd.poll(started) and torch.equal(hvd.synchronize(started).to_dense(), whole)
    assert whole.tolist() == hvd.allreduce(sparse.to_dense(), op=hvd.Sum).tolist()
    assert not hvd.mpi_built() and hvd.is_homogeneous() and hvd.nccl_built() == 0
    # Rows that do not divide: the first ranks have one more.
    whole = torch.arange(3.0 * size + 1).unsqueeze(1)
    part = hvd.reducescatter(whole, op=hvd.Sum, postscale_factor=0.5)
    begin = 3 * rank + min(rank, 1)
    assert part.tolist() == (whole[begin:begin + 3 + (rank == 0)] * size / 2).tolist()
    numbers = hvd.reducescatter(torch.full((size,), 7), name="i")
    assert numbers.tolist() == [7] and numbers.dtype is torch.int64
    parts = hvd.synchronize(hvd.grouped_reducescatter_async([whole, torch.ones(size, 2)], name="gr", op=hvd.Sum))
    assert [each.shape[0] for each in parts] == [3 + (rank == 0), 1] and (parts[1] == size).all()
    both = hvd.synchronize(hvd.grouped_allgather_async([torch.full((rank, 2), 1.0), torch.ones(1)], name="ga"))
    assert [each.shape[0] for each in both] == [sum(range(size)), size]
    rows, received = hvd.synchronize(hvd.alltoall_async(torch.arange(size)))
    assert rows.tolist() == [rank] * size and received.tolist() == [1] * size and received.dtype is torch.int32
    for call in (lambda: hvd.alltoall(torch.ones(size), torch.ones(size)), lambda: hvd.alltoall(torch.ones(size + 1)),
                 lambda: hvd.reducescatter(torch.tensor(1.0)), lambda: hvd.allgather(torch.tensor(1.0))):
        try:
            call()
            raise SystemExit("no error")
        except ValueError:
            pass
    assert hvd.join(-1) in range(size)

    class Halved:  # a compressor of the program's own
        @staticmethod
        def compress(tensor: torch.Tensor) -> Any:
            return tensor / 2, None
        @staticmethod
        def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
            return tensor * 2

    assert hvd.allreduce(torch.ones(3), compression=Halved).tolist() == [1.0] * 3
    assert hvd.reducescatter(torch.ones(size), compression=hvd.Compression.fp16).dtype is torch.float32
    model = torch.nn.Linear(2, 1)
    hvd.broadcast_parameters(list(model.parameters()), root_rank=1)
    state = torch.optim.SGD(model.parameters(), lr=0.1 * (1 + rank), momentum=0.9)
    hvd.broadcast_optimizer_state(state, 1, model)
    assert state.param_groups[0]["lr"] == 0.2 and (model.weight.grad == 0).all()


def check_process_sets() -> None:
    firsts = hvd.ProcessSet([1, 0])
    assert firsts.size() is None and firsts.rank() is None and firsts.process_set_id is None
    hvd.init(process_sets=[firsts])
    rank, size = hvd.rank(), hvd.size()
    assert hvd.global_process_set.ranks == [*range(size)] and hvd.global_process_set.size() == size
    assert firsts.ranks == [0, 1] and firsts.process_set_id == 1 and firsts.included() == (rank < 2)
    outer = hvd.add_process_set([0, 2])
    assert hvd.process_set_ids() == [0, 1, 2] and outer.size() == 2
    try:
        hvd.add_process_set(range(size))
        raise SystemExit("no error")
    except ValueError as error:
        assert "already" in str(error)
    if outer.included():
        assert outer.rank() == rank // 2
        x = torch.full((4,), float(rank), requires_grad=True)
        y = hvd.allreduce(x, op=hvd.Sum, process_set=outer)
        y.sum().backward()
        assert (y == 2).all() and (x.grad == 2).all()
        # The root is the rank in the job.
        assert (hvd.broadcast(x.detach(), root_rank=2, process_set=outer) == 2).all()
        assert hvd.allgather_object(rank, process_set=outer) == [0, 2]
        assert hvd.broadcast_object(rank, 2, process_set=outer) == 2
        assert hvd.alltoall(torch.tensor([rank, rank]), process_set=outer).tolist() == [0, 2]
        assert hvd.reducescatter(torch.ones(2), op=hvd.Sum, process_set=outer).tolist() == [2]
        sparse = torch.ones(2).to_sparse()
        assert hvd.sparse_allreduce_async(sparse, "s", hvd.Average, process_set=outer)().to_dense().tolist() == [1, 1]
        hvd.barrier(outer)
    else:
        for call in (lambda: hvd.allreduce(torch.ones(1), process_set=outer), outer.rank):
            try:
                call()
                raise SystemExit("no error")
            except ValueError as error:
                assert f"rank {rank} is not in [0, 2]" in str(error), error
    # Unnamed operations are numbered in each set by itself.
    assert (hvd.allreduce(torch.ones(2), op=hvd.Sum) == size).all()
    model = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), process_set=firsts)
    model(torch.full((1, 2), float(rank))).sum().backward()
    optimizer.step()
    assert (model.weight == (-0.5 if rank < 2 else -rank)).all()
    assert hvd.remove_process_set(outer) and not hvd.remove_process_set(outer)
    assert not hvd.remove_process_set(hvd.global_process_set) and outer.process_set_id is None
    again = hvd.add_process_set(outer)
    assert again is outer and outer.process_set_id == 3
    hvd.shutdown()
    hvd.init(comm=[0, 1] if rank < 2 else [3, 2])
    assert (hvd.rank(), hvd.size()) == (rank if rank < 2 else 3 - rank, 2)
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum) == 2
    hvd.shutdown()


def check_options_of_the_optimizer() -> None:
    hvd.init()
    rank, size = hvd.rank(), hvd.size()

    def trained(**options: Any) -> torch.Tensor:
        torch.manual_seed(0)
        table, head = torch.nn.Embedding(7, 3, sparse=options.pop("sparse", False)), torch.nn.Linear(3, 1)
        named = [*table.named_parameters("table"), *head.named_parameters("head")]
        if options.get("groups") == "lists":
            options["groups"] = [[*head.parameters()]]
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([each for _, each in named], lr=0.1), named, **options)
        hvd.broadcast_optimizer_state(optimizer, 0)
        for step in range(3):
            optimizer.zero_grad()
            head(table(torch.tensor([step, 3 + rank]))).square().sum().backward()
            optimizer.step()
        optimizer.load_state_dict(optimizer.state_dict())
        return torch.cat([each.detach().flatten() for _, each in named])

    plain = trained()
    for options in (dict(sparse=True), dict(sparse=True, sparse_as_dense=True, num_groups=2), dict(groups="lists"),
                    dict(gradient_predivide_factor=2.0), dict(compression=None, groups=1, process_set=None)):
        assert torch.allclose(trained(**options), plain, atol=1e-6), options
    assert torch.allclose(trained(compression=hvd.Compression.fp16), plain, atol=1e-2)
    assert torch.allclose(hvd.allreduce(plain), plain)

    # Some ranks use none of a table's rows; only later some do. Sparse gradients are as dense ones then.
    def used_in_turns(sparse: bool) -> torch.Tensor:
        torch.manual_seed(1)
        tables = torch.nn.ModuleList(torch.nn.Embedding(6, 3, sparse=sparse) for _ in range(3))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(tables.parameters(), lr=0.1), tables.named_parameters())
        for step in range(4):
            optimizer.zero_grad()
            uses = [step % size == rank, step >= 2 and rank == 0, rank == size - 1]
            places = [k for k, is_used in enumerate(uses) if is_used]
            loss = [tables[k](torch.tensor([step, 5 - rank])).square().sum() for k in places]
            if loss:
                sum(loss if rank == 0 else loss[::-1]).backward()
            optimizer.step()
        return torch.cat([each.detach().flatten() for each in tables.parameters()])

    assert torch.allclose(used_in_turns(sparse=True), used_in_turns(sparse=False), atol=1e-6)

    # Gradients are clipped after they were reduced.
    layer = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.zeros_(layer.weight)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=1.0), layer.named_parameters(), op=hvd.Sum)
    layer(torch.ones(1, 2)).sum().backward()
    optimizer.synchronize()
    torch.nn.utils.clip_grad_value_(layer.parameters(), 0.25)
    with optimizer.skip_synchronize():
        optimizer.step()
    assert (layer.weight == -0.25).all()
    optimizer.set_backward_passes_per_step(2)
    optimizer.zero_grad()
    for _ in range(2):
        layer(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert (layer.weight == -0.25 - 2 * size).all()


def check_the_optimizer_steps_as_one_process_with_all_data() -> None:
    for groups in (0, 2):
        step_as_one_process(groups)


def step_as_one_process(groups: int) -> None:
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    reference = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    reference.load_state_dict(model.state_dict())
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model.named_parameters(), num_groups=groups)
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


def adasum_of(tensors: List[torch.Tensor]) -> torch.Tensor:
    if len(tensors) == 1:
        return tensors[0].double()
    a, b = (adasum_of(half) for half in (tensors[: len(tensors) // 2], tensors[len(tensors) // 2 :]))
    both = (a * b).sum() / 2
    return (1 - both / (a * a).sum()) * a + (1 - both / (b * b).sum()) * b


def check_adasum() -> None:
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    torch.manual_seed(0)
    for dtype, exact in ((torch.float64, 1e-12), (torch.float32, 1e-5), (torch.float16, 1e-2)):
        given = [torch.randn(5, 7).to(dtype) for _ in range(size)]
        result = hvd.allreduce(given[rank], op=hvd.Adasum, name="a")
        assert result.dtype is dtype
        assert torch.allclose(result.double(), adasum_of(given), rtol=exact, atol=exact), dtype
    same, apart = torch.ones(3) * 1e-30, torch.eye(size)[rank]
    both = hvd.grouped_allreduce([same, apart], op=hvd.Adasum, postscale_factor=2.0)
    assert torch.allclose(both[0], 2 * same, rtol=1e-5) and (both[1] == 2).all()
    assert not hvd.allreduce(torch.zeros(2), op=hvd.Adasum).any()
    three = hvd.add_process_set([0, 1, 2])
    if three.included():
        try:
            hvd.allreduce(same, op=hvd.Adasum, process_set=three)
            raise SystemExit("no error")
        except NotImplementedError as error:
            assert "3 ranks" in str(error), error
    # The optimizer reduces what the ranks' own steps have changed.
    model = torch.nn.Linear(size, 1, bias=False)
    hvd.broadcast_parameters(model.state_dict(), 0)
    before = model.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters(), op=hvd.Adasum)
    model(apart.unsqueeze(0)).sum().backward()
    optimizer.step()
    assert torch.allclose(before - model.weight, torch.full((1, size), 0.5))


def check_sync_batch_norm() -> None:
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    torch.manual_seed(3)
    rows = [range(each * (each + 1) // 2, (each + 1) * (each + 2) // 2) for each in range(size)]
    whole = torch.randn(size * (size + 1) // 2, 3, 5) + 10
    for options in (dict(), dict(momentum=None), dict(affine=False, track_running_stats=False)):
        sync, plain = hvd.SyncBatchNorm(3, **options), torch.nn.BatchNorm1d(3, **options)
        if sync.affine:
            torch.nn.init.uniform_(sync.weight)
            plain.weight.data.copy_(sync.weight.detach())
            hvd.broadcast_parameters(plain.state_dict(), 0)
            sync.load_state_dict(plain.state_dict())
        mine = whole[rows[rank]].clone().requires_grad_()
        all_ = whole.clone().requires_grad_()
        weights = torch.randn(whole.shape)
        for _ in range(2):
            result, expected = sync(mine), plain(all_)
        assert torch.allclose(result, expected[rows[rank]], atol=1e-5)
        (result * weights[rows[rank]]).sum().backward()
        (expected * weights).sum().backward()
        assert torch.allclose(mine.grad, all_.grad[rows[rank]], atol=1e-5)
        if sync.affine:
            for own, of_all in zip(sync.parameters(), plain.parameters()):
                assert torch.allclose(hvd.allreduce(own.grad, op=hvd.Sum), of_all.grad, atol=1e-4)
            for own, of_all in zip(sync.buffers(), plain.buffers()):
                assert torch.allclose(own, of_all, atol=1e-5)
            assert torch.allclose(sync.eval()(mine), plain.eval()(mine), atol=1e-5)


def check_timeline() -> None:
    hvd.init()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "{rank}.json")
        for _ in range(20):  # an operation that has been waited for is in the file
            hvd.start_timeline(path)
            hvd.allreduce(torch.ones(3), name="soon")
            hvd.stop_timeline()
            with open(path.replace("{rank}", str(hvd.rank()))) as file:
                assert "allreduce.soon" in file.read()
        hvd.start_timeline(path, mark_cycles=True)
        hvd.allreduce(torch.ones(3), name="x")
        hvd.grouped_allgather([torch.ones(3), torch.ones(2)], name="g")
        hvd.barrier()
        hvd.stop_timeline()
        hvd.allreduce(torch.ones(3), name="later")
        with open(path.replace("{rank}", str(hvd.rank()))) as file:
            events = json.load(file)["traceEvents"]
        template = os.path.join(folder, "full{rank}")
        full = template.replace("{rank}", str(hvd.rank()))
        os.symlink("/dev/full", full)
        hvd.start_timeline(template)
        hvd.allreduce(torch.ones(3), name="x")
        try:
            hvd.stop_timeline()
            raise AssertionError
        except OSError as error:
            assert "No space left on device" in str(error) and full in str(error), error
        hvd.allreduce(torch.ones(3), name="x")  # the job goes on
        hvd.start_timeline(template)
        try:
            hvd.shutdown()  # leaves the job all the same
            raise AssertionError
        except OSError as error:
            assert "No space left on device" in str(error) and not hvd.is_initialized(), error
        hvd.init()
    rows = {each["args"]["name"]: each["tid"] for each in events if each["ph"] == "M"}
    spans = [(each["tid"], each["name"], each["dur"] > 0) for each in events if each["ph"] == "X"]
    assert (rows["allreduce.x"], "ALLREDUCE", True) in spans, events
    assert (rows["grouped_allgather.g"], "GROUPED_ALLGATHER", True) in spans, events
    assert not any("later" in name for name in rows)


def check_elastic_goes_on_from_the_last_commit() -> None:
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    state = hvd.elastic.TorchState(model, optimizer, batch=10 * hvd.rank())
    seen: List[Any] = []
    state.register_reset_callbacks([lambda: seen.append("reset")])
    late: List[Exception] = [weft.TimedOut("a rank is slow")]
    failures: Dict[int, List[Exception]] = {2: [weft.TimedOut("a rank is slow")]}
    failures[3] = [hvd.HostsUpdatedInterrupt(skip_sync=False)]

    @hvd.elastic.run
    def train(state: Any, last: int) -> str:
        while state.batch < last:
            loss = state.model(torch.ones(1, 1)).sum()
            state.optimizer.zero_grad()
            loss.backward()
            if state.batch == 1 and late:
                raise late.pop()  # while gradients travel
            state.optimizer.step()
            state.batch += 1
            seen.append(state.batch)
            if failures.get(state.batch):
                raise failures[state.batch].pop()
            state.commit()
        return "done"

    assert train(state, 4) == "done"
    # The second batch is done again; what came before the third one's interrupt is kept.
    assert seen == [1, "reset", 2, "reset", 2, 3, "reset", 4], seen
    assert len({each.item() for each in hvd.allgather(model.weight.detach())}) == 1
    try:
        state.batch = 0
        failures[1] = [weft.Mismatch("a mistake")]
        train(state, 1)
        raise SystemExit("no error")
    except weft.Mismatch:
        pass
    state.on_hosts_updated(1.0, 2)
    try:
        state.commit()
        raise SystemExit("no error")
    except hvd.HostsUpdatedInterrupt as interrupt:
        assert interrupt.skip_sync


def check_elastic_commits_outlive_a_job() -> None:
    hvd.init()
    folder = hvd.broadcast_object(tempfile.mkdtemp() if hvd.rank() == 0 else None)
    os.environ["HOROVOD_ELASTIC_COMMITS"] = path = os.path.join(folder, "commits")
    try:
        for last, expected in ((3, "failed"), (5, "done")):
            model = torch.nn.Linear(1, 1)
            sampler = hvd.elastic.ElasticSampler(range(4 * hvd.size() - 1), shuffle=False)
            state = hvd.elastic.TorchState(model=model, sampler=sampler, batch=0)

            @hvd.elastic.run
            def train(state: Any) -> str:
                assert state.batch == (0 if last == 3 else 3) and sampler.processed_num == state.batch * hvd.size()
                left = list(sampler)
                assert left[0] == state.batch * hvd.size() + hvd.rank() or len(left) == 1
                while state.batch < last:
                    state.model.bias.data.fill_(state.batch)
                    sampler.record_batch(state.batch, 1)
                    state.batch += 1
                    state.commit()
                if last == 3:
                    raise KeyError("failed")
                return "done"

            try:
                result = train(state)
            except KeyError:
                result = "failed"
            hvd.barrier()
            assert result == expected and os.path.exists(path) == (last == 3)
        assert model.bias.item() == 4
    finally:
        del os.environ["HOROVOD_ELASTIC_COMMITS"]

if __name__ == "__main__":
    torch.set_num_threads(1)
    run_checks(dict(globals()))
