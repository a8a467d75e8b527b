"""The check that all ranks name the same edges, before a call with ranks of its own moves data.

Without it, ranks that differ find out in the operation itself, and then the context has failed.
"""

from __future__ import annotations

from typing import Iterable, List, Optional

import torch

from weft import _core
from weft._errors import InvalidArgument
from weft.torch import _job
from weft.torch._dtype import I64
from weft.torch._weights import Names

_ALLGATHER = int(_core.Collective.allgather)
_SENDS, _RECEIVES = 1, 2  # what a rank tells of each other rank: bits


def told(sources: Iterable[int], targets: Iterable[int]) -> torch.Tensor:
    """What this rank tells of its edges: one number for each rank."""
    result = [0] * _job.size()
    for source in sources:
        result[source] |= _RECEIVES
    for target in targets:
        result[target] |= _SENDS
    return torch.tensor(result, dtype=torch.int64)


def check(names: Names, bits: torch.Tensor) -> None:
    """Raises InvalidArgument, on all ranks the same, unless all edges are named by both ends.

    bits: row r is what rank r told.
    """
    sends = (bits & _SENDS) != 0
    receives = (bits & _RECEIVES) != 0
    wrong = (sends != receives.t()).nonzero()
    if len(wrong) == 0:
        return
    source, target = wrong[0].tolist()
    if sends[source, target]:
        texts = (source, target, names.targets, target, source, names.sources)
    else:
        texts = (target, source, names.sources, source, target, names.targets)
    error = InvalidArgument(
        "%s: rank %d names %d in %s, but rank %d does not name %d in %s" % (names.operation, *texts)
    )
    error.rank = texts[3]
    raise error


def other_ranks(names: Names, given: Iterable[int]) -> List[int]:
    """The ranks as a list. Raises InvalidArgument if one is this rank or none of the job."""
    context = _job.context()
    result = list(given)
    for each in result:
        if not 0 <= each < context.size or each == context.rank:
            raise InvalidArgument(
                f"{names.operation}: {each} is no other rank among 0 to {context.size - 1}"
            )
    return result


def compare(
    job: _job.Job, mine: torch.Tensor, all_: torch.Tensor, name: Optional[str] = None
) -> _core.Handle:
    """Starts to gather what all ranks tell, by name if there is one."""
    return job.start(
        name, _ALLGATHER, mine.data_ptr(), mine.numel(), all_.data_ptr(), all_.numel(), I64,
        keep=(mine, all_),
    )  # fmt: skip
