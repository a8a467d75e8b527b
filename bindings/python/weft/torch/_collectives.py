"""The collectives of a process group in which all ranks have tensors of one shape."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, List, Optional, Sequence

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    BarrierOptions,
    BroadcastOptions,
    ReduceOptions,
    ReduceScatterOptions,
)

from weft import _core
from weft.torch._dtype import FLOATING, I64, NUMBERS, U8, computed_as, moved_as
from weft.torch._recording import is_recording, recorded
from weft.torch._reductions import SUM, Reduction, reduction
from weft.torch._sparse import Sparse
from weft.torch._starting import Starting, for_work, wants_work
from weft.torch._tensors import PLAIN, only_one, read_from, same_type, updated, written_to
from weft.torch._work import DONE, JointWork
from weft._errors import InvalidArgument

_ALLREDUCE = int(_core.Collective.allreduce)
_BROADCAST = int(_core.Collective.broadcast)
_BARRIER = int(_core.Collective.barrier)
_ALLGATHER = int(_core.Collective.allgather)
_REDUCE_SCATTER = int(_core.Collective.reduce_scatter)
_REDUCE = int(_core.Collective.reduce)

_STRIDED = torch.strided
_ZERO = timedelta(0)
_FLOATS = {dtype: number for dtype, number in NUMBERS.items() if number in FLOATING}
# By torch's number of the operator: those that floats have, without PREMUL_SUM.
_ON_FLOATS = {
    hash(op): reduction(op).number
    for op in (
        dist.ReduceOp.SUM,
        dist.ReduceOp.AVG,
        dist.ReduceOp.MIN,
        dist.ReduceOp.MAX,
        dist.ReduceOp.PRODUCT,
    )
}


def options_of(kind: Any, opts: Any, timeout: Optional[timedelta]) -> Any:
    """Options of this kind. `opts` may be such options, a ReduceOp alone, or None."""
    if isinstance(opts, kind):
        return opts
    made = kind()
    if opts is not None:
        made.reduceOp = opts
    if timeout is not None:
        made.timeout = timeout
    return made


def scaled(tensor: torch.Tensor, how: Reduction) -> torch.Tensor:
    """The tensor times the factor of the reduction; the tensor itself if there is none."""
    return tensor if how.factor == 1.0 else tensor.detach() * how.factor


class Collectives(Starting):
    """Operations with torch's names and arguments. Each gives a Work."""

    @recorded("all_reduce")
    def allreduce(
        self, tensors: Any, opts: Any = None, timeout: Optional[timedelta] = None
    ) -> dist.Work:
        """Replaces the tensor by the reduction of all ranks' tensors.

        tensors: a list of one tensor, of the same shape and type on all ranks; opts:
        AllreduceOptions, or a ReduceOp.
        """
        if type(opts) is AllreduceOptions and self._allreduce_at_once(tensors, opts):
            return DONE
        options = options_of(AllreduceOptions, opts, timeout)
        return self._allreduce(only_one(tensors, "allreduce"), options)

    def _allreduce_at_once(self, tensors: Any, options: Any) -> bool:
        """The short way for what most calls ask: to run, now, on one dense tensor of floats.

        Returns False if the call asks something else. It checks all that the long way checks, and
        halves the time of a small allreduce.
        """
        if wants_work(options) or type(tensors) is not list or len(tensors) != 1:
            return False
        if is_recording():
            return False
        tensor = tensors[0]
        number = _FLOATS.get(tensor.dtype)
        op = _ON_FLOATS.get(hash(options.reduceOp))
        if number is None or op is None or type(tensor) not in PLAIN or not tensor.is_cpu:
            return False
        if tensor.layout is not _STRIDED or not tensor.is_contiguous() or tensor.is_neg():
            return False
        if self._timeout is not None or options.timeout > _ZERO:
            return False
        x, n = tensor.data_ptr(), tensor.numel()
        self._context.run_raw(_core.Request(_ALLREDUCE, x, n, x, n, number, op=op, keep=tensor))
        return True

    def _allreduce(self, tensor: torch.Tensor, options: Any) -> dist.Work:
        how = reduction(options.reduceOp)
        if tensor.is_sparse:
            return self._allreduce_sparse(tensor, how, options)
        number, parts = computed_as(tensor.dtype, how.name, "allreduce")
        block, finish = updated(tensor, "allreduce")
        source = scaled(block, how)
        return self._begin(
            options, _ALLREDUCE, source, block, number, parts, [tensor], finish, op=how.number
        )

    allreduce_sparse = allreduce

    def _allreduce_sparse(self, tensor: torch.Tensor, how: Reduction, options: Any) -> dist.Work:
        """Waits until the ranks have told each other how many elements they have."""
        what = "allreduce of sparse tensors"
        if how != SUM:
            raise InvalidArgument(f"{what}: weft computes their sum only, not {how.name}")
        computed_as(tensor.dtype, how.name, what)
        own = Sparse(tensor, what)
        told = torch.empty((self._size, len(own.facts)), dtype=torch.int64)
        self._context.run_raw(_core.Request(
            _ALLGATHER, own.facts.data_ptr(), len(own.facts), told.data_ptr(), told.numel(), I64,
            keep=(own.facts, told),
        ))  # fmt: skip
        facts = told.tolist()
        counts = own.counts(facts)
        gathered = own.bytes.new_empty(sum(counts))
        return self._begin(
            options, _ALLGATHER, own.bytes, gathered, U8, 1, [tensor],
            own.sum_into(gathered, facts), counts=counts,
        )  # fmt: skip

    @recorded("all_reduce")
    def allreduce_coalesced(
        self, tensors: Sequence[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """allreduce() of several tensors at once."""
        options = for_work(options_of(AllreduceCoalescedOptions, opts, None))
        return JointWork([self._allreduce(tensor, options) for tensor in tensors])

    @recorded("broadcast")
    def broadcast(
        self, tensors: Any, opts: Any = None, root: int = 0, timeout: Optional[timedelta] = None
    ) -> dist.Work:
        """Replaces the tensor by that of rank opts.rootRank. opts: BroadcastOptions, or a rank."""
        tensor = only_one(tensors, "broadcast")
        options = rooted(BroadcastOptions, opts, root, timeout)
        number, parts = moved_as(tensor.dtype)
        is_root = options.rootRank == self._rank
        block, finish = (updated if is_root else written_to)(tensor, "broadcast")
        return self._begin(
            options, _BROADCAST, block, block, number, parts, [tensor],
            None if is_root else finish, root=options.rootRank,
        )  # fmt: skip

    @recorded("reduce")
    def reduce(
        self,
        tensors: Any,
        opts: Any = None,
        root: int = 0,
        op: Any = None,
        timeout: Optional[timedelta] = None,
    ) -> dist.Work:
        """As allreduce(), but only the root's tensor is replaced; the others stay as they are."""
        tensor = only_one(tensors, "reduce")
        options = rooted(ReduceOptions, opts, root, timeout)
        if op is not None:
            options.reduceOp = op
        how = reduction(options.reduceOp)
        number, parts = computed_as(tensor.dtype, how.name, "reduce")
        if options.rootRank == self._rank:
            block, finish = updated(tensor, "reduce")
            output: Optional[torch.Tensor] = block
        else:
            block, finish, output = read_from(tensor, "reduce"), None, None
        return self._begin(
            options, _REDUCE, scaled(block, how), output, number, parts, [tensor], finish,
            root=options.rootRank, op=how.number,
        )  # fmt: skip

    @recorded("barrier")
    def barrier(self, opts: Any = None, timeout: Optional[timedelta] = None) -> dist.Work:
        """Ends when all ranks have called it."""
        if isinstance(opts, timedelta):
            opts, timeout = None, opts
        options = options_of(BarrierOptions, opts, timeout)
        return self._begin(options, _BARRIER, None, None, 0, 1, [], None)

    @recorded("all_gather_into_tensor", 1)
    def all_gather_single(
        self, output: torch.Tensor, input: torch.Tensor, opts: Any = None
    ) -> dist.Work:
        """output := the inputs of all ranks, one after another; size() times as many elements."""
        what = "all_gather_into_tensor"
        same_type(output, input, what)
        if output.numel() != input.numel() * self._size:
            raise InvalidArgument(
                f"{what}: the output has {output.numel()} elements, but {self._size} ranks give "
                f"{input.numel()} each"
            )
        number, parts = moved_as(input.dtype)
        source = read_from(input, what)
        block, finish = written_to(output, what)
        options = options_of(AllgatherOptions, opts, None)
        return self._begin(
            options, _ALLGATHER, source, block, number, parts, [output], finish
        )

    _allgather_base = all_gather_single

    @recorded("all_gather_into_tensor", 1)
    def all_gather_single_coalesced(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """all_gather_single() of several pairs of tensors at once."""
        options = for_work(options_of(AllgatherOptions, opts, None))
        pairs = _pairs(outputs, inputs)
        return JointWork([self.all_gather_single(y, x, options) for y, x in pairs])

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    @recorded("reduce_scatter_tensor", 1)
    def reduce_scatter_single(
        self, output: torch.Tensor, input: torch.Tensor, opts: Any = None
    ) -> dist.Work:
        """output := this rank's block of the reduction of all ranks' inputs.

        The input has size() blocks of as many elements as the output.
        """
        what = "reduce_scatter_tensor"
        same_type(output, input, what)
        if input.numel() != output.numel() * self._size:
            raise InvalidArgument(
                f"{what}: the input has {input.numel()} elements, but {self._size} ranks get "
                f"{output.numel()} each"
            )
        options = options_of(ReduceScatterOptions, opts, None)
        how = reduction(options.reduceOp)
        number, parts = computed_as(input.dtype, how.name, what)
        source = scaled(read_from(input, what), how)
        block, finish = written_to(output, what)
        return self._begin(
            options, _REDUCE_SCATTER, source, block, number, parts, [output], finish, op=how.number
        )

    _reduce_scatter_base = reduce_scatter_single

    @recorded("reduce_scatter_tensor", 1)
    def reduce_scatter_single_coalesced(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """reduce_scatter_single() of several pairs of tensors at once."""
        options = for_work(options_of(ReduceScatterOptions, opts, None))
        pairs = _pairs(outputs, inputs)
        return JointWork([self.reduce_scatter_single(y, x, options) for y, x in pairs])

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced


def _pairs(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> List[Any]:
    if len(outputs) != len(inputs):
        raise InvalidArgument(f"there are {len(outputs)} outputs for {len(inputs)} inputs")
    return list(zip(outputs, inputs))


def rooted(kind: Any, opts: Any, root: int, timeout: Optional[timedelta]) -> Any:
    """Options with a root: as they are given, or for a rank."""
    if isinstance(opts, kind):
        return opts
    options = options_of(kind, None, timeout)
    options.rootRank = root if opts is None else opts
    return options
