"""Every operation on 1, 2 and 4 ranks, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import weft

from conftest import as_threads

SIZES = [1, 2, 4]


def values(rank: int, shape: Any = (3, 5)) -> np.ndarray:
    return np.random.default_rng(rank).standard_normal(shape)


def all_values(n: int, shape: Any = (3, 5)) -> np.ndarray:
    return np.stack([values(rank, shape) for rank in range(n)])


@pytest.mark.parametrize("n", SIZES)
class TestOperations:
    def test_neighbor_allreduce_uniform(self, n: int) -> None:
        results = as_threads(n, lambda ctx: ctx.neighbor_allreduce(values(ctx.rank)))
        graph = weft.exponential_graph(n)
        for rank, result in enumerate(results):
            ranks = [rank] + [peer.rank for peer in graph.in_edges(rank)]
            np.testing.assert_allclose(result, all_values(n)[ranks].mean(axis=0))

    def test_neighbor_allreduce_of_a_weighted_graph(self, n: int) -> None:
        graph = weft.grid_graph(n)

        def body(ctx: weft.Context) -> np.ndarray:
            ctx.set_graph(graph, weighted=True)
            assert ctx.graph == graph
            return ctx.neighbor_allreduce(values(ctx.rank))

        matrix = np.array([[graph.weight(i, j) for j in range(n)] for i in range(n)])
        expected = np.einsum("ij,jab->iab", matrix, all_values(n))
        np.testing.assert_allclose(as_threads(n, body), expected)

    def test_neighbor_allreduce_pull(self, n: int) -> None:
        def body(ctx: weft.Context) -> np.ndarray:
            source = (ctx.rank - 1) % n
            weights = {source: 0.75} if n > 1 else {}
            return ctx.neighbor_allreduce(
                values(ctx.rank), self_weight=0.25, src_weights=weights
            )

        every = all_values(n)
        for rank, result in enumerate(as_threads(n, body)):
            expected = 0.25 * every[rank] + (0.75 * every[rank - 1] if n > 1 else 0)
            np.testing.assert_allclose(result, expected)

    @pytest.mark.parametrize("as_list", [False, True])
    def test_neighbor_allreduce_push(self, n: int, as_list: bool) -> None:
        def body(ctx: weft.Context) -> np.ndarray:
            target = (ctx.rank + 1) % n
            weights: Any = {target: 1.0} if n > 1 else {}
            if as_list:
                weights = list(weights)
            return ctx.neighbor_allreduce(
                values(ctx.rank), self_weight=0.5, dst_weights=weights
            )

        every = all_values(n)
        for rank, result in enumerate(as_threads(n, body)):
            expected = 0.5 * every[rank] + (every[rank - 1] if n > 1 else 0)
            np.testing.assert_allclose(result, expected)

    def test_neighbor_allreduce_on_other_edges(self, n: int) -> None:
        def body(ctx: weft.Context) -> np.ndarray:
            ctx.set_graph(weft.ring_graph(n, 2))
            source, target = (ctx.rank + 1) % n, (ctx.rank - 1) % n  # against the ring
            return ctx.neighbor_allreduce(
                values(ctx.rank),
                self_weight=0.5,
                src_weights={source: 0.25} if n > 1 else {},
                dst_weights={target: 2.0} if n > 1 else {},
            )

        every = all_values(n)
        for rank, result in enumerate(as_threads(n, body)):
            expected = 0.5 * every[rank] + (0.5 * every[(rank + 1) % n] if n > 1 else 0)
            np.testing.assert_allclose(result, expected)

    def test_push_sum_keeps_the_mass(self, n: int) -> None:
        def body(ctx: weft.Context) -> Any:
            x = np.append(values(ctx.rank, 7), 1.0)
            out = [peer.rank for peer in ctx.graph.out_edges(ctx.rank)]
            share = 1 / (len(out) + 1)
            for _ in range(60):
                x = ctx.neighbor_allreduce(
                    x, self_weight=share, dst_weights={r: share for r in out}, push_sum=True
                )
            return x[:-1] / x[-1]

        mean = all_values(n, 7).mean(axis=0)
        for result in as_threads(n, body):
            np.testing.assert_allclose(result, mean)

    def test_hierarchical_neighbor_allreduce(self, n: int) -> None:
        def body(ctx: weft.Context) -> np.ndarray:
            ctx.set_machine_graph(weft.fully_connected_graph(ctx.machine_size))
            assert ctx.machine_graph == weft.fully_connected_graph(1)
            return ctx.hierarchical_neighbor_allreduce(values(ctx.rank))

        for result in as_threads(n, body):
            np.testing.assert_allclose(result, all_values(n).mean(axis=0))

    def test_neighbor_allgather(self, n: int) -> None:
        results = as_threads(n, lambda ctx: ctx.neighbor_allgather(values(ctx.rank)))
        graph = weft.exponential_graph(n)
        for rank, result in enumerate(results):
            parts = [values(peer.rank) for peer in graph.in_edges(rank)]
            expected = np.concatenate(parts) if parts else np.empty((0, 5))
            np.testing.assert_array_equal(result, expected)

    def test_neighbor_allgather_of_different_rows(self, n: int) -> None:
        def body(ctx: weft.Context) -> np.ndarray:
            neighbors = ctx.graph.in_edges(ctx.rank)
            counts = [peer.rank + 1 for peer in neighbors]
            x = np.full((ctx.rank + 1, 2), ctx.rank)
            return ctx.neighbor_allgather(x, counts=counts)

        graph = weft.exponential_graph(n)
        for rank, result in enumerate(as_threads(n, body)):
            expected = [r for peer in graph.in_edges(rank) for r in [peer.rank] * (peer.rank + 1)]
            assert result[:, 0].tolist() == expected

    @pytest.mark.parametrize(
        "op, reference",
        [
            ("sum", np.sum),
            ("average", np.mean),
            ("min", np.min),
            ("max", np.max),
            ("product", np.prod),
            (weft.ReduceOp.sum, np.sum),
        ],
    )
    def test_allreduce(self, n: int, op: Any, reference: Any) -> None:
        results = as_threads(n, lambda ctx: ctx.allreduce(values(ctx.rank), op=op))
        for result in results:
            np.testing.assert_allclose(result, reference(all_values(n), axis=0))

    @pytest.mark.parametrize(
        "op, reference",
        [
            ("bit_and", np.bitwise_and),
            ("bit_or", np.bitwise_or),
            ("bit_xor", np.bitwise_xor),
        ],
    )
    def test_allreduce_of_bits(self, n: int, op: str, reference: Any) -> None:
        def bits(rank: int) -> np.ndarray:
            return np.random.default_rng(rank).integers(0, 1 << 30, 100)

        results = as_threads(n, lambda ctx: ctx.allreduce(bits(ctx.rank), op=op))
        for result in results:
            np.testing.assert_array_equal(result, reference.reduce([bits(r) for r in range(n)]))

    @pytest.mark.parametrize("algorithm", ["direct", "split", "mesh", "ring", weft.AllreduceAlgorithm.ring])
    def test_allreduce_by_algorithm(self, n: int, algorithm: Any) -> None:
        def body(ctx: weft.Context) -> np.ndarray:
            return ctx.allreduce(values(ctx.rank, 1000), algorithm=algorithm)

        for result in as_threads(n, body):
            np.testing.assert_allclose(result, all_values(n, 1000).mean(axis=0))

    @pytest.mark.parametrize("bits", ["fixed", weft.Bits.fixed])
    def test_fixed_bits(self, n: int, bits: Any) -> None:
        def body(ctx: weft.Context) -> np.ndarray:
            x = values(ctx.rank, 1000)
            whole = ctx.allreduce(x, op="sum", bits=bits)
            assert (ctx.allreduce(x, op="sum", bits=bits, algorithm="direct") == whole).all()
            part = ctx.reduce_scatter(x, op="sum", bits=bits)
            rows = np.array_split(whole, n)[ctx.rank]
            assert part.tobytes() == rows.tobytes()
            at_root = ctx.reduce(x, op="sum", bits=bits)
            assert ctx.rank != 0 or at_root.tobytes() == whole.tobytes()
            assert ctx.local_allreduce(x, op="sum", bits=bits).tobytes() == whole.tobytes()
            mean = ctx.group_average(x, ranks=range(n), bits=bits)
            assert mean.tobytes() == ctx.allreduce(x, bits=bits).tobytes()
            named = ctx.named().grouped_allreduce("sums", [x, x[:10]], op="sum", bits=bits)
            assert [each.tobytes() for each in named] == [whole.tobytes(), whole[:10].tobytes()]
            with pytest.raises(weft.InvalidArgument, match="rank order"):
                ctx.allreduce(x, bits=bits, algorithm="ring")
            return whole

        expected = values(0, 1000)
        for rank in range(1, n):
            expected = expected + values(rank, 1000)
        for result in as_threads(n, body):
            assert result.tobytes() == expected.tobytes()

    def test_bits_that_do_not_exist(self, n: int) -> None:
        def body(ctx: weft.Context) -> None:
            with pytest.raises(ValueError, match="'fixd' do not exist; there are automatic, fixed"):
                ctx.allreduce(values(ctx.rank), bits="fixd")

        as_threads(n, body)

    def test_allreduce_by_nccl_needs_gpus(self, n: int) -> None:
        def body(ctx: weft.Context) -> Any:
            if n == 1:
                return ctx.allreduce(values(ctx.rank), algorithm="nccl")
            with pytest.raises((weft.Unavailable, weft.InvalidArgument), match="by nccl"):
                ctx.allreduce(values(ctx.rank), algorithm=weft.AllreduceAlgorithm.nccl)
            return ctx.allreduce(values(ctx.rank))

        for result in as_threads(n, body):
            np.testing.assert_allclose(result, all_values(n).mean(axis=0))

    def test_local_allreduce(self, n: int) -> None:
        for result in as_threads(n, lambda ctx: ctx.local_allreduce(values(ctx.rank), op="sum")):
            np.testing.assert_allclose(result, all_values(n).sum(axis=0))

    def test_broadcast(self, n: int) -> None:
        for result in as_threads(n, lambda ctx: ctx.broadcast(values(ctx.rank), root=n - 1)):
            np.testing.assert_array_equal(result, values(n - 1))

    def test_allgather(self, n: int) -> None:
        for result in as_threads(n, lambda ctx: ctx.allgather(values(ctx.rank))):
            np.testing.assert_array_equal(result, np.concatenate(all_values(n)))

    def test_allgather_of_different_rows(self, n: int) -> None:
        def body(ctx: weft.Context) -> np.ndarray:
            x = values(ctx.rank, (ctx.rank, 2))
            return ctx.allgather(x, counts=range(n))

        expected = np.concatenate([values(rank, (rank, 2)) for rank in range(n)])
        for result in as_threads(n, body):
            np.testing.assert_array_equal(result, expected)

    @pytest.mark.parametrize("rows", [8, 7])
    def test_reduce_scatter(self, n: int, rows: int) -> None:
        def body(ctx: weft.Context) -> np.ndarray:
            return ctx.reduce_scatter(values(ctx.rank, (rows, 3)), op="sum")

        whole = all_values(n, (rows, 3)).sum(axis=0)
        results = as_threads(n, body)
        np.testing.assert_allclose(np.concatenate(results), whole)
        assert [len(each) for each in results] == [len(e) for e in np.array_split(whole, n)]

    def test_reduce_scatter_by_counts(self, n: int) -> None:
        counts = list(range(n))

        def body(ctx: weft.Context) -> np.ndarray:
            return ctx.reduce_scatter(values(ctx.rank, (sum(counts), 2)), counts=counts)

        results = as_threads(n, body)
        assert [len(each) for each in results] == counts
        whole = all_values(n, (sum(counts), 2)).mean(axis=0)
        np.testing.assert_allclose(np.concatenate(results), whole)

    def test_reduce(self, n: int) -> None:
        results = as_threads(n, lambda ctx: ctx.reduce(values(ctx.rank), root=n - 1, op="max"))
        np.testing.assert_array_equal(results[-1], all_values(n).max(axis=0))
        assert all(result is None for result in results[:-1])

    def test_gather(self, n: int) -> None:
        results = as_threads(n, lambda ctx: ctx.gather(values(ctx.rank), root=0))
        np.testing.assert_array_equal(results[0], np.concatenate(all_values(n)))
        assert all(result is None for result in results[1:])

    def test_scatter(self, n: int) -> None:
        whole = values(7, (2 * n, 3))

        def body(ctx: weft.Context) -> np.ndarray:
            if ctx.rank == 0:
                return ctx.scatter(whole)
            if ctx.rank == 1:
                return ctx.scatter(None, np.empty((2, 3)))
            return ctx.scatter(np.empty_like(whole))

        np.testing.assert_array_equal(np.concatenate(as_threads(n, body)), whole)

    def test_alltoall(self, n: int) -> None:
        results = as_threads(n, lambda ctx: ctx.alltoall(values(ctx.rank, (2 * n, 3))))
        blocks = all_values(n, (2 * n, 3)).reshape(n, n, 2, 3)
        np.testing.assert_array_equal(results, blocks.swapaxes(0, 1).reshape(n, 2 * n, 3))

    def test_alltoallv(self, n: int) -> None:
        def body(ctx: weft.Context) -> np.ndarray:
            sends = [ctx.rank + target for target in range(n)]
            receives = [source + ctx.rank for source in range(n)]
            x = np.full((sum(sends), 2), ctx.rank)
            return ctx.alltoallv(x, send_counts=sends, receive_counts=receives)

        for rank, result in enumerate(as_threads(n, body)):
            expected = [source for source in range(n) for _ in range(source + rank)]
            assert result[:, 1].tolist() == expected

    def test_send_and_recv(self, n: int) -> None:
        def body(ctx: weft.Context) -> Any:
            target, source = (ctx.rank + 1) % ctx.size, (ctx.rank - 1) % ctx.size
            handle = ctx.send_start(values(ctx.rank), target)
            got = ctx.recv(np.empty((3, 5)), source)
            handle.wait()
            return got

        ranks = max(n, 2)  # a rank does not send to itself
        for rank, result in enumerate(as_threads(ranks, body)):
            np.testing.assert_array_equal(result, values((rank - 1) % ranks))

    def test_pair_average(self, n: int) -> None:
        def body(ctx: weft.Context) -> Any:
            x = values(ctx.rank)
            return (
                ctx.pair_average(x, peer=ctx.rank ^ 1),
                ctx.pair_average(x, peer=ctx.rank ^ 1, self_weight=0.9, pair_weight=0.1),
            )

        for rank, (even, uneven) in enumerate(as_threads(max(n, 2), body)):  # a pair
            mine, other = values(rank), values(rank ^ 1)
            np.testing.assert_allclose(even, (mine + other) / 2)
            np.testing.assert_allclose(uneven, 0.9 * mine + 0.1 * other)

    def test_group_average(self, n: int) -> None:
        group = [0, n - 1] if n > 1 else [0]

        def body(ctx: weft.Context) -> Any:
            if ctx.rank in group:
                return ctx.group_average(values(ctx.rank), ranks=group)
            return None

        results = as_threads(n, body)
        for rank in group:
            np.testing.assert_allclose(results[rank], all_values(n)[group].mean(axis=0))

    def test_barrier_and_started_forms(self, n: int) -> None:
        def body(ctx: weft.Context) -> Any:
            ctx.barrier()
            ctx.barrier_start().wait()
            x = values(ctx.rank, (n, 4))
            started = {
                "allreduce": ctx.allreduce_start(x),
                "neighbor_allreduce": ctx.neighbor_allreduce_start(x),
                "local_allreduce": ctx.local_allreduce_start(x),
                "broadcast": ctx.broadcast_start(x, root=0),
                "allgather": ctx.allgather_start(x),
                "neighbor_allgather": ctx.neighbor_allgather_start(x),
                "reduce_scatter": ctx.reduce_scatter_start(x),
                "alltoall": ctx.alltoall_start(x),
                "reduce": ctx.reduce_start(x, root=0),
                "gather": ctx.gather_start(x, root=0),
                "scatter": ctx.scatter_start(x, root=0),
            }
            for name, handle in started.items():
                np.testing.assert_array_equal(
                    handle.wait(), getattr(ctx, name)(x), err_msg=name
                )
            return ctx.usage()["operations"]

        assert all(count == 24 for count in as_threads(n, body))


def test_split() -> None:
    def body(ctx: weft.Context) -> Any:
        part = ctx.split(ctx.rank % 2, key=-ctx.rank)
        assert isinstance(part, weft.Context)
        with part:
            assert ctx.split(-1) is None
            return part.rank, part.size, float(part.allreduce(np.array([ctx.rank]), op="sum")[0])

    assert as_threads(4, body) == [(1, 2, 2.0), (1, 2, 4.0), (0, 2, 2.0), (0, 2, 4.0)]


def test_placement() -> None:
    def body(ctx: weft.Context) -> Any:
        return (
            ctx.rank,
            ctx.size,
            ctx.local_rank,
            ctx.local_size,
            ctx.machine_rank,
            ctx.machine_size,
            ctx.is_homogeneous,
        )

    assert as_threads(2, body) == [(r, 2, r, 2, 0, 1, True) for r in range(2)]


def test_explain_says_how_the_operation_ran() -> None:
    def body(ctx: weft.Context) -> str:
        ctx.allreduce(np.ones(3))
        return ctx.explain()

    assert all("allreduce" in text for text in as_threads(2, body))
