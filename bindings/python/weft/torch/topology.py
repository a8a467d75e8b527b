"""The graph of neighbor operations and that of machines, as networkx digraphs.

The edge j -> i lets i use what j sends, and carries as "weight" the factor that i applies.
weft.topology makes such digraphs.
"""

from __future__ import annotations

import warnings
from typing import Any, Dict, List, Tuple, Union

import torch

from weft import _core
from weft import topology as graphs
from weft.torch import _job
from weft.torch._weights import ranks as checked_ranks
from weft._errors import InvalidArgument

Matrix = Any  # numpy.ndarray


def set_topology(topology: Any = None, is_weighted: bool = False) -> bool:
    """Sets the graph of neighbor operations. Collective: all ranks give the same graph.

    Waits for operations in flight. Setting the graph that is set has no effect.

    Args:
        topology: a networkx.DiGraph with the nodes 0 ... size()-1; None: the exponential graph.
        is_weighted: whether neighbor operations use its weights; else 1/(in-neighbors + 1).

    Returns:
        Whether the graph is set. False, with a warning: windows exist, and the graph stays as it was,
        since it says which slots they have.

    Raises:
        TypeError: it is no digraph, or has another number of nodes.
        InvalidArgument: the nodes are not numbers of ranks, or only some edges have weights.
    """
    job = _job.current()
    size = job.context.size
    graph = _checked(topology, size, "size()") if topology is not None else _default(size)
    if job.is_weighted is not bool(is_weighted) or job.context.graph != graph:
        windows = job.context.window_names()
        if windows:
            warnings.warn(
                f"set_topology: the graph stays as it is while windows exist: {', '.join(windows)}",
                stacklevel=2,
            )
            return False
        job.set_graph(graph, bool(is_weighted))
    job.topology = topology
    return True


def load_topology() -> Any:
    """The networkx.DiGraph of neighbor operations."""
    job = _job.current()
    if job.topology is None:
        job.topology = graphs.to_networkx(job.context.graph)
    return job.topology


def is_topo_weighted() -> bool:
    """Whether neighbor operations use the weights of the graph."""
    return bool(_job.current().is_weighted)


def set_machine_topology(topology: Any, is_weighted: bool = False) -> bool:
    """Sets the graph of hierarchical operations. Collective: all ranks give the same graph.

    Args:
        topology: a networkx.DiGraph with the nodes 0 ... machine_size()-1.
        is_weighted: whether hierarchical operations use its weights; else 1/(in-neighbors + 1).

    Returns:
        True.

    Raises:
        TypeError: it is no digraph, or has another number of nodes.
        InvalidArgument: topology is None, or as set_topology().
    """
    if topology is None:
        raise InvalidArgument("set_machine_topology: there is no default graph of machines")
    job = _job.current()
    graph = _checked(topology, job.context.machine_size, "machine_size()")
    is_weighted = bool(is_weighted)
    before = job.context.machine_graph
    if before is None or before != graph or job.is_machine_weighted is not is_weighted:
        job.set_machine_graph(graph, is_weighted)
    job.machine_topology = topology
    return True


def load_machine_topology() -> Any:
    """The networkx.DiGraph of machines, or None if none was set."""
    return _job.current().machine_topology


def is_machine_topo_weighted() -> bool:
    """Whether hierarchical operations use the weights of the graph of machines."""
    return _job.current().is_machine_weighted


def in_neighbor_ranks() -> List[int]:
    """The ranks that send to this one, ascending, without itself."""
    context = _job.context()
    return [peer.rank for peer in context.graph.in_edges(context.rank)]


def out_neighbor_ranks() -> List[int]:
    """The ranks to which this one sends, ascending, without itself."""
    context = _job.context()
    return [peer.rank for peer in context.graph.out_edges(context.rank)]


def in_neighbor_machine_ranks() -> List[int]:
    """The machines that send to this one, ascending; none if no graph of machines was set."""
    context = _job.context()
    graph = context.machine_graph
    return [] if graph is None else [peer.rank for peer in graph.in_edges(context.machine_rank)]


def out_neighbor_machine_ranks() -> List[int]:
    """The machines to which this one sends, ascending; none if no graph of machines was set."""
    context = _job.context()
    graph = context.machine_graph
    return [] if graph is None else [peer.rank for peer in graph.out_edges(context.machine_rank)]


def InferSourceFromDestinationRanks(
    dst_ranks: List[int], construct_adjacency_matrix: bool = False
) -> Union[List[int], Tuple[List[int], Matrix]]:
    """The ranks that have this rank in their dst_ranks, ascending. Collective.

    With construct_adjacency_matrix also a NumPy matrix: entry (j, i) is the weight that i applies
    to what j sends, 1/(in-neighbors of i + 1); so each column sums to 1.
    """
    return _inferred("dst_ranks", dst_ranks, construct_adjacency_matrix)


def InferDestinationFromSourceRanks(
    src_ranks: List[int], construct_adjacency_matrix: bool = False
) -> Union[List[int], Tuple[List[int], Matrix]]:
    """The ranks that have this rank in their src_ranks, ascending. Collective.

    With construct_adjacency_matrix also the matrix of InferSourceFromDestinationRanks().
    """
    return _inferred("src_ranks", src_ranks, construct_adjacency_matrix)


def _inferred(
    name: str, given: List[int], with_matrix: bool
) -> Union[List[int], Tuple[List[int], Matrix]]:
    context = _job.context()
    size, rank = context.size, context.rank
    mine = checked_ranks("infer ranks", name, given)
    for each in mine:
        if not 0 <= each < size or each == rank:
            raise InvalidArgument(
                f"{name}={mine} has {each}, which is no other rank among 0 to {size - 1}"
            )
    row = torch.zeros(size, dtype=torch.int64)
    row[mine] = 1
    named = context.allgather(row).view(size, size)  # row r: the ranks that r has named
    inferred: List[int] = named[:, rank].nonzero().flatten().tolist()
    if not with_matrix:
        return inferred
    edges = (named if name == "dst_ranks" else named.t()) + torch.eye(size, dtype=torch.int64)
    matrix = edges.double()
    return inferred, (matrix / matrix.sum(0)).numpy()


_defaults: Dict[int, _core.Graph] = {}


def _default(size: int) -> _core.Graph:
    if size not in _defaults:
        _defaults[size] = _core.exponential_graph(size, 2)
    return _defaults[size]


def _checked(topology: Any, nodes: int, called: str) -> _core.Graph:
    import networkx

    if not isinstance(topology, networkx.DiGraph):
        raise TypeError(
            f"the topology has to be a networkx.DiGraph, not {type(topology).__name__}"
        )
    if topology.number_of_nodes() != nodes:
        raise TypeError(
            f"the topology has {topology.number_of_nodes()} nodes; {called} is {nodes}"
        )
    return graphs.from_networkx(topology)
