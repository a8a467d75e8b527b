"""weft.topology: digraphs both ways, and BlueFog's functions against their definitions."""

from __future__ import annotations

import itertools
import math
import sys
from typing import Any, Iterator, List, Tuple

import numpy as np
import pytest
import weft
from weft import topology

nx = pytest.importorskip("networkx")

SIZES = [1, 2, 3, 4, 6, 8, 12, 16]
Step = Tuple[List[int], List[int]]


def matrix(digraph: Any) -> np.ndarray:
    """Row j is what j sends, the diagonal its own weight."""
    return nx.to_numpy_array(digraph, nodelist=sorted(digraph.nodes))


def uniform(edges: np.ndarray) -> np.ndarray:
    """The weights of a receiver: equal for its in-neighbors and itself."""
    n = len(edges)
    with_self = np.maximum(edges, np.eye(n))
    return with_self / with_self.sum(axis=0)


def circulant(n: int, hops: Any) -> np.ndarray:
    edges = np.zeros((n, n))
    for j, hop in itertools.product(range(n), hops):
        edges[j, (j + hop) % n] = 1
    return edges


def powers_below(n: int, base: int) -> List[int]:
    powers = itertools.takewhile(lambda p: p < n, (base**k for k in itertools.count()))
    return list(powers) if base > 1 else [1]


@pytest.mark.parametrize("n", SIZES)
class TestBlueFogGraphs:
    def test_exponential(self, n: int) -> None:
        expected = uniform(circulant(n, powers_below(n, 2)))
        np.testing.assert_allclose(matrix(topology.ExponentialTwoGraph(n)), expected)
        np.testing.assert_allclose(matrix(topology.ExponentialGraph(n)), expected)
        expected = uniform(circulant(n, powers_below(n, 3)))
        np.testing.assert_allclose(matrix(topology.ExponentialGraph(n, base=3)), expected)

    def test_symmetric_exponential(self, n: int) -> None:
        powers = powers_below(n, 4)
        hops = [d for d in range(1, n) if (d if d <= n // 2 else n - d) in powers]
        expected = uniform(circulant(n, hops))
        np.testing.assert_allclose(matrix(topology.SymmetricExponentialGraph(n)), expected)

    def test_ring(self, n: int) -> None:
        hops = {0: [1, -1], 1: [-1], 2: [1]}
        for style, each in hops.items():
            expected = uniform(circulant(n, each) if n > 1 else np.zeros((1, 1)))
            np.testing.assert_allclose(matrix(topology.RingGraph(n, style)), expected)

    def test_star(self, n: int) -> None:
        center = n // 2
        expected = np.eye(n) * (1 - 1 / n)
        expected[center, :] = expected[:, center] = 1 / n
        digraph = topology.StarGraph(n, center_rank=center)
        np.testing.assert_allclose(matrix(digraph), expected)

    def test_mesh_grid(self, n: int) -> None:
        rows = max(d for d in range(1, math.isqrt(n) + 1) if n % d == 0)
        columns = n // rows
        degree = np.zeros((n, n))
        for a, b in itertools.product(range(n), repeat=2):
            distance = abs(a // columns - b // columns) + abs(a % columns - b % columns)
            degree[a, b] = distance <= 1
        counts = degree.sum(axis=0)
        expected = degree / np.maximum.outer(counts, counts)
        np.fill_diagonal(expected, 0)
        np.fill_diagonal(expected, 1 - expected.sum(axis=0))
        np.testing.assert_allclose(matrix(topology.MeshGrid2DGraph(n)), expected)
        by_shape = topology.MeshGrid2DGraph(n, shape=(rows, columns))
        assert topology.IsTopologyEquivalent(by_shape, topology.MeshGrid2DGraph(n))

    def test_fully_connected(self, n: int) -> None:
        expected = np.full((n, n), 1 / n)
        np.testing.assert_allclose(matrix(topology.FullyConnectedGraph(n)), expected)

    def test_there_and_back(self, n: int) -> None:
        for make in (topology.ExponentialTwoGraph, topology.StarGraph, topology.MeshGrid2DGraph):
            digraph = make(n)
            graph = topology.from_networkx(digraph)
            assert topology.IsTopologyEquivalent(topology.to_networkx(graph), digraph)
            assert topology.from_networkx(topology.to_networkx(graph)) == graph


def test_weights_of_a_rank() -> None:
    digraph = topology.from_networkx(topology.ExponentialTwoGraph(6))
    given = topology.to_networkx(digraph)
    weight, sources = topology.GetRecvWeights(given, 0)
    assert weight == pytest.approx(0.25)
    assert sources == pytest.approx({5: 0.25, 4: 0.25, 2: 0.25})
    weight, targets = topology.GetSendWeights(given, 0)
    assert targets == pytest.approx({1: 0.25, 2: 0.25, 4: 0.25})
    lonely = nx.DiGraph()
    lonely.add_nodes_from(range(2))
    assert topology.GetRecvWeights(lonely, 1) == (0.0, {})


def test_regular_and_equivalent() -> None:
    assert topology.IsRegularGraph(topology.RingGraph(5))
    assert topology.IsRegularGraph(topology.RingGraph(1))
    assert not topology.IsRegularGraph(topology.StarGraph(5))
    ring, other = topology.RingGraph(5), topology.RingGraph(5, 1)
    assert topology.IsTopologyEquivalent(ring, topology.RingGraph(5))
    assert not topology.IsTopologyEquivalent(ring, other)
    assert not topology.IsTopologyEquivalent(ring, topology.RingGraph(6))
    assert not topology.IsTopologyEquivalent(None, ring)
    heavier = ring.copy()
    heavier[0][1]["weight"] = 0.9
    assert not topology.IsTopologyEquivalent(ring, heavier)


class TestFromNetworkx:
    def test_without_weights_they_are_uniform(self) -> None:
        graph = topology.from_networkx(nx.path_graph(3))
        assert [graph.self_weight(rank) for rank in range(3)] == pytest.approx([1 / 2, 1 / 3, 1 / 2])
        assert graph.weight(1, 0) == pytest.approx(1 / 3)
        assert weft.is_undirected(graph) and weft.is_row_stochastic(graph)

    def test_self_weights_of_loops_and_of_nodes(self) -> None:
        digraph = nx.DiGraph()
        digraph.add_node(0, self_weight=0.25)
        digraph.add_edge(1, 0, weight=0.75)
        digraph.add_edge(1, 1, weight=0.5)
        digraph.add_edge(2, 1, weight=0.5)
        graph = topology.from_networkx(digraph, name="mine")
        assert graph.self_weights == [0.25, 0.5, 0.0] and graph.name == "mine"
        assert graph.weight(0, 1) == 0.75 and graph.weight(1, 0) == 0

    @pytest.mark.parametrize(
        "digraph, text",
        [
            (nx.DiGraph([("a", "b")]), "0 ... 1"),
            (nx.DiGraph([(1, 2)]), "0 ... 1"),
            (nx.MultiDiGraph([(0, 1), (0, 1)]), "several edges"),
            (nx.DiGraph([(0, 1, {"weight": 1.0}), (1, 0)]), "1 -> 0 has no weight"),
            (nx.DiGraph(), "rank"),
        ],
    )
    def test_what_is_refused(self, digraph: Any, text: str) -> None:
        with pytest.raises(weft.InvalidArgument, match=text):
            topology.from_networkx(digraph)


def take(steps: Iterator[Step], count: int) -> List[Step]:
    return list(itertools.islice(steps, count))


@pytest.mark.parametrize("n", [2, 4, 6, 12])
def test_dynamic_one_peer(n: int) -> None:
    """Out-neighbors in turn, clockwise; from whoever's turn points here."""
    for digraph in (topology.ExponentialTwoGraph(n), topology.MeshGrid2DGraph(n)):
        turns = [
            sorted(set(digraph.successors(rank)) - {rank}, key=lambda r, of=rank: (r - of) % n)
            for rank in range(n)
        ]
        for rank in range(n):
            steps = take(topology.GetDynamicOnePeerSendRecvRanks(digraph, rank), 2 * n)
            for k, (sends, receives) in enumerate(steps):
                assert sends == [turns[rank][k % len(turns[rank])]]
                assert receives == [
                    other
                    for other in range(n)
                    if other != rank and turns[other][k % len(turns[other])] == rank
                ]


@pytest.mark.parametrize("machines, local", [(2, 1), (4, 2), (5, 3), (8, 2)])
def test_exponential_machines(machines: int, local: int) -> None:
    cycle = int(math.log2(machines - 1)) + 1
    for rank in range(machines * local):
        steps = topology.GetExp2DynamicSendRecvMachineRanks(
            machines * local, local, rank, rank % local
        )
        for k, (sends, receives) in enumerate(take(steps, 12)):
            hop = 2 ** (k % cycle)
            machine = rank // local
            assert sends == [(machine + hop) % machines]
            assert receives == [(machine - hop) % machines]


def inner_outer_target(rank: int, k: int, machines: int, local: int, exponential: bool) -> int:
    """Where a rank sends, as BlueFog defines it."""
    machine, place = divmod(rank, local)
    outside = k % local
    if place == outside:
        cycle = int(math.log2(machines - 1)) + 1 if machines > 1 else 1
        hop = 2 ** (k % cycle) if exponential else 1
        return (machine + hop) % machines * local + place
    if not exponential:
        target = (place + 1) % local
        return machine * local + ((target + 1) % local if target == outside else target)
    hop = 2 ** (k % (int(math.log2(local - 2)) + 1))
    if hop >= (outside - place) % local:
        hop += 1
    return machine * local + (place + hop) % local


@pytest.mark.parametrize("machines, local", [(2, 3), (3, 4), (4, 5)])
@pytest.mark.parametrize("exponential", [False, True])
def test_inner_outer(machines: int, local: int, exponential: bool) -> None:
    n = machines * local
    make = (
        topology.GetInnerOuterExpo2DynamicSendRecvRanks
        if exponential
        else topology.GetInnerOuterRingDynamicSendRecvRanks
    )
    all_steps = [take(make(n, local, rank), 20) for rank in range(n)]
    for k in range(20):
        targets = [inner_outer_target(r, k, machines, local, exponential) for r in range(n)]
        assert [all_steps[r][k][0] for r in range(n)] == [[target] for target in targets]
        for rank in range(n):
            expected = [r for r in range(n) if targets[r] == rank]
            assert all_steps[rank][k][1] == expected


def test_wrong_arguments_of_the_generators() -> None:
    with pytest.raises(weft.InvalidArgument, match="7"):
        topology.GetDynamicOnePeerSendRecvRanks(topology.RingGraph(4), 7)
    with pytest.raises(weft.InvalidArgument, match="machines"):
        topology.GetInnerOuterRingDynamicSendRecvRanks(10, 4, 0)
    with pytest.raises(weft.InvalidArgument):
        topology.GetInnerOuterRingDynamicSendRecvRanks(4, 2, 0)
    with pytest.raises(weft.InvalidArgument, match="local rank"):
        topology.GetExp2DynamicSendRecvMachineRanks(8, 2, 3, 0)


def test_schedules_both_ways() -> None:
    schedule = weft.one_peer_exponential(8)
    digraphs = topology.schedule_to_networkx(schedule)
    assert len(digraphs) == schedule.period == 3
    back = topology.schedule_from_networkx(digraphs)
    for step, rank in itertools.product(range(7), range(8)):
        assert back.local_view(step, rank) == schedule.local_view(step, rank)
    product = np.linalg.multi_dot([matrix(each) for each in digraphs])
    np.testing.assert_allclose(product, np.full((8, 8), 1 / 8))
    with pytest.raises(weft.InvalidArgument):
        topology.schedule_from_networkx([])
    with pytest.raises(weft.InvalidArgument, match="same size"):
        topology.schedule_from_networkx([topology.RingGraph(3), topology.RingGraph(4)])


def test_without_networkx_the_error_says_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match="pip install networkx"):
        topology.RingGraph(4)
