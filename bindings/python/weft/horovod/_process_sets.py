"""Process sets: ranks that run operations among themselves."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Union

import numpy as np

from weft._errors import InvalidArgument
from weft.horovod._teams import GLOBAL, Job, Team, current, found


def ranks_of(ranks_or_comm: Any) -> List[int]:
    """Ranks in ascending order, of a sequence or of a communicator of mpi4py."""
    if hasattr(ranks_or_comm, "Get_group"):
        from mpi4py import MPI

        world = MPI.COMM_WORLD.Get_group()
        return sorted(MPI.Group.Translate_ranks(ranks_or_comm.Get_group(), None, world))
    try:
        ranks = sorted(ranks_or_comm)
    except TypeError:
        ranks = [None]
    if any(not isinstance(each, int) for each in ranks):
        raise ValueError(f"a process set has ranks or a communicator of mpi4py, not {ranks_or_comm!r}")
    if len(set(ranks)) != len(ranks):
        raise ValueError(f"the process set {ranks} has a rank twice")
    return ranks


class ProcessSet:
    """Some ranks. An operation that gets the set as `process_set` is one of these ranks alone.

    It is usable after init() or add_process_set() was called with it on all ranks of the job.

    Attributes:
        process_set_id: the number of the set, the same on all ranks; None: it is not usable.
        ranks: the ranks in it, ascending.
        mpi_comm: the communicator of which it was made, or None.
    """

    process_set_id: Optional[int] = None
    ranks: Optional[List[int]] = None
    mpi_comm: Any = None

    def __init__(self, ranks_or_comm: Any) -> None:
        """ranks_or_comm: ranks, or a communicator of mpi4py in a job that mpirun has started."""
        if hasattr(ranks_or_comm, "Get_group"):
            self.mpi_comm = ranks_or_comm
            self.ranks = ranks_of(ranks_or_comm)
        else:
            self.ranks = ranks_of(ranks_or_comm)

    def included(self) -> Optional[bool]:
        """Whether this rank belongs to the set."""
        return None if self.ranks is None else current().context.rank in self.ranks

    def size(self) -> Optional[int]:
        """How many ranks belong to the set; None if it is not usable."""
        if self.process_set_id is None:
            return None
        return len(_ranks(self.process_set_id))

    def rank(self) -> Optional[int]:
        """The number of this rank in the set; None if the set is not usable.

        Roots of operations are not given by it, but by the rank in the job.
        """
        return None if self.process_set_id is None else team_of(self).rank

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"

    __repr__ = __str__


global_process_set = ProcessSet([])
global_process_set.process_set_id = GLOBAL


def team_of(process_set: Optional[ProcessSet]) -> Team:
    """The team that runs the operations of a set, to which this rank belongs. None: all ranks."""
    job = current()
    number = GLOBAL if process_set is None else process_set.process_set_id
    if number is None:
        raise InvalidArgument(f"{process_set} is not usable; give it to init() or add_process_set()")
    team = job.teams.get(number)
    if team is None:
        raise InvalidArgument(f"rank {job.context.rank} is not in {_ranks(number)} of {process_set}")
    return team


def process_set_ids() -> List[int]:
    """The numbers of all process sets, ascending."""
    return sorted(current().ranks)


def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Makes a process set usable, and returns it. All ranks of the job call it, with the same ranks.

    Raises ValueError if there is a process set of these ranks.
    """
    made = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    assert made.ranks is not None
    job = current()
    lists = _lists(job, made.ranks)
    if any(job.find(each) is not None for each in lists):
        raise ValueError(f"there is a process set of these ranks already: {made}")
    for each in lists:
        job.add(each)
    made.process_set_id = job.find(made.ranks)
    return made


def remove_process_set(process_set: ProcessSet) -> bool:
    """Ends a process set, of which no operation may be pending. All ranks of the job call it.

    Returns False, and has no effect, for a set that is not usable and for that of all ranks.
    """
    number = process_set.process_set_id
    if number is None or number == GLOBAL:
        return False
    process_set.process_set_id = None
    job = current()
    if number not in job.ranks:
        return False
    job.remove(number)
    return True


def make_usable(process_sets: Sequence[ProcessSet]) -> None:
    """Makes the sets of init() usable. Those that there are already keep their numbers.

    Raises ValueError if two have the same ranks, after the others were made usable.
    """
    job = current()
    global_process_set.ranks = job.ranks[GLOBAL]
    seen = {GLOBAL}
    for each in process_sets:
        assert each.ranks is not None
        for ranks in _lists(job, each.ranks):
            if job.find(ranks) is None:
                job.add(ranks)
        number = job.find(each.ranks)
        each.process_set_id = None if number in seen else number
        seen.add(GLOBAL if number is None else number)
    for place, each in enumerate(process_sets):
        if each.process_set_id is None:
            raise ValueError(f"process_sets[{place}] has the ranks of another set: {each}")


def _ranks(number: int) -> List[int]:
    job = found()
    if job is None or number not in job.ranks:
        raise InvalidArgument(f"there is no process set {number}; it was removed or is of another job")
    return job.ranks[number]


def _lists(job: Job, ranks: List[int]) -> List[List[int]]:
    """The different lists that the ranks have given, by the lowest rank that has given each.

    Ranks may give different ones, as the communicators that MPI_Comm_split makes. But the ranks of a
    list have to agree. Collective.
    """
    size = job.context.size
    outside = [each for each in ranks if not 0 <= each < size]
    mine = np.zeros((1, size), np.uint8)
    mine[0, [each for each in ranks if each not in outside]] = 1
    table = job.context.allgather(mine)
    if outside:
        raise InvalidArgument(f"the process set {ranks} has ranks that a job of {size} lacks")
    lists = {tuple(np.flatnonzero(row).tolist()): None for row in table}
    for each in lists:
        for rank in each:
            given = np.flatnonzero(table[rank]).tolist()
            if given != list(each):
                raise InvalidArgument(f"rank {rank} gave the process set {given}, others {list(each)}")
    return [list(each) for each in lists]
