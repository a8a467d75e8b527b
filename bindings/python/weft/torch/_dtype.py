"""Element types: which weft.DataType stands for a torch.dtype.

Weft computes with fourteen types. Tensors of other types can still be moved, because a broadcast or a
gather does not look at the elements: they travel as bytes.
"""

from __future__ import annotations

from typing import Dict, Tuple

import torch

from weft._errors import InvalidArgument

F16, BF16, F32, F64, I8, U8, I32, U32, I64, U64, I16, U16 = range(12)
E4M3, E5M2 = 13, 14

# The types with which Weft computes.
NUMBERS: Dict[torch.dtype, int] = {
    torch.float16: F16,
    torch.bfloat16: BF16,
    torch.float8_e4m3fn: E4M3,
    torch.float8_e5m2: E5M2,
    torch.float32: F32,
    torch.float64: F64,
    torch.int8: I8,
    torch.uint8: U8,
    torch.int16: I16,
    torch.int32: I32,
    torch.int64: I64,
}
for _name, _number in (("uint16", U16), ("uint32", U32), ("uint64", U64)):
    if hasattr(torch, _name):  # from torch 2.3 on
        NUMBERS[getattr(torch, _name)] = _number

FLOATING = frozenset((E4M3, E5M2, F16, BF16, F32, F64))
_BYTES = (2, 2, 4, 8, 1, 1, 4, 4, 8, 8, 2, 2, 1, 1, 1)  # of each type


def size_of(number: int) -> int:
    """The bytes of an element of the DataType with this number."""
    return _BYTES[number]


# Complex types: the type of their two parts.
_PARTS: Dict[torch.dtype, int] = {
    torch.complex32: F16,
    torch.complex64: F32,
    torch.complex128: F64,
}

# dtype -> (DataType number, how many of those one element is), for operations that only move.
_moves: Dict[torch.dtype, Tuple[int, int]] = {
    **{dtype: (number, 1) for dtype, number in NUMBERS.items()},
    **{dtype: (number, 2) for dtype, number in _PARTS.items()},
    torch.bool: (U8, 1),
}
if hasattr(torch, "uint64"):
    _moves[torch.uint64] = (I64, 1)


def moved_as(dtype: torch.dtype) -> Tuple[int, int]:
    """The DataType number as which elements of `dtype` are moved, and how many of those one is.

    torch.float8_e5m2fnuz gives (uint8, 1), torch.complex64 gives (float32, 2). No dtype gives uint64, so that
    a message of that type cannot be one of a tensor (_arrivals.py).
    """
    found = _moves.get(dtype)
    if found is None:
        found = _moves[dtype] = (U8, dtype.itemsize)
    return found


def computed_as(dtype: torch.dtype, op: str, what: str) -> Tuple[int, int]:
    """The same for an operation that computes.

    Args:
        op: the name of the reduction, as weft.ReduceOp has it: "sum", "average", ...
        what: the operation, for messages.

    Raises:
        TypeError: Weft cannot reduce this type.
        InvalidArgument: this reduction has no meaning for the type.
    """
    number = NUMBERS.get(dtype)
    if number is not None:
        if op == "average" and number not in FLOATING:
            raise InvalidArgument(
                f"{what}: the average of {dtype} is not a whole number; sum it and divide"
            )
        if op.startswith("bit_") and number in FLOATING:
            raise InvalidArgument(f"{what}: {op} of {dtype} has no meaning; it needs integers")
        return number, 1
    if dtype in _PARTS:
        if op not in ("sum", "average"):
            raise InvalidArgument(f"{what}: {op} of {dtype} has no meaning")
        return _PARTS[dtype], 2
    if dtype is torch.bool:
        if op in ("sum", "average"):
            raise InvalidArgument(
                f"{what}: {op} of torch.bool has no meaning; MAX or BOR say whether any is true, "
                "MIN or BAND whether all are; to count, convert to an integer type"
            )
        return U8, 1
    names = ", ".join(str(each).removeprefix("torch.") for each in NUMBERS)
    raise TypeError(f"{what}: cannot compute with {dtype}; possible are {names}")
