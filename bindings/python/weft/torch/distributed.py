"""torch.distributed over Weft: `init_process_group("weft")` after `import weft.torch`.

    import torch.distributed as dist
    import weft.torch

    dist.init_process_group("weft")  # under torchrun; no variables are needed

All operations take tensors on the CPU and on CUDA. All ranks of a group call its operations in the same order. A wait
ends after the timeout of the group at the latest. If a rank dies, the others get weft.PeerDied, and
its `.rank` is the number of that rank in the group. After an error that is not in the arguments a group
cannot be used any more.

A receive gets the oldest message with its tag, from the rank that it names, or from any rank. The
receiver keeps messages that came before, at most 1 GiB of each rank. If the message has another size
or type than the tensor, the receiver gets weft.Mismatch, and the message is lost. A receive from any
rank connects to all ranks of the group, and looks for messages every millisecond at the latest.

torch's profilers have an event for each operation, "weft:all_reduce" and so on.

torch does not let this backend into dist.monitored_barrier() before 2.14, nor a group without an
accelerator into dist.split_group(). Functions of this module stand in for both.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, List, Optional, Sequence, Union

import torch
import torch.distributed as dist

from weft._errors import InvalidArgument

__all__ = ["monitored_barrier", "register", "split_group"]

NAME = "weft"


def register() -> None:
    """Makes "weft" a backend of torch.distributed. Calling it again has no effect.

    It has no effect either where torch was built without torch.distributed.
    """
    if not dist.is_available():
        return
    from weft.torch._process_group import create

    if NAME not in dist.Backend.backend_list:
        dist.Backend.register_backend(NAME, create, extended_api=True, devices=["cpu", "cuda"])


def _weft_group(group: Optional[dist.ProcessGroup]) -> Any:
    from weft.torch._process_group import Group

    found: Any = dist.group.WORLD if group is None else group
    if not isinstance(found, Group):
        found = found._get_backend(torch.device("cpu"))
    if not isinstance(found, Group):
        raise InvalidArgument(f"the group's backend for CPU tensors is not {NAME}")
    return found


def monitored_barrier(
    group: Optional[dist.ProcessGroup] = None,
    timeout: Union[timedelta, float, None] = None,
    wait_all_ranks: bool = False,
) -> None:
    """A barrier that says which ranks did not come.

    Args:
        group: None: the default group.
        timeout: how long rank 0 of the group waits for the others; None: the group's timeout.
        wait_all_ranks: whether rank 0 waits until the timeout for all of them, to name every rank
            that is missing, or raises as soon as the first is late.

    Raises:
        weft.TimedOut: on all ranks that came; `.rank` is the first that is missing.
    """
    found = _weft_group(group)
    found.monitored_barrier(timeout, wait_all_ranks)


def split_group(
    parent: Optional[dist.ProcessGroup] = None,
    split_ranks: Sequence[Sequence[int]] = (),
    timeout: Optional[timedelta] = None,
    group_desc: Optional[str] = None,
) -> Optional[dist.ProcessGroup]:
    """A group of some ranks of `parent`. Collective: all ranks of `parent` call it alike.

    Args:
        parent: None: the default group.
        split_ranks: disjoint lists of ranks of `parent`; a group is made of each.
        timeout: of the new group.

    Returns:
        The group of which this rank is a member, or None.
    """
    within = dist.group.WORLD if parent is None else parent
    everywhere = dist.get_process_group_ranks(within)
    seen: List[int] = [rank for ranks in split_ranks for rank in ranks]
    if not split_ranks or not all(split_ranks):
        raise InvalidArgument("split_ranks: each group needs at least one rank")
    if len(set(seen)) != len(seen):
        raise InvalidArgument(f"split_ranks={list(split_ranks)}: a rank is in it twice")
    if min(seen) < 0 or max(seen) >= len(everywhere):
        raise InvalidArgument(
            f"split_ranks={list(split_ranks)}: the ranks of the parent are 0 to "
            f"{len(everywhere) - 1}"
        )
    mine = dist.get_rank(within)
    made: Optional[dist.ProcessGroup] = None
    for ranks in split_ranks:
        if mine in ranks:
            made = dist.new_group(
                [everywhere[rank] for rank in ranks],
                timeout=timeout,
                use_local_synchronization=True,
                group_desc=group_desc,
            )
    return made
