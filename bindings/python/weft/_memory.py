"""NumPy arrays in Weft's shared segments, which the other ranks of the machine read in place."""

from __future__ import annotations

import math
import sys
from typing import Any, Sequence, Union

import numpy as np

from weft._arrays import numpy_dtype
from weft._core import Memory

ShapeLike = Union[int, Sequence[int]]


def empty(shape: ShapeLike, dtype: Any = np.float32) -> np.ndarray:
    """A NumPy array in a shared segment, freed with its last view.

    shape: extents. dtype: elements of any fixed size, as NumPy names them, or Weft's names ("f32",
    "bf16"). Raises Exhausted if the machine's shared memory is full.
    """
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(extent < 0 for extent in extents):
        raise ValueError(f"the shape {extents} has a negative extent")
    known = numpy_dtype(dtype)
    count = math.prod(extents)
    if count * known.itemsize > sys.maxsize:
        raise ValueError(f"the shape {extents} has more bytes than memory can have")
    if count == 0:
        return np.empty(extents, known)
    memory = memoryview(Memory(count * known.itemsize))  # type: ignore[arg-type]
    return np.frombuffer(memory, np.uint8).view(known).reshape(extents)


def zeros(shape: ShapeLike, dtype: Any = np.float32) -> np.ndarray:
    """As empty(), filled with zeros. The pages come from the kernel as zeros, so it costs no more."""
    return empty(shape, dtype)


def from_numpy(array: Any) -> np.ndarray:
    """A copy of `array` in a shared segment, in this machine's byte order.

    Raises TypeError for a masked array: its mask would be lost.
    """
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("masked arrays are not supported; give x.filled(...) or x.data")
    source = np.asarray(array)
    copy = empty(source.shape, source.dtype.newbyteorder("="))
    copy[...] = source
    return copy
