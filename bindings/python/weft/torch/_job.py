"""This process's part in the job of weft.torch: the context, and what is known of the graphs."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Any, Callable, Iterator, Optional, Sequence

from weft import _core, _default
from weft._context import Context
from weft._errors import InvalidArgument
from weft.torch import _staged, _timeline, handles


class Job:
    """The context of weft.init(), and what was set by BlueFog's functions."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.topology: Any = None  # the networkx digraph that was given; None: made when asked for
        self.machine_topology: Any = None
        self.is_weighted: Optional[bool] = None  # None: no graph was set yet
        self.is_machine_weighted = False
        self.skips_negotiation = False
        self.moves_p = False  # windows move the associated p with their tensors
        self.optimizers = 0  # that were made distributed with windows of their own
        # Operations by name. It is None for a rank that is alone.
        self.named = context.named() if context.size > 1 else None
        self._second: Optional[Context] = None
        self._made = 0

    def second_stages(self) -> Context:
        """The context of second stages of operations (_staged.py). The first call is collective.

        A second stage starts when the first one is done, which is not at the same
        place in the order of operations on all ranks. So it needs an order of its own.
        """
        if self._second is None:
            self._second = self.context.split(0, self.context.rank)
        assert self._second is not None
        return self._second

    @property
    def is_ordered(self) -> bool:
        """Whether operations with names are matched by their order."""
        return self.named is None or self.skips_negotiation

    def count_optimizer(self) -> int:
        """How many optimizers were made distributed before this one; the same on all ranks."""
        self._made += 1
        return self._made - 1

    def start(
        self,
        name: Optional[str],
        kind: int,
        *memory: int,
        shape: Sequence[int] = (),
        **options: Any,
    ) -> _core.Handle:
        """Starts an operation. One with a name is matched by it, the others by their order.

        After set_skip_negotiate_stage(True) the order counts for all. Ranks compare the shapes of
        operations that are matched by name.
        """
        if name is None or self.named is None or self.skips_negotiation:
            return self.context.start_raw(_core.Request(kind, *memory, **options))
        request = _core.Request(kind, *memory, shape=shape, **options)
        return self.named.start_raw(name, 0, request)

    def prepare(
        self, name: str, kind: int, *memory: int, **options: Any
    ) -> Callable[[], _core.Handle]:
        """What start() does with these arguments, to be called again and again."""
        request = _core.Request(kind, *memory, **options)
        if self.is_ordered:
            return self.context.prepare_raw(request).start

        def submit() -> _core.Handle:
            assert self.named is not None
            return self.named.start_raw(name, 0, request)

        return submit

    def set_graph(self, graph: _core.Graph, is_weighted: bool) -> None:
        """Sets the graph of neighbor operations. Collective."""
        self.context.set_graph(graph, is_weighted)
        if self.named is not None:
            self.named.set_graph(graph, is_weighted)
        self.is_weighted = is_weighted

    def set_machine_graph(self, graph: _core.Graph, is_weighted: bool) -> None:
        """Sets the graph of machines. Collective; waits for operations by name.

        Operations by name have the graph of machines that the context had when they began.
        """
        self.context.set_machine_graph(graph, is_weighted)
        self.is_machine_weighted = is_weighted
        if self.named is not None:
            handles.finish_named()
            self.named.end()
            self.named = self.context.named()

    def close(self) -> None:
        second, self._second = self._second, None
        if second is not None:
            second.close()


_job: Optional[Job] = None


def current() -> Job:
    """The job that init() has joined. Raises InvalidArgument before init() and after shutdown()."""
    found = _job
    if found is None or found.context.is_closed:
        raise InvalidArgument("weft.torch has not been initialized; call weft.torch.init() first")
    return found


def context() -> Context:
    """The context of the job that init() has joined."""
    return current().context


def init(
    topology_fn: Optional[Callable[[int], Any]] = None, is_weighted: bool = False
) -> None:
    """Joins the job that the environment names, as weft.init(), and sets the graph. Collective.

    Without a job in the environment, the rank is alone. Calling it again only sets the graph.

    BLUEFOG_TIMELINE=PREFIX in the environment writes a timeline (timeline_start_activity).
    BLUEFOG_NODES_PER_MACHINE=k in the environment makes machines of k ranks each, the first k ranks
    and so on, wherever they run. WEFT_HOST comes before it.

    Args:
        topology_fn: gets the number of ranks and returns the graph, a networkx.DiGraph; None: the
            exponential graph.
        is_weighted: whether neighbor operations use the weights of the graph; else uniform ones.
    """
    global _job
    from weft.torch import topology

    with _named_machine():
        context = _default.init()
    if _job is None or _job.context is not context:
        _leave_old()
        _job = Job(context)
    _timeline.open_for(context.rank)
    topology.set_topology(None if topology_fn is None else topology_fn(context.size), is_weighted)


@contextlib.contextmanager
def _named_machine() -> Iterator[None]:
    """Names the machine of this rank as BLUEFOG_NODES_PER_MACHINE says, while the job is joined."""
    given = os.environ.get("BLUEFOG_NODES_PER_MACHINE", "")
    if not given or "WEFT_HOST" in os.environ:
        yield
        return
    if not given.isdecimal() or int(given) == 0:
        raise InvalidArgument(f"BLUEFOG_NODES_PER_MACHINE={given} is no number of ranks")
    machine = _default.rank_in_environment() // int(given)
    os.environ["WEFT_HOST"] = f"{socket.gethostname()}-{machine}"
    try:
        yield
    finally:
        del os.environ["WEFT_HOST"]


def _leave_old() -> None:
    handles.clear()
    _staged.clear()
    if _job is not None:
        _job.close()


def shutdown() -> None:
    """Leaves the job. Handles that were not waited for are dropped. Without a job: no effect."""
    global _job
    _leave_old()
    found, _job = _job, None
    if found is not None and _default.is_initialized() and _default.context() is found.context:
        _default.shutdown()
    _timeline.close()  # behind the callbacks of the context


def rank() -> int:
    """The number of this process, 0 ... size()-1."""
    return context().rank


def size() -> int:
    """The number of processes of the job."""
    return context().size


def local_rank() -> int:
    """The number of this process among those of its machine."""
    return context().local_rank


def local_size() -> int:
    """The number of processes of this machine."""
    return context().local_size


def machine_rank() -> int:
    """The number of this machine."""
    return context().machine_rank


def machine_size() -> int:
    """The number of machines."""
    return context().machine_size


def is_homogeneous() -> bool:
    """Whether all machines have the same number of processes."""
    return context().is_homogeneous


def barrier() -> None:
    """Waits until all ranks are in the barrier."""
    context().run_raw(_core.Request(_BARRIER, 0, 0, 0, 0, 0))


def set_skip_negotiate_stage(value: bool) -> None:
    """Whether operations with names are matched by their order as those without, from now on.

    At first they are matched by name: ranks may start them in any order, and each costs a message
    to each neighbor, or a round between all ranks, before it runs. True saves that, and all ranks
    have to start the same operations in the same order. It counts for non-blocking operations that
    have names and for the distributed optimizers. Collective: all ranks give the same value, while
    no operation is in flight.
    """
    current().skips_negotiation = bool(value)


def get_skip_negotiate_stage() -> bool:
    """What set_skip_negotiate_stage() was given last; False at first."""
    return current().skips_negotiation


def suspend() -> None:
    """Has no effect, because Weft's threads sleep while there is nothing to do."""
    current()


def resume() -> None:
    """Has no effect, as suspend()."""
    current()


def nccl_built() -> bool:
    """Whether tensors on CUDA need NCCL, as BlueFog's do: False."""
    return False


def mpi_threads_supported() -> bool:
    """Whether several threads may call operations: True."""
    return True


def unified_mpi_window_model_supported() -> bool:
    """Whether the memory of a window is what its owner's processor sees: True."""
    return True


_BARRIER = int(_core.Collective.barrier)
