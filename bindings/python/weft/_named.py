"""Named: operations that ranks submit by name, each in an order of its own.

    named = ctx.named()                                      # collective
    handles = [named[name].allreduce_start(x) for name, x in gradients.items()]
    results = [handle.wait() for handle in handles]

An operation of all ranks runs once every rank has submitted its name; ranks agree on the order.
Operations of neighbors are matched by name on each edge. Small tensors that are ready together travel
as one message. weft/named.h has the whole contract.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Optional, Sequence

from weft import _core
from weft import _operations as ops
from weft._core import Collective, ErrorFeedback, Graph, Handle
from weft._every import Operations
from weft._operations import AlgorithmLike, BitsLike, Call, CompressionLike, OpLike

if TYPE_CHECKING:
    from weft._context import Context


class Named(_core.Named):
    """Operations by name. `named[name]` has every operation of a Context.

    A name is in use from its submission until its operation has ended. Ranks that submit a name with
    another operation, shape or type get a Mismatch on all ranks, and other names go on. Blocks of a
    gather, a scatter or an alltoall may differ in their first extent.
    """

    def __init__(self, context: Context, raw: _core.Named) -> None:
        super().__init__(raw)
        self._context = context
        self._graph = context.graph

    def __getitem__(self, name: str) -> Name:
        """The operations under this name."""
        return Name(self, name, 0)

    def name(self, name: str, priority: int = 0) -> Name:
        """The same with a priority: of names that are ready together, higher ones run first."""
        return Name(self, name, priority)

    def grouped_allreduce_start(
        self,
        name: str,
        tensors: Sequence[Any],
        outs: Optional[Sequence[Any]] = None,
        *,
        op: OpLike = "average",
        algorithm: AlgorithmLike = "automatic",
        compression: CompressionLike = "none",
        feedback: Optional[Sequence[ErrorFeedback]] = None,
        bits: BitsLike = "automatic",
        priority: int = 0,
    ) -> Handle:
        """Starts an allreduce of several tensors, which run together. Its result is a list.

        feedback: an ErrorFeedback for each tensor.
        """
        number, how = ops.op_number(op), ops.algorithm_number(algorithm)
        given: Sequence[Any] = [None] * len(tensors) if outs is None else outs
        if len(given) != len(tensors):
            raise ValueError(f"{name}: {len(tensors)} tensors and {len(given)} outputs")
        kind = Collective.allreduce
        feedbacks: Sequence[Any] = [None] * len(tensors) if feedback is None else feedback
        if len(feedbacks) != len(tensors):
            raise ValueError(f"{name}: {len(tensors)} tensors and {len(feedbacks)} feedbacks")
        fewer_bytes = [
            ops.compressed(compression, each, getattr(x, "shape", None))
            for x, each in zip(tensors, feedbacks)
        ]
        fixed = ops.with_bits(bits)
        calls = [
            ops.same_shape(kind, x, out, {"op": number, "algorithm": how, **less, **fixed})
            for x, out, less in zip(tensors, given, fewer_bytes)
        ]
        return self.group_start(name, calls, priority)

    def group_start(self, name: str, calls: Sequence[Call], priority: int = 0) -> Handle:
        """Starts operations of one kind, which run together. The result is the list of theirs."""
        group = [call.request(shape=call.shape()) for call in calls]
        handle = self.start_group_raw(name, priority, group)
        handle.result = [call.out for call in calls]
        return handle

    def grouped_allreduce(
        self,
        name: str,
        tensors: Sequence[Any],
        outs: Optional[Sequence[Any]] = None,
        *,
        op: OpLike = "average",
        algorithm: AlgorithmLike = "automatic",
        compression: CompressionLike = "none",
        feedback: Optional[Sequence[ErrorFeedback]] = None,
        bits: BitsLike = "automatic",
        priority: int = 0,
    ) -> List[Any]:
        """An allreduce of several tensors, which run together once every rank has submitted them."""
        handle = self.grouped_allreduce_start(
            name,
            tensors,
            outs,
            op=op,
            algorithm=algorithm,
            compression=compression,
            feedback=feedback,
            bits=bits,
            priority=priority,
        )
        result: List[Any] = handle.wait()
        return result

    def set_graph(self, graph: Graph, weighted: bool = False) -> None:
        """The graph of neighbor operations without peers of their own; at first the context's."""
        super().set_graph(graph, weighted)
        self._graph = graph

    @property
    def graph(self) -> Graph:
        return self._graph

    def end(self) -> None:
        """Ends this object. Collective. Pending operations are an error."""
        self._context.end_named(self)


class Name(Operations):
    """The operations under one name, each as a blocking call and as one that gives a Handle."""

    def __init__(self, named: Named, name: str, priority: int) -> None:
        self._named = named
        self._name = name
        self._priority = priority
        self.rank = named.rank
        self.size = named.size
        self.graph = named.graph

    def run_plain(
        self, kind: int, x: Any, y: Any, op: int = 1, algorithm: int = 0, root: int = -1
    ) -> bool:
        handle = self.start_plain(kind, x, y, op, algorithm)
        if handle is not None:
            handle.wait()
        return handle is not None

    def start_plain(
        self, kind: int, x: Any, y: Any, op: int = 1, algorithm: int = 0
    ) -> Optional[Handle]:
        return self._named.start_plain(self._name, self._priority, kind, x, y, op, algorithm)

    def _run(self, call: Call) -> Any:
        return self._start(call).wait()

    def _start(self, call: Call) -> Handle:
        request = call.request(shape=call.shape())
        handle = self._named.start_raw(self._name, self._priority, request)
        handle.result = call.out
        return handle
