"""Graphs and schedules as networkx digraphs, with BlueFog's names beside Weft's.

The edge j -> i carries as "weight" w_ij, which i applies to what j sent. The weight of a rank's own
data is its self loop. So row j of the adjacency matrix, with the diagonal, is what j sends.

The functions with BlueFog's names return digraphs. weft.exponential_graph() and its siblings return
weft.Graph, which needs no networkx. networkx is imported when a digraph is made or read.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from weft import _core
from weft._core import Graph, LocalView, Schedule
from weft._errors import InvalidArgument

Ranks = List[int]
Weights = Dict[int, float]


def _networkx() -> Any:
    try:
        import networkx
    except ImportError:
        raise ImportError(
            "weft.topology needs networkx for digraphs: pip install networkx"
        ) from None
    return networkx


def to_networkx(graph: Graph) -> Any:
    """The networkx.DiGraph of a graph, with self loops for the self weights that are not 0."""
    digraph = _networkx().DiGraph(name=graph.name)
    digraph.add_nodes_from(range(graph.size))
    for edge in graph.edges():
        digraph.add_edge(edge.source, edge.target, weight=edge.weight)
    for rank, weight in enumerate(graph.self_weights):
        if weight != 0:
            digraph.add_edge(rank, rank, weight=weight)
    return digraph


def from_networkx(digraph: Any, name: Optional[str] = None) -> Graph:
    """The graph of a networkx graph whose nodes are 0 ... n-1.

    Weights are the edges' attribute "weight"; without any, they are uniform: 1/(in-neighbors + 1).
    A self weight is the weight of the self loop, else the node's attribute "self_weight", else 0.
    An undirected graph has each edge both ways. Raises InvalidArgument for other nodes, for several
    edges between two nodes, and for an edge without weight among others with weight.
    """
    n = digraph.number_of_nodes()
    if set(digraph.nodes) != set(range(n)):
        raise InvalidArgument(f"from_networkx: the nodes of {digraph} are not 0 ... {n - 1}")
    if digraph.is_multigraph():
        raise InvalidArgument(f"from_networkx: {digraph} may have several edges between two nodes")
    given = digraph if digraph.is_directed() else digraph.to_directed()
    label = name or str(given.graph.get("name") or "networkx")
    weights = [(source, target, weight) for source, target, weight in given.edges(data="weight")]
    if all(weight is None for _, _, weight in weights):
        edges = [(source, target, 1.0) for source, target, _ in weights if source != target]
        return _core.reweighted(Graph.from_edges(n, edges, [1.0] * n, label), "uniform")
    self_weights = [float(given.nodes[rank].get("self_weight", 0.0)) for rank in range(n)]
    edges = []
    for source, target, weight in weights:
        if weight is None:
            raise InvalidArgument(f"from_networkx: the edge {source} -> {target} has no weight")
        if source == target:
            self_weights[source] = float(weight)
        else:
            edges.append((source, target, float(weight)))
    return Graph.from_edges(n, edges, self_weights, label)


def schedule_to_networkx(schedule: Schedule, steps: Optional[int] = None) -> List[Any]:
    """The digraphs of the schedule's steps: the first `steps`, or those of one period."""
    count = schedule.period if steps is None else steps
    return [to_networkx(schedule.step_graph(step)) for step in range(count)]


def schedule_from_networkx(digraphs: Sequence[Any], name: str = "networkx") -> Schedule:
    """The schedule whose step k has digraph number k mod len(digraphs)."""
    return Schedule.from_graphs([from_networkx(each) for each in digraphs], name)


def ExponentialTwoGraph(size: int) -> Any:
    """j -> j + d mod size, for every power d of two below size; uniform weights."""
    return to_networkx(_core.exponential_graph(size, 2))


def isPowerOf(x: int, base: int) -> bool:
    """Whether x is base to the power of a whole number. Both are whole numbers, and base is above 1."""
    if x < 1 or base < 2:
        raise InvalidArgument(f"isPowerOf({x}, {base}): x must be at least 1, and base at least 2")
    while x % base == 0:
        x //= base
    return x == 1


def ExponentialGraph(size: int, base: int = 2) -> Any:
    """j -> j + d mod size, for every power d of base below size; uniform weights."""
    return to_networkx(_core.exponential_graph(size, base))


def SymmetricExponentialGraph(size: int, base: int = 4) -> Any:
    """j -> j + d mod size, where d up to size/2, else size - d, is a power of base."""
    return to_networkx(_core.symmetric_exponential_graph(size, base))


def MeshGrid2DGraph(size: int, shape: Optional[Tuple[int, int]] = None) -> Any:
    """Up to four neighbors on a grid of (rows, columns); Metropolis-Hastings weights."""
    return to_networkx(_core.grid_graph(size, shape))


def StarGraph(size: int, center_rank: int = 0) -> Any:
    """Edges between the center and every other rank; doubly stochastic weights."""
    return to_networkx(_core.star_graph(size, center_rank))


def RingGraph(size: int, connect_style: int = 0) -> Any:
    """connect_style 0: both sides, 1: to the previous rank, 2: to the next rank; uniform weights."""
    return to_networkx(_core.ring_graph(size, connect_style))


def FullyConnectedGraph(size: int) -> Any:
    """Every rank with every other; weights 1/size."""
    return to_networkx(_core.fully_connected_graph(size))


def IsTopologyEquivalent(topo1: Any, topo2: Any) -> bool:
    """Whether two digraphs have the same nodes, edges and weights."""
    if topo1 is None or topo2 is None:
        return False
    if topo1.number_of_nodes() != topo2.number_of_nodes():
        return False
    return _edges_of(topo1) == _edges_of(topo2)


def IsRegularGraph(topo: Any) -> bool:
    """Whether all ranks have the same number of edges."""
    return len({degree for _, degree in topo.degree()}) <= 1


def GetRecvWeights(topo: Any, rank: int) -> Tuple[float, Weights]:
    """The self weight of `rank`, and {in-neighbor: weight}."""
    weights = {source: _weight(topo, source, rank) for source in topo.predecessors(rank)}
    return weights.pop(rank, 0.0), weights


def GetSendWeights(topo: Any, rank: int) -> Tuple[float, Weights]:
    """The self weight of `rank`, and {out-neighbor: weight}."""
    weights = {target: _weight(topo, rank, target) for target in topo.successors(rank)}
    return weights.pop(rank, 0.0), weights


def GetDynamicOnePeerSendRecvRanks(
    topo: Any, self_rank: int
) -> Iterator[Tuple[Ranks, Ranks]]:
    """Step by step the ranks to send to and to receive from: one out-neighbor after another."""
    return _steps(_core.one_peer(from_networkx(topo)), self_rank)


def GetExp2DynamicSendRecvMachineRanks(
    world_size: int, local_size: int, self_rank: int, local_rank: int
) -> Iterator[Tuple[Ranks, Ranks]]:
    """Step by step the machines to send to and to receive from, at distances 1, 2, 4, ..."""
    machines = _machines(world_size, local_size)
    if not 0 <= self_rank < world_size or self_rank % local_size != local_rank:
        raise InvalidArgument(
            f"rank {self_rank} of {world_size} is not local rank {local_rank} of {local_size}"
        )
    return _steps(_core.machine_exponential(machines), self_rank // local_size)


def GetInnerOuterRingDynamicSendRecvRanks(
    world_size: int, local_size: int, self_rank: int
) -> Iterator[Tuple[Ranks, Ranks]]:
    """Step by step the ranks to send to and to receive from: rings inside and between machines."""
    machines = _machines(world_size, local_size)
    return _steps(_core.inner_outer_ring(machines, local_size), self_rank)


def GetInnerOuterExpo2DynamicSendRecvRanks(
    world_size: int, local_size: int, self_rank: int
) -> Iterator[Tuple[Ranks, Ranks]]:
    """As the ring form, at distances 1, 2, 4, ... inside and between machines."""
    machines = _machines(world_size, local_size)
    return _steps(_core.inner_outer_exponential(machines, local_size), self_rank)


def _machines(world_size: int, local_size: int) -> int:
    if local_size < 1 or world_size < 1 or world_size % local_size != 0:
        raise InvalidArgument(f"{world_size} ranks are not machines of {local_size} ranks each")
    return world_size // local_size


def _steps(schedule: Schedule, rank: int) -> Iterator[Tuple[Ranks, Ranks]]:
    schedule.local_view(0, rank)  # a wrong rank is an error here, not at the first step
    return _endless_steps(schedule, rank)


def _endless_steps(schedule: Schedule, rank: int) -> Iterator[Tuple[Ranks, Ranks]]:
    step = 0
    while True:
        view: LocalView = schedule.local_view(step, rank)
        yield [peer.rank for peer in view.out_peers], [peer.rank for peer in view.in_peers]
        step += 1


def _weight(topo: Any, source: int, target: int) -> float:
    return float(topo[source][target].get("weight", 1.0))


def _edges_of(topo: Any) -> Dict[Tuple[int, int], float]:
    edges = {(source, target): _weight(topo, source, target) for source, target in topo.edges}
    return {edge: weight for edge, weight in edges.items() if weight != 0}
