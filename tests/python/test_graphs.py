"""Graphs and schedules of the core, without networkx."""

from __future__ import annotations

import pytest
import weft


def test_a_graph_of_edges() -> None:
    graph = weft.Graph.from_edges(3, [(0, 1, 0.5), (2, 1, 0.25)], [1.0, 0.25, 1.0], "mine")
    assert (graph.size, graph.edge_count, graph.name) == (3, 2, "mine")
    assert [(edge.source, edge.target, edge.weight) for edge in graph.edges()] == [
        (0, 1, 0.5),
        (2, 1, 0.25),
    ]
    assert [(peer.rank, peer.weight) for peer in graph.in_edges(1)] == [(0, 0.5), (2, 0.25)]
    assert [peer.rank for peer in graph.out_edges(2)] == [1]
    assert graph.weight(1, 0) == 0.5 and graph.weight(0, 1) == 0 and graph.self_weight(1) == 0.25
    view = graph.local_view(1)
    assert (view.rank, view.size, view.self_weight) == (1, 3, 0.25)
    assert [peer.rank for peer in view.in_peers] == [0, 2] and view.out_peers == []
    assert "mine" in repr(graph) and "mine" not in repr(graph.renamed("other"))


def test_a_graph_without_some_ranks() -> None:
    left = weft.without(weft.ring_graph(6), [4])
    assert left.weight(5, 3) == left.weight(3, 5) == pytest.approx(1 / 3)
    assert not left.in_edges(4) and left.self_weight(4) == 1
    with pytest.raises(weft.InvalidArgument, match="rank 6 is outside"):
        weft.without(left, [6])


def test_equality_is_that_of_edges_and_weights() -> None:
    ring = weft.ring_graph(4)
    assert ring == weft.make_graph("ring", 4) and ring == ring.renamed("x")
    assert ring != weft.ring_graph(5) and ring != "ring"
    assert hash(ring) == hash(ring.renamed("x")) and len({ring, weft.make_graph("ring", 4)}) == 1
    assert ring.edges()[0] in {weft.ring_graph(4).edges()[0]}


def test_a_graph_of_a_matrix() -> None:
    graph = weft.Graph.from_matrix(2, [0.5, 0.5, 0.0, 1.0])
    assert graph.weight(0, 1) == 0.5 and graph.weight(1, 0) == 0 and graph.self_weight(1) == 1


@pytest.mark.parametrize(
    "make",
    [
        lambda: weft.ring_graph(0),
        lambda: weft.ring_graph(4, 3),
        lambda: weft.ring_graph(1 << 30),
        lambda: weft.star_graph(4, 4),
        lambda: weft.hypercube_graph(6),
        lambda: weft.grid_graph(6, (4, 2)),
        lambda: weft.make_graph("rign", 4),
        lambda: weft.make_schedule("two peers", 4),
        lambda: weft.Graph.from_edges(2, [(0, 5, 1.0)], [1.0, 1.0]),
        lambda: weft.Graph.from_edges(2, [(0, 1, float("nan"))], [1.0, 1.0]),
        lambda: weft.Graph.from_edges(2, [], [1.0]),
        lambda: weft.Graph.from_matrix(2, [1.0]),
        lambda: weft.ring_graph(4).in_edges(4),
        lambda: weft.ring_graph(4).out_edges(-1),
        lambda: weft.ring_graph(4).local_view(9),
        lambda: weft.ring_graph(4).weight(0, 4),
        lambda: weft.ring_graph(4).self_weight(4),
        lambda: weft.reweighted(weft.ring_graph(4), "heavy"),
        lambda: weft.reweighted(weft.ring_graph(4, 1), "metropolis_hastings"),
        lambda: weft.inner_outer_ring(2, 2),
        lambda: weft.one_peer_exponential(4).local_view(0, 4),
    ],
)
def test_wrong_arguments(make: object) -> None:
    with pytest.raises(weft.InvalidArgument):
        make()  # type: ignore[operator]


def test_properties() -> None:
    ring, star = weft.ring_graph(6), weft.star_graph(6)
    assert weft.is_regular(ring) and not weft.is_regular(star)
    assert weft.is_doubly_stochastic(star) and weft.is_strongly_connected(star)
    assert weft.max_in_degree(star) == weft.max_out_degree(star) == 5
    assert not weft.is_undirected(weft.ring_graph(6, 1))
    pushed = weft.reweighted(star, "push_uniform")
    assert weft.is_column_stochastic(pushed) and not weft.is_row_stochastic(pushed)
    assert 0 < weft.sigma2(ring) < 1
    assert "ring" in weft.describe(ring)


def test_every_generator_gives_a_graph_whose_name_makes_it_again() -> None:
    graphs = [
        weft.exponential_graph(8, 4),
        weft.symmetric_exponential_graph(8),
        weft.grid_graph(8, (2, 4)),
        weft.star_graph(8, 3),
        weft.ring_graph(8, 2),
        weft.fully_connected_graph(8),
        weft.torus_graph([2, 4]),
        weft.hypercube_graph(8),
        weft.bcube_graph(2, 3),
        weft.tree_graph(8, 3),
        weft.random_regular_graph(8, 3, 5),
        weft.erdos_renyi_graph(8, 0.4, 5),
    ]
    for graph in graphs:
        assert weft.make_graph(graph.name, 8) == graph


def test_schedules() -> None:
    for schedule in (
        weft.one_peer(weft.ring_graph(6)),
        weft.one_peer_exponential(6),
        weft.two_peer_exponential(6),
        weft.undirected_one_peer(6),
        weft.machine_exponential(6),
        weft.inner_outer_ring(2, 3),
        weft.inner_outer_exponential(2, 3),
    ):
        assert schedule.size == 6 and schedule.cover <= schedule.period
        for step in range(schedule.cover):
            graph = schedule.step_graph(step)
            for rank in range(6):
                assert graph.local_view(rank) == schedule.local_view(step, rank)
        assert weft.is_strongly_connected(schedule.union_graph())
        assert schedule.name in repr(schedule)
