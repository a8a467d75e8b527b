"""The functions of horovod.torch, over operations by name: a program that imports Horovod runs with

    import weft.horovod as hvd

Tensors are submitted by name, in any order on each rank; ranks agree by a response cache and a
vector of bits, small tensors are fused, and groups run whole (weft.Named). Tensors are those of
PyTorch, on the CPU or on CUDA. Without a job in the environment (weft run, mpirun, torchrun, ...)
the rank is alone.

Errors are those of Weft, and of one class: HorovodInternalError is weft.Error. There is one process
set, that of all ranks. Adasum, elastic jobs and SyncBatchNorm are not there.
"""

from __future__ import annotations

from weft._errors import Error as HorovodInternalError
from weft.horovod._compression import Compression
from weft.horovod._exchanges import (
    allgather,
    allgather_async,
    alltoall,
    alltoall_async,
    grouped_allgather,
    reducescatter,
    reducescatter_async,
    sparse_allreduce_async,
)
from weft.horovod._objects import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from weft.horovod._ops import (
    Average,
    Max,
    Min,
    ProcessSet,
    Product,
    Sum,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    global_process_set,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
)
from weft.horovod._optimizer import DistributedOptimizer
from weft.horovod._state import (
    barrier,
    cross_rank,
    cross_size,
    init,
    is_homogeneous,
    is_initialized,
    join,
    local_rank,
    local_size,
    named,
    poll,
    rank,
    shutdown,
    size,
    synchronize,
)

# Programs ask what Horovod was built with, to choose between devices and types.


def nccl_built() -> int:
    """0: Weft finds NCCL when it runs (weft config)."""
    return 0


def _no() -> bool:
    """False: Weft is neither MPI, Gloo nor another library of Horovod's."""
    return False


mpi_built = mpi_enabled = mpi_threads_supported = gloo_built = gloo_enabled = _no
cuda_built = rocm_built = ddl_built = ccl_built = _no

__all__ = [
    "Average",
    "Compression",
    "DistributedOptimizer",
    "HorovodInternalError",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "Sum",
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
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
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
    "rank",
    "reducescatter",
    "reducescatter_async",
    "rocm_built",
    "shutdown",
    "size",
    "sparse_allreduce_async",
    "synchronize",
]
