"""The monitored barrier. Ranks report in torch's store, so a late rank hurts no operation."""

from __future__ import annotations

from datetime import timedelta
from typing import List

from torch._C._distributed_c10d import Store

from weft._errors import TimedOut

_SLACK = timedelta(seconds=5)  # rank 0 tells the others who is missing


def _error(missing: List[int], timeout: timedelta) -> TimedOut:
    ranks = ", ".join(map(str, missing))
    error = TimedOut(
        f"monitored barrier: rank {ranks} did not come within {timeout.total_seconds():g} s"
    )
    error.rank = missing[0]
    return error


def _lead(table: Store, size: int, timeout: timedelta, wait_all_ranks: bool) -> List[int]:
    """Rank 0: waits for the others. Returns the ranks that are missing."""
    keys = [f"{rank}" for rank in range(1, size)]
    try:
        if keys:
            table.wait(keys, timeout)
        return []
    except Exception:
        missing = [int(key) for key in keys if not table.check([key])]
        return missing if wait_all_ranks else missing[:1]


def meet(table: Store, rank: int, size: int, timeout: timedelta, wait_all_ranks: bool) -> None:
    """One barrier. `table` is empty, and belongs to this barrier."""
    if rank == 0:
        missing = _lead(table, size, timeout, wait_all_ranks)
        table.set("missing", ",".join(map(str, missing)))
    else:
        table.set(f"{rank}", "")
        try:
            table.wait(["missing"], timeout + _SLACK)
        except Exception as error:
            raise _error([0], timeout) from error
        text = table.get("missing").decode()
        missing = [int(each) for each in text.split(",") if each]
    if missing:
        raise _error(missing, timeout)
