"""Weft: neighbor and global collectives for NumPy arrays, torch tensors, and other arrays.

    import numpy as np
    import weft

    ctx = weft.init()                       # under `weft run -n 4 -- python program.py`
    x = np.full(4, float(ctx.rank))
    for _ in range(20):
        x = ctx.neighbor_allreduce(x)       # averages with the neighbors on the graph

weft.Context has the operations, weft.topology graphs and schedules as networkx digraphs, and
weft.torch BlueFog's functions, optimizers, and the backend of torch.distributed.
"""

from __future__ import annotations

import atexit as _atexit

try:
    from weft import _core
except ImportError as _error:
    # From 3.13 on Python refuses before Weft can, in words of its own.
    if "in subinterpreters" in str(_error):
        raise ImportError(
            "weft works in the main interpreter alone, and this is a subinterpreter"
        ) from None
    raise

from weft._errors import (
    Closed,
    Corrupted,
    Error,
    Exhausted,
    InvalidArgument,
    Mismatch,
    NoPermission,
    OperatingSystem,
    PeerDied,
    PeerLeft,
    TimedOut,
    Unavailable,
)
from weft._core import (
    AllreduceAlgorithm,
    Bits,
    Collective,
    Compression,
    Config,
    DataType,
    Digests,
    Edge,
    ErrorFeedback,
    PrivatePath,
    GpuReduce,
    Graph,
    Handle,
    HugePageUse,
    Launcher,
    LocalView,
    LogLevel,
    Memory,
    NcclUse,
    OnDeath,
    Peer,
    Prepared,
    ProgressMode,
    RailChoice,
    ReduceOp,
    Schedule,
    ServedBy,
    Store,
    Transports,
    bcube_graph,
    bundle_layers,
    close_all as _close_all,
    describe,
    erdos_renyi_graph,
    exponential_graph,
    flight,
    fully_connected_graph,
    grid_graph,
    heap_usage,
    hypercube_graph,
    inner_outer_exponential,
    inner_outer_ring,
    is_column_stochastic,
    is_doubly_stochastic,
    is_regular,
    is_row_stochastic,
    is_strongly_connected,
    is_undirected,
    machine_exponential,
    make_graph,
    make_local_stores,
    make_schedule,
    metrics,
    max_in_degree,
    max_out_degree,
    one_peer,
    one_peer_exponential,
    open_store,
    random_regular_graph,
    reweighted,
    ring_graph,
    sigma2,
    size_of,
    star_graph,
    strategy_names,
    symmetric_exponential_graph,
    torus_graph,
    tree_graph,
    two_peer_exponential,
    undirected_one_peer,
    version,
    without,
)
from weft._algorithms import AdPsgd, BoundedStaleness, DPsgd, PartialAllreduce, PushSum
from weft._context import Context
from weft._default import context, init, is_initialized, shutdown
from weft._gradient_exchange import EndedIteration, GradientExchange
from weft._memory import empty, from_numpy, zeros
from weft._named import Named
from weft._strategies import Strategy
from weft._window import Window

__version__ = version()
__all__ = [
    "AdPsgd",
    "AllreduceAlgorithm",
    "bcube_graph",
    "Bits",
    "BoundedStaleness",
    "bundle_layers",
    "Closed",
    "Collective",
    "Compression",
    "Config",
    "Context",
    "context",
    "Corrupted",
    "DataType",
    "describe",
    "Digests",
    "DPsgd",
    "Edge",
    "empty",
    "EndedIteration",
    "erdos_renyi_graph",
    "Error",
    "ErrorFeedback",
    "Exhausted",
    "exponential_graph",
    "PrivatePath",
    "GpuReduce",
    "OnDeath",
    "flight",
    "from_numpy",
    "fully_connected_graph",
    "GradientExchange",
    "Graph",
    "grid_graph",
    "Handle",
    "heap_usage",
    "HugePageUse",
    "hypercube_graph",
    "init",
    "inner_outer_exponential",
    "inner_outer_ring",
    "InvalidArgument",
    "is_column_stochastic",
    "is_doubly_stochastic",
    "is_initialized",
    "is_regular",
    "is_row_stochastic",
    "is_strongly_connected",
    "is_undirected",
    "Launcher",
    "LocalView",
    "LogLevel",
    "machine_exponential",
    "make_graph",
    "make_local_stores",
    "make_schedule",
    "metrics",
    "max_in_degree",
    "max_out_degree",
    "Memory",
    "Mismatch",
    "Named",
    "NcclUse",
    "NoPermission",
    "one_peer",
    "one_peer_exponential",
    "open_store",
    "OperatingSystem",
    "PartialAllreduce",
    "Peer",
    "PeerDied",
    "PeerLeft",
    "Prepared",
    "ProgressMode",
    "PushSum",
    "RailChoice",
    "random_regular_graph",
    "ReduceOp",
    "reweighted",
    "ring_graph",
    "Schedule",
    "ServedBy",
    "shutdown",
    "sigma2",
    "size_of",
    "star_graph",
    "Store",
    "Strategy",
    "strategy_names",
    "symmetric_exponential_graph",
    "TimedOut",
    "torus_graph",
    "Transports",
    "tree_graph",
    "two_peer_exponential",
    "Unavailable",
    "undirected_one_peer",
    "version",
    "Window",
    "without",
    "zeros",
]

# Open contexts are closed while the interpreter is whole: their threads may need it.
_atexit.register(_close_all)
