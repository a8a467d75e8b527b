"""The operations of a process group in which tensors may differ from rank to rank.

Lists of tensors may have a different shape for each rank, as long as the two sides of each transfer
agree on the number of elements.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllToAllOptions,
    GatherOptions,
    ReduceScatterOptions,
    ScatterOptions,
)

from weft import _core
from weft._errors import InvalidArgument
from weft.torch._collectives import options_of, rooted, scaled
from weft.torch._dtype import computed_as, moved_as
from weft.torch._recording import recorded
from weft.torch._reductions import reduction
from weft.torch._starting import Starting, for_work
from weft.torch._tensors import (
    only_one,
    read_all,
    read_from,
    same_type,
    written_all,
    written_to,
)
from weft.torch._work import JointWork

_ALLGATHER = int(_core.Collective.allgather)
_REDUCE_SCATTER = int(_core.Collective.reduce_scatter)
_GATHER = int(_core.Collective.gather)
_SCATTER = int(_core.Collective.scatter)
_ALLTOALL = int(_core.Collective.alltoall)


def _counts(tensors: Sequence[torch.Tensor], parts: int) -> List[int]:
    return [tensor.numel() * parts for tensor in tensors]


def _list_of(lists: Any, what: str) -> List[torch.Tensor]:
    """The list of tensors, which torch hands over inside a list of one."""
    if len(lists) == 1 and isinstance(lists[0], (list, tuple)):
        return list(lists[0])
    if all(isinstance(each, torch.Tensor) for each in lists):
        return list(lists)
    raise InvalidArgument(f"{what}: expected one list of tensors, got {len(lists)}")


def _check_length(tensors: Sequence[Any], size: int, what: str) -> None:
    if len(tensors) != size:
        raise InvalidArgument(f"{what}: the list has {len(tensors)} tensors for {size} ranks")


class Exchanges(Starting):
    """Operations with torch's names and arguments. Each gives a Work."""

    @recorded("all_gather", 1)
    def allgather(
        self, output_lists: Any, inputs: Any, opts: Any = None, timeout: Optional[timedelta] = None
    ) -> dist.Work:
        """Element r of the output list := the input of rank r. Their sizes may differ."""
        what = "all_gather"
        tensor = only_one(inputs, what)
        outputs = _list_of(output_lists, what)
        _check_length(outputs, self._size, what)
        number, parts = moved_as(tensor.dtype)
        source = read_from(tensor, what)
        block, finish = written_all(outputs, tensor.dtype, what)
        return self._begin(
            options_of(AllgatherOptions, opts, timeout), _ALLGATHER, source, block, number, parts,
            outputs, finish, counts=_counts(outputs, parts),
        )  # fmt: skip

    @recorded("all_gather", 1)
    def allgather_coalesced(
        self, output_lists: Sequence[Any], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """allgather() of several tensors. Element r of the outputs: one list for each rank."""
        options = for_work(options_of(AllgatherOptions, opts, None))
        works = []
        for index, tensor in enumerate(inputs):
            outputs = [each[index] for each in output_lists]
            works.append(self.allgather([outputs], [tensor], options))
        return JointWork(works)

    @recorded("gather", 1)
    def gather(
        self,
        output_lists: Any,
        inputs: Any,
        opts: Any = None,
        root: int = 0,
        timeout: Optional[timedelta] = None,
    ) -> dist.Work:
        """At the root, element r of the output list := the input of rank r."""
        what = "gather"
        options = rooted(GatherOptions, opts, root, timeout)
        tensor = only_one(inputs, what)
        number, parts = moved_as(tensor.dtype)
        source = read_from(tensor, what)
        if options.rootRank != self._rank:
            return self._begin(
                options, _GATHER, source, None, number, parts, [], None, root=options.rootRank
            )
        outputs = _list_of(output_lists, what)
        _check_length(outputs, self._size, what)
        block, finish = written_all(outputs, tensor.dtype, what)
        return self._begin(
            options, _GATHER, source, block, number, parts, outputs, finish,
            root=options.rootRank, counts=_counts(outputs, parts),
        )  # fmt: skip

    @recorded("scatter", 1)
    def scatter(
        self,
        outputs: Any,
        input_lists: Any,
        opts: Any = None,
        root: int = 0,
        timeout: Optional[timedelta] = None,
    ) -> dist.Work:
        """The output of rank r := element r of the root's input list."""
        what = "scatter"
        options = rooted(ScatterOptions, opts, root, timeout)
        tensor = only_one(outputs, what)
        number, parts = moved_as(tensor.dtype)
        block, finish = written_to(tensor, what)
        if options.rootRank != self._rank:
            return self._begin(
                options, _SCATTER, None, block, number, parts, [tensor], finish,
                root=options.rootRank,
            )  # fmt: skip
        inputs = _list_of(input_lists, what)
        _check_length(inputs, self._size, what)
        source = read_all(inputs, tensor.dtype, what)
        return self._begin(
            options, _SCATTER, source, block, number, parts, [tensor], finish,
            root=options.rootRank, counts=_counts(inputs, parts),
        )  # fmt: skip

    @recorded("reduce_scatter", 1)
    def reduce_scatter(
        self,
        outputs: Any,
        input_lists: Any,
        opts: Any = None,
        timeout: Optional[timedelta] = None,
    ) -> dist.Work:
        """The output of rank r := the reduction of element r of all ranks' input lists.

        The elements may have different sizes, which are the same on all ranks. opts:
        ReduceScatterOptions, or a ReduceOp.
        """
        what = "reduce_scatter"
        options = options_of(ReduceScatterOptions, opts, timeout)
        tensor = only_one(outputs, what)
        inputs = _list_of(input_lists, what)
        _check_length(inputs, self._size, what)
        how = reduction(options.reduceOp)
        number, parts = computed_as(tensor.dtype, how.name, what)
        source = scaled(read_all(inputs, tensor.dtype, what), how)
        block, finish = written_to(tensor, what)
        return self._begin(
            options, _REDUCE_SCATTER, source, block, number, parts, [tensor], finish,
            op=how.number, counts=_counts(inputs, parts),
        )  # fmt: skip

    @recorded("all_to_all", 1)
    def alltoall(
        self,
        outputs: Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor],
        opts: Any = None,
        timeout: Optional[timedelta] = None,
    ) -> dist.Work:
        """Element r of the outputs := the element of rank r's inputs that is for this rank."""
        what = "all_to_all"
        _check_length(outputs, self._size, what)
        _check_length(inputs, self._size, what)
        dtype = inputs[0].dtype
        number, parts = moved_as(dtype)
        source = read_all(inputs, dtype, what)
        block, finish = written_all(outputs, dtype, what)
        return self._begin(
            options_of(AllToAllOptions, opts, timeout), _ALLTOALL, source, block, number, parts,
            list(outputs), finish, counts=_counts(inputs, parts),
            receive_counts=_counts(outputs, parts),
        )  # fmt: skip

    @recorded("all_to_all", 1)
    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_splits: Optional[Sequence[int]] = None,
        input_splits: Optional[Sequence[int]] = None,
        opts: Any = None,
        timeout: Optional[timedelta] = None,
    ) -> dist.Work:
        """Part r of the output := the part of rank r's input that is for this rank.

        The parts are cut along dimension 0. The splits are the rows of each part; without them the
        parts are equal.
        """
        what = "all_to_all_single"
        same_type(output, input, what)
        number, parts = moved_as(input.dtype)
        to_each = self._split(input, input_splits, f"{what}: input", parts)
        from_each = self._split(output, output_splits, f"{what}: output", parts)
        source = read_from(input, what)
        block, finish = written_to(output, what)
        return self._begin(
            options_of(AllToAllOptions, opts, timeout), _ALLTOALL, source, block, number, parts,
            [output], finish, counts=to_each, receive_counts=from_each,
        )  # fmt: skip

    alltoall_base = all_to_all_single

    def _split(
        self, tensor: torch.Tensor, splits: Optional[Sequence[int]], what: str, parts: int
    ) -> List[int]:
        """How many elements of the DataType are for each rank."""
        rows, row = _rows(tensor, parts)
        if not splits:
            if rows % self._size != 0:
                raise InvalidArgument(
                    f"{what}: {rows} rows cannot be cut into {self._size} equal parts"
                )
            return [rows // self._size * row] * self._size
        if len(splits) != self._size:
            raise InvalidArgument(f"{what}: {len(splits)} splits for {self._size} ranks")
        if min(splits) < 0 or sum(splits) != rows:
            raise InvalidArgument(f"{what}: the splits {list(splits)} do not sum to {rows} rows")
        return [split * row for split in splits]


def _rows(tensor: torch.Tensor, parts: int) -> Tuple[int, int]:
    """Rows along dimension 0, and elements of the DataType in each."""
    if tensor.dim() == 0:
        raise InvalidArgument("all_to_all_single: a tensor without dimensions cannot be cut")
    rows = tensor.size(0)
    return rows, tensor.numel() // rows * parts if rows else 0
