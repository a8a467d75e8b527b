"""The process group that torch.distributed makes for the backend "weft".

It is a ProcessGroup of its own, so a Work that it gives is the one that the user gets.

From torch 2.14 on a group may have another backend for another device beside Weft, as in
init_process_group("cpu:weft,cuda:nccl"). Then Weft is a Backend inside torch's group. There torch
puts a Work of its own before Weft's, which passes on wait() and get_future() only. Before 2.14 a
group has one backend.
"""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, List

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store

from weft.torch import _monitor
from weft.torch._collectives import Collectives
from weft.torch._exchanges import Exchanges
from weft.torch._graphs import keep_out
from weft.torch._group_window import GroupWindow, GroupWindows
from weft.torch._pairs import Pairs, ReceiveWork
from weft.torch._rendezvous import join
from weft.torch._starting import Starting
from weft.torch._work import DoneWork, JointWork, WeftWork

_CPU = torch.device("cpu")
_CUDA = torch.device("cuda")
_Backend: Any = torch._C._distributed_c10d.Backend


class Group(Collectives, Exchanges, Pairs, GroupWindows):
    """A context of Weft with the operations of torch.distributed.

    Ranks in its methods are those of the group.
    """

    def __init__(
        self, store: Store, rank: int, size: int, timeout: timedelta, name: str = ""
    ) -> None:
        """Joins the group. Collective; see _rendezvous.join()."""
        super().__init__(rank, size)  # type: ignore[call-arg]  # of torch's class
        self._rank = rank
        self._size = size
        self._store = store
        self._name = name
        self._description = "undefined"
        self._bound = timeout
        self._bound_s = timeout.total_seconds()
        self._sending = threading.Lock()
        self._barriers = 0
        self._context = join(store, rank, size, timeout, name)

    # What torch asks a group.

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def name(self) -> str:
        return "weft"

    getBackendName = _get_backend_name = name

    @property
    def group_name(self) -> str:
        return self._name

    def getGroupName(self) -> str:
        return self._name

    def _set_group_name(self, name: str) -> None:
        self._name = name

    setGroupName = _set_group_name

    @property
    def group_desc(self) -> str:
        return self._description

    def getGroupDesc(self) -> str:
        return self._description

    def _set_group_desc(self, description: str) -> None:
        self._description = description

    setGroupDesc = _set_group_desc

    def get_group_store(self) -> Store:
        return self._store

    @property
    def _device_types(self) -> List[torch.device]:
        return [_CPU, _CUDA] if torch.cuda.is_available() else [_CPU]

    def _get_backend(self, device: torch.device) -> Any:
        if device.type not in ("cpu", "cuda"):
            raise RuntimeError(
                f"weft has no backend for {device.type}; it takes tensors on the CPU and on CUDA"
            )
        return self

    @property
    def supports_coalescing(self) -> bool:
        return False

    @property
    def supports_time_estimate(self) -> bool:
        return False

    def _set_sequence_number_for_group(self) -> None:
        pass

    def _get_sequence_number_for_group(self) -> int:
        return int(self._context.usage()["operations"])

    # Time.

    def set_timeout(self, timeout: timedelta) -> None:
        """Bounds later waits by `timeout`. More than the group was made with has no effect."""
        self._timeout = timeout.total_seconds()

    _set_default_timeout = set_timeout

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """See weft.torch.distributed.monitored_barrier(). timeout may also be BarrierOptions."""
        timeout = getattr(timeout, "timeout", timeout)
        if timeout is not None and not isinstance(timeout, timedelta):
            timeout = timedelta(seconds=timeout)
        if timeout is None or timeout <= timedelta(0):
            timeout = self._bound
        self._barriers += 1
        table = PrefixStore(f"weft/barrier/{self._barriers}", self._store)
        _monitor.meet(table, self._rank, self._size, timeout, wait_all_ranks)

    # The end.

    def shutdown(self) -> None:
        """Leaves the group. Operations in flight fail with weft.Closed, and later calls too."""
        self._context.close()

    abort = shutdown


class ProcessGroupWeft(Group, dist.ProcessGroup):  # type: ignore[misc]
    """A process group whose only backend is Weft."""


class BackendWeft(Group, _Backend):  # type: ignore[misc]
    """Weft as one of several backends of a process group; from torch 2.14 on."""


for _kind in (
    *(Starting, Collectives, Exchanges, Pairs, GroupWindow, GroupWindows),
    *(WeftWork, ReceiveWork, JointWork, DoneWork),
):
    keep_out(vars(_kind).values())


def _has_other_backends(group: Any) -> bool:
    """Whether a group that torch is about to fill is meant for several backends.

    Only a group for one backend that torch does not know has the name of such a backend by now.
    """
    return group is not None and group._get_backend_name() != "custom"


def create(options: Any, backend_options: Any = None) -> Group:
    """What torch calls to make a group (register_backend with extended_api)."""
    if backend_options is not None:
        raise TypeError("the backend weft has no pg_options; settings are WEFT_* variables")
    is_one_of_several = _has_other_backends(getattr(options, "process_group", None))
    kind = BackendWeft if is_one_of_several else ProcessGroupWeft
    return kind(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        options.group_id,
    )
