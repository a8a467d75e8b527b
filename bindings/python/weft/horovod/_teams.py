"""The job of weft.horovod, and its teams: the ranks of each process set, with what they run on."""

from __future__ import annotations

import itertools
from typing import Any, Dict, List, Optional, Sequence

import torch

from weft._context import Context
from weft._core import Collective, Handle
from weft._errors import InvalidArgument
from weft._named import Name, Named
from weft._operations import Call, op_number
from weft.horovod import _timeline

_ALLREDUCE = int(Collective.allreduce)
GLOBAL = 0  # the number of the set of all ranks


class Team:
    """The ranks of a process set.

    They have a context and operations by name of their own, so a name of one set is never taken for
    that of another.
    """

    def __init__(self, ranks: List[int], context: Context, options: Dict[str, Any]) -> None:
        """Collective among the ranks. options: of Context.named()."""
        self.ranks = ranks  # of the job, ascending
        self.context = context
        self.named: Named = context.named(**options)
        self._joins = 0
        self._unnamed = itertools.count()

    @property
    def size(self) -> int:
        """How many ranks belong to it."""
        return len(self.ranks)

    @property
    def rank(self) -> int:
        """The number of this rank in it."""
        return self.context.rank

    def place_of(self, rank: int) -> int:
        """The number in this team of a rank of the job."""
        try:
            return self.ranks.index(rank)
        except ValueError:
            raise InvalidArgument(f"rank {rank} is not in the process set {self.ranks}") from None

    def title(self, kind: str, name: Optional[str]) -> str:
        """The name of an operation. Those without one are numbered, so that their order matters."""
        if name is not None:
            return f"{kind}.{name}"
        return f"{kind}.noname.{self._joins}.{next(self._unnamed)}"

    def join(self) -> int:
        """Named.join(). After it the ranks number anew, because some have done more than others."""
        last = self.named.join()
        self._joins += 1
        self._unnamed = itertools.count()
        return last

    def by_name(self, title: str) -> Name:
        """The operations under this name."""
        return _timeline.TimedName(self.named, title, 0)

    def allreduce_plain(
        self, title: str, x: torch.Tensor, y: torch.Tensor, op: str
    ) -> Optional[Handle]:
        """Starts an allreduce of plain tensors in a short way. None: there is none."""
        handle = self.named.start_plain(title, 0, _ALLREDUCE, x, y, op_number(op))
        return None if handle is None else _timeline.add(title, "allreduce", handle)

    def start_group(self, title: str, calls: Sequence[Call]) -> Handle:
        """Starts operations of one kind, which run together."""
        handle = self.named.group_start(title, calls)
        return _timeline.add(title, f"grouped_{calls[0].kind.name}", handle)


class Job:
    """The teams that this process knows of."""

    def __init__(self, whole: Context, context: Context, options: Dict[str, Any]) -> None:
        """Collective. whole: the context of the process; context: that of the ranks of this job."""
        self.whole = whole
        self.context = context
        self.options = options
        everybody = list(range(context.size))
        self.ranks: Dict[int, List[int]] = {GLOBAL: everybody}  # by the number of the set
        # The same, of the sets that this rank belongs to.
        self.teams: Dict[int, Team] = {GLOBAL: Team(everybody, context, options)}
        self._next = GLOBAL + 1

    @property
    def is_over(self) -> bool:
        """Whether the job has been left."""
        return self.context.is_closed or self.whole.is_closed

    def find(self, ranks: List[int]) -> Optional[int]:
        """The number of the set of these ranks, if there is one."""
        return next((number for number, each in self.ranks.items() if each == ranks), None)

    def add(self, ranks: List[int]) -> int:
        """Makes the team of these ranks, which there is none of yet. Collective among all ranks."""
        is_member = self.context.rank in ranks
        context = self.context.split(0 if is_member else -1, self.context.rank)
        number, self._next = self._next, self._next + 1
        self.ranks[number] = ranks
        if context is not None:
            self.teams[number] = Team(ranks, context, self.options)
        return number

    def remove(self, number: int) -> None:
        """Ends the team of this number. Collective among its ranks."""
        del self.ranks[number]
        team = self.teams.pop(number, None)
        if team is not None:
            team.named.end()
            team.context.close()

    def close(self) -> None:
        """Leaves the contexts that were made of that of the process."""
        for team in list(self.teams.values())[::-1]:
            if team.context is not self.whole:
                team.context.close()


_job: Optional[Job] = None


def replace(job: Optional[Job]) -> Optional[Job]:
    """Sets the job of the process, and returns the one before."""
    global _job
    before, _job = _job, job
    return before


def found() -> Optional[Job]:
    """The job, unless there is none or it has been left."""
    return None if _job is None or _job.is_over else _job


def current() -> Job:
    """The job. Raises InvalidArgument before init() and after shutdown()."""
    job = found()
    if job is None:
        raise InvalidArgument("weft.horovod has not been initialized; call init() first")
    return job


def everybody() -> Team:
    """The team of all ranks."""
    return current().teams[GLOBAL]
