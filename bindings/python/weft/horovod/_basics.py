"""Joining and leaving the job, and what a rank knows of it."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Union

from weft import _default
from weft._context import Context
from weft._errors import InvalidArgument
from weft._named import Named
from weft.horovod import _handles, _teams, _timeline
from weft.horovod._process_sets import ProcessSet, global_process_set, make_usable, ranks_of
from weft.horovod._process_sets import team_of
from weft.horovod._teams import current, everybody


def init(
    comm: Any = None,
    process_sets: Union[None, str, Sequence[ProcessSet]] = None,
    **options: Any,
) -> None:
    """Joins the job that the environment names. Collective. Calling it again adds process sets.

    Args:
        comm: the ranks of a job that is a part of the one that the environment names, in their new
            order, or a communicator of mpi4py; None: all. Ranks that are to be in different parts
            call this at the same time.
        process_sets: sets to make usable. "dynamic" is Horovod's word for sets that are added later.
        options: those of weft.Context.named(), for example fusion_bytes.
    """
    if _teams.found() is None:
        whole = _default.init()
        _teams.replace(_teams.Job(whole, _part(whole, comm), options))
        global_process_set.mpi_comm = comm if hasattr(comm, "Get_group") else None
    make_usable([] if process_sets is None or isinstance(process_sets, str) else process_sets)


def _part(whole: Context, comm: Any) -> Context:
    """The context of some ranks of the whole one."""
    ranks = [] if comm is None else ranks_of(comm) if hasattr(comm, "Get_group") else list(comm)
    if ranks in ([], list(range(whole.size))):
        return whole
    if whole.rank not in ranks:
        raise InvalidArgument(f"rank {whole.rank} is not among the ranks {ranks} that it gave to init()")
    part = whole.split(min(ranks), ranks.index(whole.rank))
    assert part is not None
    return part


def shutdown() -> None:
    """Leaves the job. Without a job: no effect."""
    job = _teams.replace(None)
    if job is None:
        return
    try:
        _timeline.end()
    finally:  # also if its file cannot be written
        _handles.clear()
        job.close()
        if _default.is_initialized() and _default.context() is job.whole:
            _default.shutdown()


def is_initialized() -> bool:
    """Whether init() was called, and the job has not been left."""
    return _teams.found() is not None


def rank() -> int:
    """The number of this process, 0 ... size()-1."""
    return current().context.rank


def size() -> int:
    """The number of processes of the job."""
    return current().context.size


def local_rank() -> int:
    """The number of this process among those of its machine."""
    return current().context.local_rank


def local_size() -> int:
    """The number of processes of this machine."""
    return current().context.local_size


def cross_rank() -> int:
    """The number of this machine."""
    return current().context.machine_rank


def cross_size() -> int:
    """The number of machines."""
    return current().context.machine_size


def is_homogeneous() -> bool:
    """Whether all machines have the same number of processes."""
    return current().context.is_homogeneous


def named() -> Named:
    """The operations by name of all ranks, which the functions of this module use."""
    return everybody().named


def join(device: int = -1) -> int:
    """This rank is out of data, and gives zeros until all have joined. Returns the last one.

    device: the GPU on which Horovod makes zeros. Weft makes none.
    """
    return everybody().join()


def barrier(process_set: Optional[ProcessSet] = None) -> None:
    """Waits until all ranks of the set are in the barrier."""
    team_of(process_set).by_name("barrier").barrier()


def start_timeline(file_path: str, mark_cycles: bool = False) -> None:
    """Begins to record this rank's operations, from the submission of each to its end.

    Args:
        file_path: of this rank, with "{rank}" in it for its number. Without that only rank 0 records.
        mark_cycles: Horovod's. A cycle of Weft begins when there is something new.
    """
    mine = current().context.rank
    if mine == 0 or "{rank}" in file_path:
        _timeline.begin(file_path.replace("{rank}", str(mine)))


def stop_timeline() -> None:
    """Writes the file of the timeline, in the format of Chrome's tracing."""
    current()
    _timeline.end()


# Programs ask what Horovod was built with, to choose between devices and types.


def nccl_built() -> int:
    """0: Weft finds NCCL when it runs (weft config)."""
    return 0


def _no() -> bool:
    """False: Weft is neither MPI, Gloo nor another library of Horovod's."""
    return False


mpi_built = mpi_enabled = mpi_threads_supported = gloo_built = gloo_enabled = _no
cuda_built = rocm_built = ddl_built = ccl_built = _no
