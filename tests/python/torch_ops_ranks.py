"""Checks of weft.torch's operations, as a program for 4 ranks (test_torch_ops.py)."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import networkx as nx
import numpy as np
import torch
import weft
import weft.torch as bf
from torch_jobs import run_checks

FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
MOVED = (*FLOATING, torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool)


def mine(rank: int, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Rank `rank`'s tensor: other values at each rank and place, exact in all floating types."""
    count = int(np.prod(shape))
    return ((torch.arange(count) % 7) + 8 * rank).reshape(shape).to(dtype)


def everyones(*shape: int, dtype: torch.dtype = torch.float32) -> List[torch.Tensor]:
    return [mine(rank, *shape, dtype=dtype) for rank in range(bf.size())]


def raises(kind: type, call: Callable[[], Any], *words: str) -> None:
    try:
        call()
    except kind as error:
        for word in words:
            assert word in str(error), (word, str(error))
        return
    raise AssertionError(f"no {kind.__name__}")


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found, expected.to(found.dtype), rtol=2e-2 if found.dtype in (
        torch.float16, torch.bfloat16) else 1e-6, atol=0)  # fmt: skip


def around() -> Dict[str, int]:
    rank, size = bf.rank(), bf.size()
    return {"before": (rank - 1) % size, "after": (rank + 1) % size}


def check_names_before_init() -> None:
    raises(ValueError, bf.rank, "init")
    bf.init()
    assert (bf.size(), bf.local_size(), bf.machine_size(), bf.machine_rank()) == (4, 4, 1, 0)
    assert bf.local_rank() == bf.rank() and bf.is_homogeneous()
    assert weft.context().rank == bf.rank()
    bf.suspend()
    bf.resume()
    assert not bf.get_skip_negotiate_stage()
    bf.set_skip_negotiate_stage(True)
    assert bf.get_skip_negotiate_stage()
    bf.set_skip_negotiate_stage(False)


def check_topologies() -> None:
    rank, size = bf.rank(), bf.size()
    assert bf.IsTopologyEquivalent(bf.load_topology(), bf.ExponentialTwoGraph(size))
    assert not bf.is_topo_weighted()
    assert bf.in_neighbor_ranks() == sorted((rank - d) % size for d in (1, 2))
    assert bf.out_neighbor_ranks() == sorted((rank + d) % size for d in (1, 2))
    ring = bf.RingGraph(size, connect_style=2)
    assert bf.set_topology(ring, is_weighted=True) and bf.set_topology(ring, is_weighted=True)
    assert bf.load_topology() is ring and bf.is_topo_weighted()
    assert bf.in_neighbor_ranks() == [around()["before"]]
    raises(TypeError, lambda: bf.set_topology(bf.RingGraph(size + 1)), "5 nodes")
    raises(TypeError, lambda: bf.set_topology([[1.0]]), "DiGraph")
    raises(ValueError, lambda: bf.set_machine_topology(None))
    assert bf.load_machine_topology() is None and bf.in_neighbor_machine_ranks() == []
    raises(RuntimeError, lambda: bf.hierarchical_neighbor_allreduce(torch.ones(2)), "topology")
    bf.init(bf.FullyConnectedGraph)
    assert bf.in_neighbor_ranks() == [each for each in range(size) if each != rank]
    bf.init()
    assert bf.in_neighbor_ranks() == sorted((rank - d) % size for d in (1, 2))


def check_infer_ranks() -> None:
    ring = bf.RingGraph(bf.size(), connect_style=2)
    bf.set_topology(ring)
    weights = (nx.to_numpy_array(ring) > 0).astype(float)
    weights /= weights.sum(axis=0)
    sources, found = bf.InferSourceFromDestinationRanks(bf.out_neighbor_ranks(), True)
    assert sources == bf.in_neighbor_ranks() and np.allclose(found, weights)
    targets, found = bf.InferDestinationFromSourceRanks(bf.in_neighbor_ranks(), True)
    assert targets == bf.out_neighbor_ranks() and np.allclose(found, weights)
    raises(ValueError, lambda: bf.InferSourceFromDestinationRanks([bf.rank()]), "no other rank")
    bf.set_topology()


def check_neighbor_allreduce_of_all_types() -> None:
    for dtype in FLOATING:
        for shape in ((1,), (5, 3), (0, 2), (40, 1001)):
            all_ = everyones(*shape, dtype=dtype)
            before = all_[bf.rank()].clone()
            found = bf.neighbor_allreduce(all_[bf.rank()])
            used = [bf.rank(), *bf.in_neighbor_ranks()]
            close(found, sum(all_[each].double() for each in used) / len(used))
            assert found.dtype is dtype and torch.equal(all_[bf.rank()], before)


def check_neighbor_allreduce_with_the_weights_of_the_graph() -> None:
    size, rank = bf.size(), bf.rank()
    weights = np.array([[0.1 * (1 + j + 2 * i) for i in range(size)] for j in range(size)])
    bf.set_topology(nx.from_numpy_array(weights, create_using=nx.DiGraph), is_weighted=True)
    all_ = everyones(6, dtype=torch.float64)
    close(bf.neighbor_allreduce(all_[rank]), sum(weights[j, rank] * all_[j] for j in range(size)))
    bf.set_topology()


def check_neighbor_allreduce_with_weights_of_the_call() -> None:
    rank = bf.rank()
    sources, targets = bf.in_neighbor_ranks(), bf.out_neighbor_ranks()
    all_ = everyones(6, dtype=torch.float64)
    pulled = bf.neighbor_allreduce(
        all_[rank], self_weight=0.5, src_weights={r: 0.25 * (r + 1) for r in sources}
    )
    close(pulled, 0.5 * all_[rank] + sum(0.25 * (r + 1) * all_[r] for r in sources))
    for check in (True, False):
        both = bf.neighbor_allreduce(
            all_[rank],
            self_weight=np.float32(0.5),
            src_weights={np.int64(r): 2 for r in sources},
            dst_weights={r: 0.125 * (rank + 1) for r in targets},
            enable_topo_check=check,
        )
        close(both, 0.5 * all_[rank] + sum(2 * 0.125 * (r + 1) * all_[r] for r in sources))
        moved = bf.neighbor_allreduce(
            all_[rank],
            self_weight=0.0,
            src_weights={around()["after"]: 1.0},
            dst_weights=[around()["before"]],
            enable_topo_check=check,
        )
        assert torch.equal(moved, all_[around()["after"]])


def check_neighbor_allreduce_refuses() -> None:
    x = torch.ones(3)
    call = bf.neighbor_allreduce
    raises(ValueError, lambda: call(x, self_weight=1.0), "together")
    raises(ValueError, lambda: call(x, src_weights={}), "together")
    raises(ValueError, lambda: call(x, dst_weights=[0]), "dst_weights needs both")
    raises(ValueError, lambda: call(x, self_weight=1.0, src_weights=[0]), "dictionary")
    for check in (True, False):
        raises(
            ValueError,
            lambda: call(
                x, self_weight=1.0, src_weights={}, dst_weights=[9], enable_topo_check=check
            ),
        )
    twice = [around()["after"]] * 2
    raises(ValueError, lambda: call(x, self_weight=1.0, src_weights={}, dst_weights=twice), "twice")
    for dtype in (torch.int32, torch.bool, torch.complex64):
        raises(ValueError, lambda: call(x.to(dtype)), str(dtype))
        raises(ValueError, lambda: bf.pair_gossip(x.to(dtype), 0), str(dtype))
    raises(TypeError, lambda: call([1.0]))
    raises(TypeError, lambda: call(torch.ones(3, device="meta")), "meta")
    raises(TypeError, lambda: call(torch.eye(3).to_sparse()), "sparse")


def check_edges_that_differ_are_an_error_on_all_ranks_and_harm_nothing() -> None:
    wrong = {
        "self_weight": 1.0,
        "src_weights": {around()["before"]: 1.0},
        "dst_weights": [(bf.rank() + 2) % 4],
    }
    x = torch.ones(3)
    raises(ValueError, lambda: bf.neighbor_allreduce(x, **wrong), "rank 1", "src_weights")
    handle = bf.neighbor_allreduce_nonblocking(x, **wrong)
    raises(ValueError, lambda: bf.synchronize(handle), "dst_weights")
    raises(
        ValueError,
        lambda: bf.neighbor_allgather(x, src_ranks=[around()["before"]], dst_ranks=[]),
        "src_ranks",
    )
    assert torch.equal(bf.neighbor_allreduce(x), x)


def check_calls_that_need_all() -> None:
    rank = bf.rank()
    x = torch.tensor([float(rank)])
    for call in (bf.allreduce, bf.neighbor_allreduce, bf.allreduce_):
        raises(TypeError, lambda: call(x, needs_all="yes"), "needs_all")
        raises(TypeError, lambda: call(x, name="x", needs_all="yes"), "needs_all")
    close(bf.allreduce_(x, needs_all=True), torch.tensor([1.5]))
    # Whatever it is, an operation by name needs all ranks.
    close(bf.allreduce(x, name="x", needs_all=rank == 0), x)
    close(bf.neighbor_allreduce(x, needs_all=True), x)


def check_any_strides() -> None:
    rank, size = bf.rank(), bf.size()
    used = [rank, *bf.in_neighbor_ranks()]
    wide = [mine(each, 6, 8).t()[::2] for each in range(size)]
    mean = sum(each for each in wide) / size
    close(bf.neighbor_allreduce(wide[rank]), sum(wide[each] for each in used) / len(used))
    close(bf.allreduce(wide[rank]), mean)
    assert torch.equal(bf.broadcast(wide[rank], 2), wide[2])
    rows = torch.cat([each for each in wide])
    assert torch.equal(bf.allgather(wide[rank]), rows)
    whole = mine(rank, 6, 8)
    part = whole.t()[::2]
    assert bf.allreduce_(part) is part
    close(whole.t()[::2], mean)
    assert torch.equal(whole.t()[1::2], mine(rank, 6, 8).t()[1::2])
    expanded = torch.ones(1).expand(4)
    assert torch.equal(bf.allreduce(expanded, average=False), torch.full((4,), 4.0))
    close(bf.allreduce(torch.tensor(float(rank))), torch.tensor(1.5))


def check_allreduce() -> None:
    rank, size = bf.rank(), bf.size()
    for dtype in FLOATING:
        all_ = everyones(5, 3, dtype=dtype)
        total = sum(each.double() for each in all_)
        close(bf.allreduce(all_[rank], average=False), total)
        close(bf.allreduce(all_[rank], is_hierarchical_local=True), total / size)
        found = all_[rank].clone()
        assert bf.allreduce_(found) is found
        close(found, total / size)
    for dtype in (torch.int8, torch.uint8, torch.int32, torch.int64):
        found = bf.allreduce(mine(rank, 4, dtype=dtype), average=False)
        assert torch.equal(found, sum(everyones(4, dtype=dtype)).to(dtype))
        raises(ValueError, lambda: bf.allreduce(mine(rank, 4, dtype=dtype)), "average")


def check_broadcast() -> None:
    rank = bf.rank()
    for dtype in (*MOVED, torch.complex64):
        tensor = mine(rank, 3, 5, dtype=dtype)
        found = bf.broadcast(tensor, 2)
        assert torch.equal(found, mine(2, 3, 5, dtype=dtype)) and found is not tensor
        assert torch.equal(tensor, mine(rank, 3, 5, dtype=dtype))
        assert bf.broadcast_(tensor, 1) is tensor
        assert torch.equal(tensor, mine(1, 3, 5, dtype=dtype))
    raises(ValueError, lambda: bf.broadcast(torch.ones(2), 4))


def check_allgather() -> None:
    rank, size = bf.rank(), bf.size()
    for dtype in MOVED:
        for rest in ((), (3,), (3, 0)):
            rows = [[2, 0, 5, 1][each] for each in range(size)]
            all_ = [mine(each, rows[each], *rest, dtype=dtype) for each in range(size)]
            assert torch.equal(bf.allgather(all_[rank]), torch.cat(all_))
    raises(weft.Mismatch, lambda: bf.allgather(torch.ones(2, 3 + rank // 3)), "rank")
    dtype = torch.int32 if rank == 3 else torch.float32
    raises(weft.Mismatch, lambda: bf.allgather(torch.ones(2, dtype=dtype)))
    assert torch.equal(bf.allgather(torch.tensor(rank)), torch.arange(size))


def check_neighbor_allgather() -> None:
    rank, size = bf.rank(), bf.size()
    rows = [3, 0, 1, 4]
    for dtype in MOVED:
        all_ = [mine(each, rows[each], 2, dtype=dtype) for each in range(size)]
        found = bf.neighbor_allgather(all_[rank])
        assert torch.equal(found, torch.cat([all_[each] for each in bf.in_neighbor_ranks()]))
        for check in (True, False):
            sources = [(rank - 1) % size, (rank + 1) % size]
            found = bf.neighbor_allgather(
                all_[rank],
                src_ranks=np.array(sources),
                dst_ranks=sources[::-1],
                enable_topo_check=check,
            )
            assert torch.equal(found, torch.cat([all_[each] for each in sources]))
    some = {"src_ranks": [2] if rank == 1 else [], "dst_ranks": [1] if rank == 2 else []}
    found = bf.neighbor_allgather(mine(rank, 3, 2), **some)
    assert torch.equal(found, mine(2, 3, 2) if rank == 1 else torch.empty(0, 2))
    raises(ValueError, lambda: bf.neighbor_allgather(torch.ones(2), src_ranks=[1]), "together")
    raises(
        ValueError,
        lambda: bf.neighbor_allgather(torch.ones(2), src_ranks=[rank], dst_ranks=[]),
        "no other rank",
    )


def check_pair_gossip() -> None:
    rank = bf.rank()
    other = rank ^ 1
    for dtype in FLOATING:
        x, y = mine(rank, 9, dtype=dtype).double(), mine(other, 9, dtype=dtype).double()
        close(bf.pair_gossip(mine(rank, 9, dtype=dtype), other), (x + y) / 2)
        found = bf.pair_gossip(mine(rank, 9, dtype=dtype), other, 0.25, 0.75)
        close(found, 0.25 * x + 0.75 * y)
    raises(ValueError, lambda: bf.pair_gossip(torch.ones(2), other, self_weight=0.5), "together")


def check_handles() -> None:
    rank, size = bf.rank(), bf.size()
    x = mine(rank, 1000)
    handle = bf.allreduce_nonblocking(x, name="x")
    assert isinstance(handle, int)
    raises(ValueError, lambda: bf.allreduce_nonblocking(x, name="x"), "'x'")
    raises(ValueError, lambda: bf.allreduce(x, name="x"), "'x'")
    raises(ValueError, lambda: bf.allreduce_(x.clone(), name="x"), "'x'")
    bf.neighbor_allreduce(x, name="x")  # a name is one for each kind of operation
    mean = bf.wait(handle)
    close(mean, sum(everyones(1000)) / size)
    for call in (bf.wait, bf.synchronize, bf.poll):
        raises(ValueError, lambda: call(handle), "waited")
    handle = bf.broadcast_nonblocking_(x, 3, name="x")
    while not bf.poll(handle):
        pass
    assert bf.synchronize(handle) is x and torch.equal(x, mine(3, 1000))
    raises(ValueError, lambda: bf.poll(12345678), "does not exist")


def check_many_operations_at_once_in_any_order_of_waiting() -> None:
    rank, size = bf.rank(), bf.size()
    started = []
    for number in range(40):
        x = torch.full((number + rank,), float(rank + number), dtype=torch.float64)
        y = torch.full((1 + 50 * number,), float(rank + number))
        some = {
            "self_weight": 0.0,
            "src_weights": {around()["before"]: 1.0},
            "dst_weights": [around()["after"]],
        }
        started.append(
            (
                bf.allgather_nonblocking(x, name=f"a{number}"),
                bf.neighbor_allreduce_nonblocking(y, name=f"b{number}", **some),
                bf.neighbor_allgather_nonblocking(x, name=f"c{number}"),
                bf.allreduce_nonblocking(y, average=False, name=f"d{number}"),
            )
        )
    for number, (a, b, c, d) in reversed(list(enumerate(started))):
        assert bf.wait(d)[0] == 6 + 4 * number
        expected = [r + number for r in bf.in_neighbor_ranks() for _ in range(r + number)]
        assert bf.wait(c).tolist() == expected
        assert bf.wait(b)[-1] == around()["before"] + number
        assert bf.wait(a).tolist() == [r + number for r in range(size) for _ in range(r + number)]


def check_operations_with_names_start_in_another_order_on_each_rank() -> None:
    rank, size = bf.rank(), bf.size()
    order = [(number + 3 * rank) % 12 for number in range(12)]
    pull = {
        "self_weight": 0.5,
        "src_weights": {around()["before"]: 0.5},
        "dst_weights": [around()["after"]],
    }

    def start(number: int) -> int:
        x, name = torch.full((100 * number + 1,), float(rank + number)), f"any{number}"
        if number % 3 == 0:
            return bf.allreduce_nonblocking(x, average=False, name=name)
        if number % 3 == 1:
            return bf.neighbor_allreduce_nonblocking(x, name=name, **pull)
        return bf.broadcast_nonblocking(x, 2, name=name)

    def expected(number: int) -> float:
        if number % 3 == 0:
            return 6.0 + 4 * number
        return number + ((rank + around()["before"]) / 2 if number % 3 == 1 else 2.0)

    for _ in range(3):
        handles = {number: start(number) for number in order}
        for number in range(12):
            result = bf.wait(handles[number])
            assert result.tolist() == [expected(number)] * (100 * number + 1), number
    bf.set_skip_negotiate_stage(True)
    handles = {number: start(number) for number in range(12)}  # the order counts now
    assert all(bf.wait(handles[number])[0] == expected(number) for number in range(12))
    bf.set_skip_negotiate_stage(False)


def check_gathers_with_names_start_in_another_order_on_each_rank() -> None:
    rank, size = bf.rank(), bf.size()
    before, after = around()["before"], around()["after"]
    others = {"src_ranks": [before], "dst_ranks": [after]}

    def start(number: int) -> int:
        x, name = torch.full((number % 3 + rank,), 10.0 * number + rank), f"gather{number}"
        if number % 4 == 0:
            return bf.allgather_nonblocking(x, name=name)
        if number % 4 == 1:
            return bf.neighbor_allgather_nonblocking(x, name=name)
        check = number % 4 == 2
        return bf.neighbor_allgather_nonblocking(x, name=name, enable_topo_check=check, **others)

    def expected(number: int) -> List[float]:
        sources = [[*range(size)], bf.in_neighbor_ranks(), [before], [before]][number % 4]
        return [10.0 * number + each for each in sources for _ in range(number % 3 + each)]

    for _ in range(2):
        order = [(number + 5 * rank) % 16 for number in range(16)]
        handles = {number: start(number) for number in order}
        for number in range(16):
            assert bf.wait(handles[number]).tolist() == expected(number), number


def check_a_blocking_operation_is_matched_by_its_name() -> None:
    rank = bf.rank()
    x = torch.full((3,), float(rank))
    for call in (bf.allreduce, bf.neighbor_allreduce, bf.allgather, bf.neighbor_allgather):
        begin = getattr(bf, call.__name__ + "_nonblocking")
        alone = call(x)
        if rank == 0:
            found = call(x, name="a")
            other = bf.wait(begin(x + 10, name="b"))
        else:
            handle = begin(x + 10, name="b")
            found, other = bf.wait(begin(x, name="a")), bf.wait(handle)
        assert torch.equal(found, alone) and torch.allclose(other, alone + 10)


def check_tensors_of_one_size_and_two_shapes_do_not_fit() -> None:
    x = torch.ones((2, 3) if bf.rank() == 1 else (3, 2))
    raises(weft.Mismatch, lambda: bf.allreduce(x, name="shapes"), "shapes", "(2, 3)", "(3, 2)")
    handle = bf.neighbor_allreduce_nonblocking(x, name="shapes")
    raises(weft.Mismatch, lambda: bf.wait(handle), "shapes", "(2, 3)", "(3, 2)")


def check_names_that_do_not_fit_are_an_error_on_all_ranks_and_harm_nothing() -> None:
    x = torch.ones(3 if bf.rank() == 1 else 4)
    handle = bf.allreduce_nonblocking(x, name="sizes")
    raises(weft.Mismatch, lambda: bf.wait(handle), "sizes", "rank 1")
    assert bf.allreduce(torch.ones(1), average=False, name="after") == 4


def check_tensors_that_need_gradients() -> None:
    weight = torch.nn.Parameter(mine(bf.rank(), 5))
    saved = (weight * weight).sum()
    assert not bf.allreduce(weight).requires_grad
    assert bf.allreduce_(weight) is weight
    close(weight.detach(), sum(everyones(5)) / bf.size())
    raises(RuntimeError, saved.backward, "modified")


def check_what_blue_fog_asks_of_its_build() -> None:
    assert not bf.nccl_built()
    assert bf.mpi_threads_supported() and bf.unified_mpi_window_model_supported()
    powers = [x for x in range(1, 1001) if bf.isPowerOf(x, 10)]
    assert powers == [1, 10, 100, 1000]
    raises(ValueError, lambda: bf.isPowerOf(4, 1), "base")


def check_barrier_and_shutdown() -> None:
    bf.barrier()
    rank = bf.rank()
    bf.shutdown()
    bf.shutdown()
    raises(ValueError, bf.size, "init")
    bf.init()
    assert bf.rank() == rank and bf.allreduce(torch.ones(1), average=False) == 4
    bf.shutdown()


if __name__ == "__main__":
    run_checks(dict(globals()))
