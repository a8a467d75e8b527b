"""The functions of horovod.torch, over operations by name: a program that imports Horovod runs with

    import weft.horovod as hvd

Tensors are submitted by name, in any order on each rank; ranks agree by a response cache and a
vector of bits, small tensors are fused, and groups run whole (weft.Named). Tensors are those of
PyTorch, on the CPU or on CUDA. Without a job in the environment (weft run, mpirun, torchrun, ...)
the rank is alone.

Errors are those of Weft, and of one class: HorovodInternalError is weft.Error. docs/horovod.md has a
table of all names, and what differs from Horovod.
"""

from __future__ import annotations

from weft._errors import Error as HorovodInternalError
from weft.horovod import elastic
from weft.horovod._adasum import Adasum
from weft.horovod._allgather import (
    allgather,
    allgather_async,
    grouped_allgather,
    grouped_allgather_async,
)
from weft.horovod._allreduce import (
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
)
from weft.horovod._alltoall import alltoall, alltoall_async
from weft.horovod._basics import (
    barrier,
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    join,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    named,
    nccl_built,
    rank,
    rocm_built,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from weft.horovod._broadcast import broadcast, broadcast_, broadcast_async, broadcast_async_
from weft.horovod._compression import Compression
from weft.horovod._handles import poll, synchronize
from weft.horovod._objects import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from weft.horovod._optimizer import DistributedOptimizer
from weft.horovod._process_sets import (
    ProcessSet,
    add_process_set,
    global_process_set,
    process_set_ids,
    remove_process_set,
)
from weft.horovod._reducescatter import (
    grouped_reducescatter,
    grouped_reducescatter_async,
    reducescatter,
    reducescatter_async,
)
from weft.horovod._reductions import Average, Max, Min, Product, Sum
from weft.horovod._sparse import sparse_allreduce_async
from weft.horovod._sync_batch_norm import SyncBatchNorm
from weft.horovod.elastic import HostsUpdatedInterrupt

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "DistributedOptimizer",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
    "SyncBatchNorm",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "global_process_set",
    "elastic",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "named",
    "nccl_built",
    "poll",
    "process_set_ids",
    "rank",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "sparse_allreduce_async",
    "start_timeline",
    "stop_timeline",
    "synchronize",
]
