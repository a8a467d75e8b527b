"""Operations as values: each function turns arrays and options into a Call, and checks them.

Errors that a rank can see alone are raised here, before anything moves. Blocks of arrays are counted
in rows along dimension 0; Weft counts elements.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from weft._arrays import Operand, Shape, input_of, new_like, output_of
from weft._core import AllreduceAlgorithm, Bits, Collective, Compression, DataType, ErrorFeedback
from weft._core import ReduceOp, Request

OpLike = Union[ReduceOp, str]
AlgorithmLike = Union[AllreduceAlgorithm, str]
CompressionLike = Union[Compression, str]
BitsLike = Union[Bits, str]
Weights = Mapping[int, float]
Targets = Union[Mapping[int, float], Sequence[int]]

_OPS: Dict[Any, int] = {**{each: int(each) for each in ReduceOp}}
_OPS.update({name: int(each) for name, each in ReduceOp.__members__.items()})
_OPS.update({"mean": _OPS["average"], "avg": _OPS["average"], "prod": _OPS["product"]})
_OPS.update({"and": _OPS["bit_and"], "or": _OPS["bit_or"], "xor": _OPS["bit_xor"]})
_ALGORITHMS: Dict[Any, int] = {**{each: int(each) for each in AllreduceAlgorithm}}
_ALGORITHMS.update({name: int(each) for name, each in AllreduceAlgorithm.__members__.items()})
_ALGORITHMS.update({"auto": _ALGORITHMS["automatic"], "mesh": _ALGORITHMS["split"]})
_COMPRESSIONS: Dict[Any, int] = {**{each: int(each) for each in Compression}}
_COMPRESSIONS.update({name: int(each) for name, each in Compression.__members__.items()})
_BITS: Dict[Any, int] = {**{each: int(each) for each in Bits}}
_BITS.update({name: int(each) for name, each in Bits.__members__.items()})
_BITS["auto"] = _BITS["automatic"]
_LOW_RANK = int(Compression.low_rank)
_RANK = 4  # without one


_NO_OPTIONS: Dict[str, Any] = {}
_NEEDS_ALL: Dict[str, Any] = {"needs_all": True}


class Call:
    """An operation on arrays, and the array that is the result."""

    __slots__ = ("kind", "x", "y", "out", "options")

    def __init__(
        self,
        kind: Collective,
        x: Optional[Operand] = None,
        y: Optional[Operand] = None,
        out: Any = None,
        options: Dict[str, Any] = _NO_OPTIONS,
    ) -> None:
        self.kind = kind
        self.x = x
        self.y = y
        self.out = out
        stream = stream_of(x, y)
        self.options = options if stream is None else {**options, "stream": stream}

    def request(self, **more: Any) -> Request:
        """The operation as the core takes it."""
        return Request(int(self.kind), *self._memory(), keep=self._owners(), **self.options, **more)

    def _memory(self) -> Tuple[int, int, int, int, int]:
        """Addresses, counts and type, in the order of Request."""
        x, y = self.x, self.y
        if x is None:
            return (0, 0, 0, 0, 2) if y is None else (0, 0, y.address, y.count, y.dtype)
        if y is None:
            return x.address, x.count, 0, 0, x.dtype
        return x.address, x.count, y.address, y.count, x.dtype

    def shape(self) -> Shape:
        """That of the input, or of the output where there is no input."""
        operand = self.x if self.x is not None else self.y
        return () if operand is None else operand.shape

    def _owners(self) -> Tuple[object, ...]:
        """What must live until the operation is done."""
        return tuple(each.owner for each in (self.x, self.y) if each is not None)


def stream_of(*operands: Optional[Operand]) -> Optional[int]:
    """The stream of the first operand that is GPU memory."""
    for each in operands:
        if each is not None and each.stream is not None:
            return each.stream
    return None


def op_number(op: OpLike) -> int:
    """The number of a reduction, given as a ReduceOp or by name."""
    try:
        return _OPS[op]
    except (KeyError, TypeError):
        names = ", ".join(ReduceOp.__members__)
        raise ValueError(f"op {op!r} does not exist; there are {names}") from None


def algorithm_number(algorithm: AlgorithmLike) -> int:
    """The number of an algorithm, given as an AllreduceAlgorithm or by name."""
    try:
        return _ALGORITHMS[algorithm]
    except (KeyError, TypeError):
        names = ", ".join(AllreduceAlgorithm.__members__)
        raise ValueError(f"algorithm {algorithm!r} does not exist; there are {names}") from None


def with_bits(bits: BitsLike) -> Dict[str, Any]:
    """The options of a request with such bits, given as Bits or by name."""
    try:
        number = _BITS[bits]
    except (KeyError, TypeError):
        names = ", ".join(Bits.__members__)
        raise ValueError(f"bits {bits!r} do not exist; there are {names}") from None
    return {"bits": number} if number != 0 else _NO_OPTIONS


def needing_all(needs_all: bool) -> Dict[str, Any]:
    """The options of a request that needs all ranks, or does not."""
    if not isinstance(needs_all, (bool, np.bool_)):
        raise TypeError(f"needs_all is True or False, not {needs_all!r}")
    return _NEEDS_ALL if needs_all else _NO_OPTIONS


def _rank_of(compression: CompressionLike) -> Tuple[CompressionLike, int]:
    """A compression without its rank, and the rank: "low_rank:8" gives ("low_rank", 8)."""
    if not isinstance(compression, str) or not compression.startswith("low_rank:"):
        return compression, _RANK
    name, rank = compression.split(":", 1)
    if not rank.isdecimal():
        raise ValueError(f"compression {compression!r}: the rank is a number, as in low_rank:4")
    return name, int(rank)


def compression_number(compression: CompressionLike) -> int:
    """The number of a compression, given as a Compression or by name."""
    try:
        return _COMPRESSIONS[_rank_of(compression)[0]]
    except (KeyError, TypeError):
        names = ", ".join(Compression.__members__)
        raise ValueError(f"compression {compression!r} does not exist; there are {names}") from None


def compressed(
    compression: CompressionLike,
    feedback: Optional[ErrorFeedback] = None,
    shape: Optional[Sequence[int]] = None,
) -> Dict[str, Any]:
    """The options of a request that is compressed; none of one that is not.

    shape: of the tensor. None: it is a part of several, and so no matrix of low rank.
    """
    number = compression_number(compression)
    if number == 0 and feedback is None:
        return {}
    options: Dict[str, Any] = {"compression": number}
    if feedback is not None:
        options["feedback"] = feedback
    if number == _LOW_RANK:
        if shape is None:
            raise ValueError("compression low_rank takes matrices, and what is sent here is none")
        options["low_rank"] = (shape[0] if len(shape) > 0 else 1, _rank_of(compression)[1])
    return options


def same_shape(kind: Collective, x: Any, out: Any, options: Dict[str, Any]) -> Call:
    """An operation whose output has the shape of its input."""
    source = input_of(x, kind, options.get("op"))
    return _call(kind, source, source.shape, out, options)


def gathered(
    kind: Collective,
    x: Any,
    out: Any,
    ranks: int,
    counts: Optional[Sequence[int]],
    options: Dict[str, Any],
) -> Call:
    """An operation that puts blocks of `ranks` ranks one after another along dimension 0."""
    source = input_of(x, kind)
    rows = list(counts) if counts is not None else [_rows(source)] * ranks
    _check_rows(kind, "counts", rows, ranks)
    shape = (sum(rows), *source.shape[1:])
    if counts is not None:
        options = {**options, "counts": _elements(rows, source)}
    return _call(kind, source, shape, out, options)


def scattered_reduction(
    x: Any,
    out: Any,
    rank: int,
    size: int,
    counts: Optional[Sequence[int]],
    op: OpLike,
    bits: BitsLike = "automatic",
) -> Call:
    """reduce_scatter: this rank's block of the rows."""
    kind = Collective.reduce_scatter
    source = input_of(x, kind, op_number(op))
    rows = list(counts) if counts is not None else even_rows(_rows(source), size)
    _check_rows(kind, "counts", rows, size)
    _check_sum(kind, "counts", rows, _rows(source))
    options = {"op": op_number(op), "counts": _elements(rows, source), **with_bits(bits)}
    return _call(kind, source, (rows[rank], *source.shape[1:]), out, options)


def scattered(
    x: Any, out: Any, rank: int, size: int, root: int, counts: Optional[Sequence[int]]
) -> Call:
    """scatter: this rank's block of the rows of the root's array."""
    kind = Collective.scatter
    if x is None:
        if rank == root:
            raise TypeError("scatter: the root must give an array")
        if out is None:
            raise TypeError("scatter: a rank that gives no array must give `out`")
        return Call(kind, None, output_of(out, kind), out, {"root": root})
    source = input_of(x, kind)
    rows = list(counts) if counts is not None else even_rows(_rows(source), size)
    _check_rows(kind, "counts", rows, size)
    _check_sum(kind, "counts", rows, _rows(source))
    options: Dict[str, Any] = {"root": root}
    if rank == root:
        options["counts"] = _elements(rows, source)
    return _call(kind, source, (rows[rank], *source.shape[1:]), out, options)


def exchanged(
    x: Any,
    out: Any,
    size: int,
    send_counts: Optional[Sequence[int]],
    receive_counts: Optional[Sequence[int]],
) -> Call:
    """alltoall, and with counts of rows alltoallv."""
    kind = Collective.alltoall
    source = input_of(x, kind)
    if send_counts is None or receive_counts is None:
        if _rows(source) % size != 0:
            raise ValueError(
                f"alltoall: {_rows(source)} rows are not {size} equal blocks; use alltoallv"
            )
        return _call(kind, source, source.shape, out, {})
    sent, received = list(send_counts), list(receive_counts)
    _check_rows(kind, "send_counts", sent, size)
    _check_rows(kind, "receive_counts", received, size)
    _check_sum(kind, "send_counts", sent, _rows(source))
    options = {
        "counts": _elements(sent, source),
        "receive_counts": _elements(received, source),
    }
    return _call(kind, source, (sum(received), *source.shape[1:]), out, options)


def sent(x: Any, target: int) -> Call:
    """send: there is no output."""
    return Call(Collective.send, input_of(x, Collective.send), None, None, {"peer": target})


def received(out: Any, source: int) -> Call:
    """recv: there is no input."""
    options = {"peer": source, "receives": True}
    return Call(Collective.send, None, output_of(out, Collective.send), out, options)


def input_only(kind: Collective, x: Any, out: Any, options: Dict[str, Any]) -> Call:
    """An operation that writes nothing at this rank, as a gather at every rank but the root."""
    return Call(kind, input_of(x, kind, options.get("op")), None, out, options)


def even_rows(rows: int, size: int) -> List[int]:
    """Rows of each rank's block: equal, or one more for the first ranks."""
    return [rows // size + (1 if rank < rows % size else 0) for rank in range(size)]


def _call(kind: Collective, x: Operand, shape: Shape, out: Any, options: Dict[str, Any]) -> Call:
    if out is None:
        out = new_like(x, shape)
    y = output_of(out, kind, options.get("op"))
    if (x.dtype, x.unit) != (y.dtype, y.unit):
        raise TypeError(f"{kind.name}: the input is {_type_of(x)}, the output {_type_of(y)}")
    if y.count != math.prod(shape) * x.unit:
        raise ValueError(f"{kind.name}: the output has shape {y.shape} instead of {shape}")
    return Call(kind, x, y, out, options)


def _type_of(x: Operand) -> str:
    name = DataType(x.dtype).name
    return name if x.dtype != DataType.bytes else f"{x.unit} {name} an element"


def _rows(x: Operand) -> int:
    return x.shape[0] if x.shape else 1


def _elements(rows: Sequence[int], x: Operand) -> List[int]:
    each = math.prod(x.shape[1:]) * x.unit
    return [each * count for count in rows]


def _check_rows(kind: Collective, name: str, rows: Sequence[int], ranks: int) -> None:
    if len(rows) != ranks:
        raise ValueError(f"{kind.name}: {name} has {len(rows)} numbers, one for each of {ranks}")
    if any(count < 0 for count in rows):
        raise ValueError(f"{kind.name}: {name} has a negative number: {list(rows)}")


def _check_sum(kind: Collective, name: str, rows: Sequence[int], expected: int) -> None:
    if sum(rows) != expected:
        raise ValueError(
            f"{kind.name}: {name} sums to {sum(rows)}, the input has {expected} rows"
        )
