"""The operations on arrays, which a Context has, and a name of weft.Named.

Whoever inherits them gives `rank`, `size`, `graph`, and how a Call runs and starts.
"""

from __future__ import annotations

import inspect
from typing import Any, Callable, Concatenate, Dict, Optional, ParamSpec, Sequence, TypeVar

import numpy as np

from weft import _operations as ops
from weft._core import Collective, ErrorFeedback, Graph, Handle
from weft._operations import AlgorithmLike, BitsLike, Call, CompressionLike, OpLike
from weft._operations import Targets, Weights

T = TypeVar("T")
P = ParamSpec("P")
_ndarray = np.ndarray
_empty_like = np.empty_like
_NEIGHBOR_ALLREDUCE = int(Collective.neighbor_allreduce)
_ALLREDUCE = int(Collective.allreduce)


def _starting(
    run: Callable[Concatenate[Operations, P], object],
) -> Callable[Concatenate[Operations, P], Handle]:
    """The function that takes what `run` takes, and starts the operation."""

    def start(self: Operations, *args: P.args, **options: P.kwargs) -> Handle:
        instead = _Starting(self, self._start)
        run(instead, *args, **options)
        handle: Handle = instead.made
        return handle

    start.__name__ = f"{run.__name__}_start"
    start.__qualname__ = f"{run.__qualname__}_start"
    start.__doc__ = f"Starts {run.__name__}()."
    signature = inspect.signature(run).replace(return_annotation="Handle")
    start.__signature__ = signature  # type: ignore[attr-defined]
    return start


class Operations:
    """Every operation as a blocking call and, with the name `..._start`, as one that gives a Handle.

    A blocking call hands the Call of its arguments to `_run`, once.
    """

    rank: int
    size: int
    graph: Graph

    def _run(self, call: Call) -> Any:
        raise NotImplementedError

    def _start(self, call: Call) -> Handle:
        raise NotImplementedError

    def run_plain(
        self, kind: int, x: Any, y: Any, op: int = 1, algorithm: int = 0, root: int = -1
    ) -> bool:
        """A short way for plain arrays of NumPy and torch. False: there is none, and nothing has
        happened."""
        return False

    def start_plain(
        self, kind: int, x: Any, y: Any, op: int = 1, algorithm: int = 0
    ) -> Optional[Handle]:
        """The same for starting. None: there is none."""
        return None

    def neighbor_allreduce(
        self,
        x: T,
        out: Optional[T] = None,
        *,
        self_weight: Optional[float] = None,
        src_weights: Optional[Weights] = None,
        dst_weights: Optional[Targets] = None,
        push_sum: bool = False,
        compression: CompressionLike = "none",
        feedback: Optional[ErrorFeedback] = None,
        needs_all: bool = False,
    ) -> T:
        """The weighted sum of this rank's x and its in-neighbors' x; floating types, any shape.

        Without weights those of the graph are used if it was set as weighted, else
        1/(in-neighbors + 1). self_weight with src_weights {rank: weight}: a subset of the
        in-neighbors, weighted here. self_weight with dst_weights {rank: weight} (or a list of ranks,
        1.0 each): weighted by the sender. All three: edges that need not be in the graph.
        push_sum: self_weight and dst_weights must sum to 1.
        compression: "none", "f16", "bf16", "sketch", "e4m3", "e5m2",
        "low_rank:4" (a matrix by 4 singular values), or a Compression; the others take float32, and
        weights of sources only. feedback: adds what that has taken from the last x.
        needs_all: under WEFT_ON_DEATH=skip the call is PeerDied once a rank is gone, where others run
        among the ranks that are left.
        """
        how = {
            **ops.compressed(compression, feedback, getattr(x, "shape", None)),
            **ops.needing_all(needs_all),
        }
        if self_weight is None and src_weights is None and dst_weights is None and not push_sum:
            if not how and (out is not None or type(x) is _ndarray):
                y = _empty_like(x, None, "C") if out is None else out
                if self.run_plain(_NEIGHBOR_ALLREDUCE, x, y):
                    return y  # type: ignore[return-value]
        weights = _weights(self_weight, src_weights, dst_weights, push_sum)
        weights.update(how)
        return self._run(ops.same_shape(Collective.neighbor_allreduce, x, out, weights))

    neighbor_allreduce_start = _starting(neighbor_allreduce)

    def hierarchical_neighbor_allreduce(
        self,
        x: T,
        out: Optional[T] = None,
        *,
        self_weight: Optional[float] = None,
        src_weights: Optional[Weights] = None,
        dst_weights: Optional[Targets] = None,
    ) -> T:
        """x averaged inside each machine, then neighbor_allreduce of the machines.

        Needs set_machine_graph(), or all three weights. Weights are by machine.
        """
        weights = _weights(self_weight, src_weights, dst_weights, False)
        kind = Collective.hierarchical_neighbor_allreduce
        return self._run(ops.same_shape(kind, x, out, weights))

    hierarchical_neighbor_allreduce_start = _starting(hierarchical_neighbor_allreduce)

    def neighbor_allgather(
        self, x: T, out: Optional[T] = None, *, counts: Optional[Sequence[int]] = None
    ) -> T:
        """The in-neighbors' x, one after another along dimension 0, by ascending rank.

        counts: rows from each in-neighbor; without it each has as many rows as this rank.
        """
        return self._run(self._neighbor_allgather(x, out, counts))

    neighbor_allgather_start = _starting(neighbor_allgather)

    def allreduce(
        self,
        x: T,
        out: Optional[T] = None,
        *,
        op: OpLike = "average",
        algorithm: AlgorithmLike = "automatic",
        compression: CompressionLike = "none",
        feedback: Optional[ErrorFeedback] = None,
        bits: BitsLike = "automatic",
        needs_all: bool = False,
    ) -> T:
        """The reduction of all ranks' x, which have the same shape.

        op: "sum", "average" (floating types), "min", "max", "product", "bit_and", "bit_or",
        "bit_xor" (integers), or a ReduceOp.
        compression: "none", "f16", "bf16", "sketch", "e4m3", "e5m2",
        "low_rank:4" (a matrix by 4 singular values), or a Compression; the others take float32, "sum"
        and "average". feedback: adds what that has taken from the last x.
        bits: "fixed" sums in the order of the ranks, so that nothing else decides the bits.
        needs_all: as for neighbor_allreduce().
        """
        number, how = ops.op_number(op), ops.algorithm_number(algorithm)
        more = {
            **ops.compressed(compression, feedback, getattr(x, "shape", None)),
            **ops.with_bits(bits),
            **ops.needing_all(needs_all),
        }
        if not more and (out is not None or type(x) is _ndarray):
            y = _empty_like(x, None, "C") if out is None else out
            if self.run_plain(_ALLREDUCE, x, y, number, how):
                return y  # type: ignore[return-value]
        options = {"op": number, "algorithm": how, **more}
        return self._run(ops.same_shape(Collective.allreduce, x, out, options))

    allreduce_start = _starting(allreduce)

    def local_allreduce(
        self,
        x: T,
        out: Optional[T] = None,
        *,
        op: OpLike = "average",
        bits: BitsLike = "automatic",
        needs_all: bool = False,
    ) -> T:
        """allreduce() among the ranks of this machine. All ranks of the job call it."""
        options = {
            "op": ops.op_number(op),
            **ops.with_bits(bits),
            **ops.needing_all(needs_all),
        }
        return self._run(ops.same_shape(Collective.local_allreduce, x, out, options))

    local_allreduce_start = _starting(local_allreduce)

    def broadcast(
        self, x: T, out: Optional[T] = None, *, root: int = 0, needs_all: bool = False
    ) -> T:
        """The root's x. On other ranks x says shape and type, and is not read."""
        options = {"root": root, **ops.needing_all(needs_all)}
        return self._run(ops.same_shape(Collective.broadcast, x, out, options))

    broadcast_start = _starting(broadcast)

    def barrier(self, *, needs_all: bool = False) -> None:
        """Waits until all ranks are in the barrier."""
        self._run(Call(Collective.barrier, options=ops.needing_all(needs_all)))

    barrier_start = _starting(barrier)

    def allgather(
        self, x: T, out: Optional[T] = None, *, counts: Optional[Sequence[int]] = None
    ) -> T:
        """All ranks' x, one after another along dimension 0.

        counts: rows of each rank; without it all have as many rows as this rank.
        """
        return self._run(ops.gathered(Collective.allgather, x, out, self.size, counts, {}))

    allgather_start = _starting(allgather)

    def reduce_scatter(
        self,
        x: T,
        out: Optional[T] = None,
        *,
        op: OpLike = "average",
        counts: Optional[Sequence[int]] = None,
        bits: BitsLike = "automatic",
    ) -> T:
        """This rank's rows of the reduction of all ranks' x.

        counts: rows of each rank. Without it they are equal, or one more for the first ranks.
        """
        return self._run(ops.scattered_reduction(x, out, self.rank, self.size, counts, op, bits))

    reduce_scatter_start = _starting(reduce_scatter)

    def reduce(
        self,
        x: T,
        out: Optional[T] = None,
        *,
        root: int = 0,
        op: OpLike = "average",
        bits: BitsLike = "automatic",
        needs_all: bool = False,
    ) -> Optional[T]:
        """The root gets the reduction of all ranks' x. Other ranks get `out` as it was."""
        return self._run(self._reduce(x, out, root, op, bits, needs_all))

    reduce_start = _starting(reduce)

    def gather(
        self,
        x: T,
        out: Optional[T] = None,
        *,
        root: int = 0,
        counts: Optional[Sequence[int]] = None,
    ) -> Optional[T]:
        """The root gets all ranks' x, one after another along dimension 0, with counts as allgather.

        Other ranks get `out` as it was.
        """
        return self._run(self._gather(x, out, root, counts))

    gather_start = _starting(gather)

    def scatter(
        self,
        x: Optional[T],
        out: Optional[T] = None,
        *,
        root: int = 0,
        counts: Optional[Sequence[int]] = None,
    ) -> T:
        """This rank's rows of the root's x.

        On other ranks x says shape and type, or is None if `out` is given. counts: rows of each rank.
        Without it they are equal, or one more for the first ranks.
        """
        return self._run(ops.scattered(x, out, self.rank, self.size, root, counts))

    scatter_start = _starting(scatter)

    def alltoall(self, x: T, out: Optional[T] = None) -> T:
        """Block r of the result is this rank's block of rank r's x, of equal blocks of rows."""
        return self._run(ops.exchanged(x, out, self.size, None, None))

    alltoall_start = _starting(alltoall)

    def alltoallv(
        self,
        x: T,
        out: Optional[T] = None,
        *,
        send_counts: Sequence[int],
        receive_counts: Sequence[int],
    ) -> T:
        """alltoall() with blocks of any size: rows to each rank, and rows from each rank."""
        return self._run(ops.exchanged(x, out, self.size, send_counts, receive_counts))

    alltoallv_start = _starting(alltoallv)

    def send(self, x: Any, target: int) -> None:
        """Sends x to a rank, whose recv() gives an array of the same type and size."""
        self._run(ops.sent(x, target))

    send_start = _starting(send)

    def recv(self, out: T, source: int) -> T:
        """Receives into `out` what a rank sends, and returns `out`."""
        return self._run(ops.received(out, source))

    recv_start = _starting(recv)

    def pair_average(
        self,
        x: T,
        out: Optional[T] = None,
        *,
        peer: int,
        self_weight: float = 0.5,
        pair_weight: float = 0.5,
    ) -> T:
        """self_weight times x plus pair_weight times the peer's x. Both ranks call it."""
        options = {"peer": peer, "self_weight": self_weight, "pair_weight": pair_weight}
        return self._run(ops.same_shape(Collective.pair_average, x, out, options))

    pair_average_start = _starting(pair_average)

    def group_average(
        self,
        x: T,
        out: Optional[T] = None,
        *,
        ranks: Sequence[int],
        bits: BitsLike = "automatic",
    ) -> T:
        """The mean of x over the given ranks, this one included. Only they call it."""
        options = {"group": ranks, **ops.with_bits(bits)}
        return self._run(ops.same_shape(Collective.group_average, x, out, options))

    group_average_start = _starting(group_average)

    def _neighbor_allgather(self, x: Any, out: Any, counts: Optional[Sequence[int]]) -> Call:
        neighbors = len(self.graph.in_edges(self.rank))
        return ops.gathered(Collective.neighbor_allgather, x, out, neighbors, counts, {})

    def _reduce(
        self, x: Any, out: Any, root: int, op: OpLike, bits: BitsLike, needs_all: bool
    ) -> Call:
        options = {
            "op": ops.op_number(op),
            "root": root,
            **ops.with_bits(bits),
            **ops.needing_all(needs_all),
        }
        if self.rank != root:
            return ops.input_only(Collective.reduce, x, out, options)
        return ops.same_shape(Collective.reduce, x, out, options)

    def _gather(self, x: Any, out: Any, root: int, counts: Optional[Sequence[int]]) -> Call:
        if self.rank != root:
            return ops.input_only(Collective.gather, x, out, {"root": root})
        return ops.gathered(Collective.gather, x, out, self.size, counts, {"root": root})


class Instead(Operations):
    """The operations of `of`. A call does `do` instead of running, and leaves the result in `made`."""

    def __init__(self, of: Operations, do: Callable[[Call], Any]) -> None:
        self._of = of
        self._do = do
        self.made: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)  # rank, size, graph

    def _run(self, call: Call) -> None:
        self.made = self._do(call)


class _Starting(Instead):
    """Of a call that starts."""

    def run_plain(
        self, kind: int, x: Any, y: Any, op: int = 1, algorithm: int = 0, root: int = -1
    ) -> bool:
        self.made = self._of.start_plain(kind, x, y, op, algorithm)
        return self.made is not None


def _weights(
    self_weight: Optional[float],
    src_weights: Optional[Weights],
    dst_weights: Optional[Targets],
    push_sum: bool,
) -> Dict[str, Any]:
    return {
        "self_weight": None if self_weight is None else float(self_weight),
        "sources": src_weights,
        "destinations": dst_weights,
        "push_sum": push_sum,
    }
