"""Every operation of torch.distributed on the backend "weft", against gloo's result."""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, List

import pytest

torch = pytest.importorskip("torch")

sys.path.insert(0, os.path.dirname(__file__))

import torch.distributed as dist  # noqa: E402
from distributed_ranks import run_ranks  # noqa: E402

import weft  # noqa: E402
from weft.torch import _arrivals  # noqa: E402

SUM = dist.ReduceOp.SUM
SIZES = (0, 1, 7, 1024, 100_003)
REDUCED = (
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.int8,
    torch.uint8,
    torch.int32,
    torch.int64,
)


def begin() -> Any:
    """Joins the job with weft as the default group. Returns a group of gloo beside it."""
    dist.init_process_group("weft")
    assert dist.get_backend() == "weft"
    return dist.new_group(backend="gloo")


def values(count: int, dtype: Any, rank: int) -> Any:
    """Small whole numbers, so that every reduction over a few ranks is exact in every type."""
    numbers = (torch.arange(count) * 7 + rank * 3) % 4 - (0 if dtype is torch.uint8 else 1)
    return numbers.to(dtype)


def both(gloo: Any, make: Callable[[], Any], call: Callable[[Any, Any], Any]) -> None:
    """Makes the tensors twice, calls with each group, and compares all tensors afterwards."""
    ours, theirs = make(), make()
    call(ours, None)
    call(theirs, gloo)
    compare(ours, theirs)


def compare(ours: Any, theirs: Any) -> None:
    if isinstance(ours, (list, tuple)):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs):
            compare(one, other)
    else:
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


def all_reductions() -> None:
    gloo = begin()
    rank = dist.get_rank()
    for dtype in REDUCED:
        for count in SIZES:
            names = ["SUM", "MIN", "MAX", "PRODUCT"]
            if not dtype.is_floating_point:
                names += ["BAND", "BOR", "BXOR"]
            for name in names:
                op = getattr(dist.ReduceOp, name)
                both(
                    gloo,
                    lambda: values(count, dtype, rank),
                    lambda x, group: dist.all_reduce(x, op, group=group),
                )
    mean = torch.full((5,), float(rank))
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    compare(mean, torch.full((5,), (dist.get_world_size() - 1) / 2))
    half = torch.full((5,), rank * 2.0)
    dist.all_reduce(half, dist._make_nccl_premul_sum(0.5))
    compare(half, torch.full((5,), float(sum(range(dist.get_world_size())))))
    dist.destroy_process_group()


def other_types() -> None:
    """Types with which Weft does not compute are moved as bytes."""
    gloo = begin()
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in (torch.bool, torch.int16, torch.complex64, torch.complex128, torch.float8_e4m3fnuz):
        x = (torch.arange(6) + rank).to(torch.float32).to(dtype)
        parts = [torch.empty(6).to(dtype) for _ in range(size)]
        dist.all_gather(parts, x)
        for source, part in enumerate(parts):
            expected = (torch.arange(6) + source).to(torch.float32).to(dtype)
            assert torch.equal(part.view(torch.uint8), expected.view(torch.uint8)), dtype
    x = torch.complex(torch.arange(4.0), torch.full((4,), float(rank)))
    both(gloo, lambda: x.clone(), lambda t, group: dist.all_reduce(t, group=group))
    ours = x.clone()
    dist.group.WORLD.allreduce([ours]).wait()  # torch's function gives us the two parts as floats
    compare(ours, sum(torch.complex(torch.arange(4.0), torch.full((4,), float(r)))
                      for r in range(size)))
    flags = torch.tensor([True, False, rank == 0, rank != 0])
    anyone, everyone = flags.clone(), flags.clone()
    dist.all_reduce(anyone, dist.ReduceOp.MAX)
    dist.all_reduce(everyone, dist.ReduceOp.BAND)
    assert anyone.tolist() == [True, False, True, True]
    assert everyone.tolist() == [True, False, False, False]
    # A lazy conjugate; torch's own function refuses it, a direct call does not.
    conjugate = torch.complex(torch.ones(3), torch.full((3,), rank + 1.0)).conj()
    dist.group.WORLD.broadcast(conjugate, 0).wait()
    assert torch.equal(conjugate, torch.complex(torch.ones(3), torch.full((3,), -1.0)))
    dist.destroy_process_group()


def sparse() -> None:
    """Sums of sparse tensors, of which one rank has no element and one has an element twice."""
    gloo = begin()
    rank, size = dist.get_rank(), dist.get_world_size()
    for dtype in (torch.float32, torch.float64, torch.complex64):
        for row in ((), (2, 3)):
            def make() -> Any:
                indices = torch.tensor([[rank, 3, 3], [0, rank, rank]])[:, : 3 * min(rank, 1)]
                numbers = torch.full((indices.size(1), *row), rank + 1.0).to(dtype)
                return torch.sparse_coo_tensor(
                    indices, numbers, (4, size, *row), check_invariants=True
                )

            ours, theirs = make(), make()
            work = dist.all_reduce(ours, async_op=True)
            work.wait()
            dist.all_reduce(theirs, group=gloo)
            compare(ours.coalesce().indices(), theirs.coalesce().indices())
            compare(ours.to_dense(), theirs.to_dense())
    with pytest.raises(weft.InvalidArgument, match="sum only, not average"):
        dist.all_reduce(make(), dist.ReduceOp.AVG)
    embedding = torch.nn.parallel.DistributedDataParallel(torch.nn.Embedding(10, 3, sparse=True))
    embedding(torch.tensor([1, 2 + rank])).sum().backward()
    gradient = embedding.module.weight.grad.coalesce()
    assert gradient.indices().tolist() == [[1, *range(2, 2 + size)]]
    compare(gradient.values()[:, 0], torch.tensor([1.0] + [1 / size] * size))
    with pytest.raises(weft.Mismatch, match="differs from this rank's") as told:
        dist.all_reduce(torch.zeros(3 + rank, 2).to_sparse())
    assert told.value.rank == (1 if rank == 0 else 0)
    dist.destroy_process_group()


def rooted() -> None:
    gloo = begin()
    rank, size = dist.get_rank(), dist.get_world_size()
    for root in range(size):
        for count in SIZES:
            def make() -> Any:
                return values(count, torch.float32, rank)

            both(gloo, make, lambda x, group: dist.broadcast(x, root, group=group))
            ours, theirs = make(), make()
            dist.reduce(ours, root)
            dist.reduce(theirs, root, group=gloo)
            if rank == root:  # the tensors of the other ranks are not defined
                compare(ours, theirs)

            def gather(x: Any, group: Any) -> Any:
                parts = [torch.empty_like(x) for _ in range(size)] if rank == root else None
                dist.gather(x, parts, root, group=group)
                x.zero_()
                if parts:
                    x.add_(sum(part * (i + 1) for i, part in enumerate(parts)))

            def scatter(x: Any, group: Any) -> Any:
                parts = [x * (i + 1) for i in range(size)] if rank == root else None
                dist.scatter(x, parts, root, group=group)

            both(gloo, make, gather)
            both(gloo, make, scatter)
    dist.destroy_process_group()


def gathers() -> None:
    gloo = begin()
    rank, size = dist.get_rank(), dist.get_world_size()
    for count in SIZES:
        def outputs() -> Any:
            return torch.zeros(size * count), [torch.zeros(count) for _ in range(size)]

        x = values(count, torch.float32, rank)

        def gather(made: Any, group: Any) -> None:
            dist.all_gather_into_tensor(made[0], x, group=group)
            dist.all_gather(made[1], x, group=group)

        both(gloo, outputs, gather)
        # One behind the other: no copies.
        whole = torch.zeros(size, count)
        dist.all_gather(list(whole.unbind()), x)
        compare(whole, torch.stack([values(count, torch.float32, r) for r in range(size)]))
    # Tensors of different sizes.
    parts = [torch.zeros(source + 1) for source in range(size)]
    dist.all_gather(parts, torch.full((rank + 1,), float(rank)))
    compare(parts, [torch.full((source + 1,), float(source)) for source in range(size)])
    dist.destroy_process_group()


def reduce_scatters() -> None:
    gloo = begin()
    rank, size = dist.get_rank(), dist.get_world_size()
    for count in SIZES:
        whole = values(count * size, torch.float32, rank)

        def scatter(made: Any, group: Any) -> None:
            dist.reduce_scatter_tensor(made[0], whole, group=group)
            dist.reduce_scatter(made[1], list(whole.chunk(size)) if count else
                                [torch.empty(0)] * size, group=group)

        both(gloo, lambda: (torch.zeros(count), torch.zeros(count)), scatter)
    mine = torch.zeros(rank + 1)
    dist.reduce_scatter(mine, [torch.full((r + 1,), float(rank)) for r in range(size)])
    compare(mine, torch.full((rank + 1,), float(sum(range(size)))))
    dist.destroy_process_group()


def alltoalls() -> None:
    gloo = begin()
    rank, size = dist.get_rank(), dist.get_world_size()
    for rows in (0, 1, 5, 1000):
        x = values(rows * size * 3, torch.float32, rank).view(-1, 3)
        both(gloo, lambda: torch.zeros_like(x),
             lambda y, group: dist.all_to_all_single(y, x, group=group))
    # Rank i sends i + j + 1 rows to rank j.
    splits = [rank + other + 1 for other in range(size)]
    x = values(sum(splits) * 2, torch.float32, rank).view(-1, 2)
    both(gloo, lambda: torch.zeros(sum(splits), 2),
         lambda y, group: dist.all_to_all_single(y, x, splits, splits, group=group))
    # One rank gives its equal splits, the others leave them out.
    x = values(size * 2, torch.float32, rank)
    given = [2] * size if rank == 0 else None
    both(gloo, lambda: torch.zeros(size * 2),
         lambda y, group: dist.all_to_all_single(y, x, given, given, group=group))
    inputs = [torch.full((rank + other + 1,), float(rank)) for other in range(size)]
    outputs = [torch.zeros(rank + other + 1) for other in range(size)]
    dist.all_to_all(outputs, inputs)
    compare(outputs, [torch.full((rank + other + 1,), float(other)) for other in range(size)])
    dist.destroy_process_group()


def layouts() -> None:
    """Tensors that are not contiguous, as inputs and as outputs. gloo mixes up their elements."""
    dist.init_process_group("weft")
    rank, size = dist.get_rank(), dist.get_world_size()

    def strided(source: int) -> Any:
        return values(60, torch.float32, source).view(6, 10).t()[::2]

    x = strided(rank)
    assert not x.is_contiguous()
    dist.all_reduce(x)
    compare(x, sum(strided(source) for source in range(size)))
    x = strided(rank)
    rest = x._base.t()[1::2].clone()
    dist.broadcast(x, size - 1)
    compare(x, strided(size - 1))
    compare(x._base.t()[1::2], rest)  # the elements between are left alone
    whole = torch.zeros(6, size * 5).t()
    dist.all_gather_into_tensor(whole, strided(rank))
    compare(whole, torch.cat([strided(source) for source in range(size)]))
    part = torch.zeros(2, 4).t()
    dist.reduce_scatter_tensor(part, torch.ones(2, 4 * size).t())
    compare(part, torch.full((4, 2), float(size)))
    before, target = (rank - 1) % size, torch.zeros(12, 5).t()[:, ::2]
    works = [dist.isend(strided(rank), (rank + 1) % size), dist.irecv(target, before)]
    for work in works:
        work.wait()
    compare(target, strided(before))
    dist.destroy_process_group()


def pairs() -> None:
    begin()
    rank, size = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % size, (rank - 1) % size
    for count in SIZES:
        x, y = values(count, torch.float32, rank), torch.zeros(count)
        operations = [dist.P2POp(dist.isend, x, after), dist.P2POp(dist.irecv, y, before)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        compare(y, values(count, torch.float32, before))
    # More messages in flight than the group has channels. Tags choose between them, so that half are
    # received before those that were sent first. Up to 120 elements are inside the header.
    for count in (3, 120, 121, 30_000):
        sends = [dist.isend(torch.full((count,), float(i)), after, tag=i % 10) for i in range(20)]
        taken = [torch.zeros(count) for _ in range(20)]
        order = [*range(9, -1, -1), *range(10, 20)]
        works = [dist.irecv(taken[i], before, tag=i % 10) for i in order]
        for work in works[::-1] + sends:
            work.wait()
        compare(taken, [torch.full((count,), float(i)) for i in range(20)])
    # A blocking receive of a later message, and one whose future is asked for before it is there.
    late = torch.zeros(4)
    future = dist.irecv(late, before, tag=7).get_future()
    dist.isend(torch.ones(2), after)
    dist.isend(torch.full((3,), 2.0), after, tag=-5).wait()
    for tag, expected in ((-5, torch.full((3,), 2.0)), (0, torch.ones(2))):
        y = torch.zeros(expected.shape)
        dist.recv(y, before, tag=tag)
        compare(y, expected)
    dist.isend(torch.ones(4), after, tag=7)
    compare(future.wait()[0], torch.ones(4))
    if rank == 0:
        dist.send(torch.ones(3), 1)
    elif rank == 1:
        y = torch.zeros(3)
        assert dist.recv(y, 0) == 0
        compare(y, torch.ones(3))
    # The message of tag 2 is more than may be kept. Those behind it arrive.
    _arrivals._MOST_KEPT = 100
    for count in (30, 300):
        if rank == 0:
            for tag in (1, 2, 3, 4):
                dist.send(torch.full((count,), float(tag)), 1, tag=tag)
        elif rank == 1:
            y = torch.zeros(count)
            with pytest.raises(weft.Exhausted, match="has tag 2"):
                dist.recv(y, 0, tag=4)
            for tag in (3, 1, 4):
                dist.recv(y, 0, tag=tag)
                compare(y, torch.full((count,), float(tag)))
    dist.destroy_process_group()


def from_any() -> None:
    """Receives from any rank, which tags choose too, beside some that name the rank."""
    begin()
    rank, size = dist.get_rank(), dist.get_world_size()
    for count in (2, 100_000):
        if rank == 0:
            named = torch.zeros(count)
            works = [dist.irecv(named, size - 1, tag=1)]
            taken = [torch.zeros(count) for _ in range(2 * (size - 1))]
            works += [dist.irecv(taken[i], tag=3 if i % 2 else 0) for i in range(len(taken))]
            for work in works:
                work.wait()
            compare(named, torch.full((count,), 10.0 * (size - 1)))
            sources = [work._source_rank() for work in works[1:]]
            compare(taken, [torch.full((count,), float(source)) for source in sources])
            for half in (sources[::2], sources[1::2]):
                assert sorted(half) == list(range(1, size))
        else:
            for tag in (3, 0):
                dist.send(torch.full((count,), float(rank)), 0, tag=tag)
            if rank == size - 1:
                dist.send(torch.full((count,), 10.0 * rank), 0, tag=1)
        dist.barrier()  # a receive from any rank takes whatever comes first, so of the next count too
    y = torch.zeros(1)
    if rank == 1:
        dist.send(torch.ones(1), 0)
    elif rank == 0:
        assert dist.recv(y) == 1
    dist.barrier()
    compare(y, torch.full((1,), 1.0 - min(rank, 1)))
    dist.destroy_process_group()


def windows() -> None:
    """Every rank writes its part of the tensors of all, and looks when it has all signals."""
    begin()
    rank, size = dist.get_rank(), dist.get_world_size()
    others = [each for each in range(size) if each != rank]
    new: Any = getattr(dist, "_new_window", None) or dist.group.WORLD.new_window  # from torch 2.14 on
    whole = torch.full((3 * size,), -1.0)
    window, later = new(whole), new()
    for turn in (0.0, 10.0):
        for other in range(size):
            part = torch.full((3,), rank + turn)
            window.put(part, other, 3 * rank, async_op=True)
        for other in others:
            window.signal(other, async_op=False)
        for other in others:
            window.wait_signal(other, async_op=True).wait()
        compare(whole, torch.arange(size).repeat_interleave(3) + turn)
        dist.barrier()
    later.tensor_register(torch.zeros(2, dtype=torch.int64))
    for call, words in (
        (lambda: window.put(torch.ones(3), 0, 3 * size - 2, False), "elements"),
        (lambda: window.put(torch.ones(3).double(), 0, 0, False), "float32"),
        (lambda: window.put(torch.ones(1), size, 0, False), "another rank"),
        (lambda: later.put(torch.ones(1), 0, 0, False), "int64"),
        (lambda: later.tensor_register(whole), "tensor_deregister"),
        (lambda: later.map_remote_tensor(rank + 1), f"rank {rank + 1}"),
    ):
        with pytest.raises(weft.Error, match=words):
            call()
    assert window.map_remote_tensor(rank) is whole
    window.tensor_deregister()
    with pytest.raises(weft.InvalidArgument, match="no tensor"):
        window.signal((rank + 1) % size, async_op=False)
    dist.destroy_process_group()


def profiled() -> None:
    """An event for each operation, which ends with it."""
    begin()
    rank, size = dist.get_rank(), dist.get_world_size()
    x, parts = torch.ones(2, 3), [torch.zeros(2, 3) for _ in range(size)]
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
    ) as found:
        dist.all_reduce(x)
        dist.all_reduce_coalesced([torch.ones(4), torch.ones(5)])
        dist.all_gather(parts, x, async_op=True).wait()
        work = dist.isend(x, (rank + 1) % size)
        dist.recv(x, (rank - 1) % size)
        work.wait()
    events = [event for event in found.events() if event.name.startswith("weft:")]
    seen = sorted((event.name, event.input_shapes) for event in events)
    assert seen == [
        ("weft:all_gather", [[2, 3]]),
        ("weft:all_reduce", [[2, 3]]),
        ("weft:all_reduce", [[4], [5]]),
        ("weft:recv", [[2, 3]]),
        ("weft:send", [[2, 3]]),
    ], seen
    assert all(event.is_async for event in events)
    with pytest.raises(ValueError), torch.profiler.profile():
        dist.all_reduce(torch.ones(2).long(), dist.ReduceOp.AVG)  # an event that ends at once
    dist.all_reduce(x)
    dist.destroy_process_group()


def objects() -> None:
    begin()
    rank, size = dist.get_rank(), dist.get_world_size()
    found: List[Any] = [None] * size
    dist.all_gather_object(found, {"rank": rank, "text": "x" * rank})
    assert found == [{"rank": r, "text": "x" * r} for r in range(size)]
    at_root: Any = [None] * size if rank == 1 else None
    dist.gather_object((rank, "a"), at_root, dst=1)
    assert rank != 1 or at_root == [(r, "a") for r in range(size)]
    said = ["hello", 3] if rank == 0 else [None, None]
    dist.broadcast_object_list(said, 0)
    assert said == ["hello", 3]
    mine: List[Any] = [None]
    dist.scatter_object_list(mine, [[r] * r for r in range(size)] if rank == 0 else None, 0)
    assert mine == [[rank] * rank]
    dist.barrier()
    dist.destroy_process_group()


def coalesced() -> None:
    gloo = begin()
    rank, size = dist.get_rank(), dist.get_world_size()
    both(gloo, lambda: [values(count, torch.float32, rank) for count in (3, 1000, 7)],
         lambda x, group: dist.all_reduce_coalesced(x, group=group))
    tensors = [values(count, torch.float32, rank) for count in (3, 50)]
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    expected = [sum(values(c, torch.float32, r) for r in range(size)) for c in (3, 50)]
    compare(tensors, expected)
    wholes = [torch.zeros(size * count) for count in (4, 9)]
    with dist.distributed_c10d._coalescing_manager():
        for whole in wholes:
            dist.all_gather_into_tensor(whole, values(whole.numel() // size, torch.float32, rank))
    for whole in wholes:
        count = whole.numel() // size
        compare(whole, torch.cat([values(count, torch.float32, r) for r in range(size)]))
    shares = [torch.zeros(count) for count in (4, 9)]
    with dist.distributed_c10d._coalescing_manager():
        for share in shares:
            dist.reduce_scatter_tensor(share, torch.ones(share.numel() * size))
    compare(shares, [torch.full((count,), float(size)) for count in (4, 9)])
    dist.destroy_process_group()


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(
    "case", [all_reductions, rooted, gathers, reduce_scatters, alltoalls], ids=lambda c: c.__name__
)
def test_collectives_give_what_gloo_gives(case: Callable[[], None], size: int) -> None:
    run_ranks(size, case)


@pytest.mark.parametrize("case", [other_types, layouts, objects, coalesced, sparse],
                         ids=lambda c: c.__name__)
def test_tensors_of_any_type_and_layout(case: Callable[[], None]) -> None:
    run_ranks(3, case)


@pytest.mark.parametrize("case", [pairs, from_any, windows, profiled])
def test_messages_between_pairs(case: Callable[[], None]) -> None:
    run_ranks(3, case)
