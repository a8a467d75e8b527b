"""Arrays of any library as memory: NumPy, torch, DLPack, the buffer protocol, CUDA's array interface.

Nothing is copied, except an input that is not contiguous. torch is never imported: a tensor can only
exist if the program has imported torch itself.

Weft computes with some types. Operations that only move data take elements of any fixed size: those
of the other types travel as bytes.
"""

from __future__ import annotations

import math
import sys
from typing import Any, Dict, Iterable, Optional, Tuple, Union

import numpy as np

from weft._core import ArrayView, Collective, DataType, ReduceOp, plain_memory

Shape = Tuple[int, ...]

# By NumPy's kind and the bytes of an element.
_NUMPY_TYPES: Dict[Tuple[str, int], DataType] = {
    ("f", 2): DataType.f16,
    ("f", 4): DataType.f32,
    ("f", 8): DataType.f64,
    ("i", 1): DataType.i8,
    ("u", 1): DataType.u8,
    ("i", 2): DataType.i16,
    ("u", 2): DataType.u16,
    ("i", 4): DataType.i32,
    ("u", 4): DataType.u32,
    ("i", 8): DataType.i64,
    ("u", 8): DataType.u64,
}
_TORCH_NAMES: Dict[str, DataType] = {
    "torch.float16": DataType.f16,
    "torch.bfloat16": DataType.bf16,
    "torch.float32": DataType.f32,
    "torch.float64": DataType.f64,
    "torch.float8_e4m3fn": DataType.e4m3,
    "torch.float8_e5m2": DataType.e5m2,
    "torch.int8": DataType.i8,
    "torch.uint8": DataType.u8,
    "torch.int16": DataType.i16,
    "torch.uint16": DataType.u16,
    "torch.int32": DataType.i32,
    "torch.uint32": DataType.u32,
    "torch.int64": DataType.i64,
    "torch.uint64": DataType.u64,
}
_torch_types: Dict[Any, Optional[DataType]] = {}  # by torch's type, as they are met
# Types that the package ml_dtypes brings to NumPy.
_ML_NAMES: Dict[DataType, str] = {
    DataType.bf16: "bfloat16",
    DataType.e4m3: "float8_e4m3fn",
    DataType.e5m2: "float8_e5m2",
}
_ML_TYPES = {name: dtype for dtype, name in _ML_NAMES.items()}
_DLPACK_TYPES: Dict[Tuple[str, int], DataType] = {
    ("bfloat", 16): DataType.bf16,
    ("float8_e4m3fn", 8): DataType.e4m3,
    ("float8_e5m2", 8): DataType.e5m2,
}
_DLPACK_KINDS = {"float": "f", "int": "i", "uint": "u", "bool": "b", "complex": "c"}
_NUMPY_NAMES: Dict[DataType, str] = {
    DataType.f16: "float16",
    DataType.f32: "float32",
    DataType.f64: "float64",
    DataType.i8: "int8",
    DataType.u8: "uint8",
    DataType.i16: "int16",
    DataType.u16: "uint16",
    DataType.bytes: "uint8",
    DataType.i32: "int32",
    DataType.u32: "uint32",
    DataType.i64: "int64",
    DataType.u64: "uint64",
}
# DLPack's numbers of memory that the CPU reads: the CPU itself, and pinned memory of CUDA and ROCm.
_HOST_DEVICES = {1: "CPU", 3: "CUDA host", 11: "ROCm host"}
_DEVICE_NAMES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "CUDA managed"}
_TYPES = (
    "Weft computes with float8_e4m3fn, float8_e5m2, float16, bfloat16, float32, float64, int8, uint8, "
    "int16, uint16, int32, uint32, int64, uint64"
)
# Operations that do not look at the elements.
_MOVING = frozenset(
    (
        Collective.broadcast,
        Collective.allgather,
        Collective.neighbor_allgather,
        Collective.gather,
        Collective.scatter,
        Collective.alltoall,
        Collective.send,
    )
)


class Operand:
    """The memory of an array."""

    __slots__ = ("address", "count", "dtype", "shape", "owner", "array", "stream", "unit", "is_copy")

    def __init__(
        self,
        address: int,
        count: int,
        dtype: int,
        shape: Shape,
        owner: object,
        array: Any,
        stream: Optional[int] = None,
        unit: int = 1,
        is_copy: bool = False,
    ) -> None:
        self.address = address
        self.count = count  # elements of the DataType
        self.dtype = dtype  # the number of a DataType
        self.shape = shape
        self.owner = owner  # keeps the memory alive
        self.array = array  # results are arrays of its library and type
        self.stream = stream  # of a GPU, in whose order the memory is used; None: host memory
        self.unit = unit  # how many elements of the DataType an element of the array is
        self.is_copy = is_copy  # of the elements as they are now: the array is not contiguous


def input_of(x: Any, what: Collective, op: Optional[int] = None) -> Operand:
    """The memory of `x` for reading, for an operation with that ReduceOp, if it has one.

    An array that is not contiguous is copied. Raises TypeError if `x` is no array, or has a type that
    the operation does not take, or a device that Weft does not know.
    """
    memory = plain_memory(x, False)
    if memory is not None:
        return _plain(memory, x)
    return _operand(x, _Use(what.name, False, what in _MOVING, op))


def output_of(x: Any, what: Collective, op: Optional[int] = None) -> Operand:
    """The memory of `x` for writing.

    Raises TypeError as input_of does, and ValueError if `x` is read-only or not contiguous.
    """
    memory = plain_memory(x, True)
    if memory is not None:
        return _plain(memory, x)
    return _operand(x, _Use(what.name, True, what in _MOVING, op))


def memory_of(x: Any, what: str, writes: bool, moves: bool = False) -> Operand:
    """The memory of `x`, as input_of() and output_of() give it.

    what: is named in errors. moves: elements of any type, as for operations that only move data.
    """
    memory = plain_memory(x, writes)
    if memory is not None:
        return _plain(memory, x)
    return _operand(x, _Use(what, writes, moves))


def _plain(memory: Tuple[int, int, int], x: Any) -> Operand:
    """A tensor alone does not keep its memory, as it may get another storage."""
    owner = x if isinstance(x, np.ndarray) else x.detach()
    return Operand(*memory, tuple(x.shape), owner, x)


def check_prepared(x: Operand, what: str) -> None:
    """Raises ValueError if runs of a prepared operation would not see the array itself."""
    if x.is_copy:
        raise ValueError(
            f"{what}: the input is not contiguous, so a prepared operation would read what it is now"
        )


class _Use:
    """What an operation does with an array."""

    __slots__ = ("what", "writes", "moves", "op")

    def __init__(self, what: str, writes: bool, moves: bool, op: Optional[int] = None) -> None:
        self.what = what  # for errors
        self.writes = writes
        self.moves = moves  # without looking at the elements
        self.op = op  # the ReduceOp

    def travels_as(
        self, known: Optional[DataType], name: Any, size: int, is_bool: bool = False
    ) -> Tuple[int, int]:
        """The DataType of elements, and how many of it one element is.

        known: the DataType that computes with them, if there is one. name: of their type. size: of
        one in bytes. Raises TypeError.
        """
        if known is not None:
            return int(known), 1
        if self.moves and size > 0:
            return int(DataType.bytes), size
        if is_bool and self.op is not None:
            if self.op in (ReduceOp.sum, ReduceOp.average):
                raise TypeError(
                    f"{self.what}: the {ReduceOp(self.op).name} of {name} has no meaning; max or "
                    "bit_or says whether any is true, min or bit_and whether all are; to count, "
                    "convert to an integer type"
                )
            return int(DataType.u8), 1
        raise TypeError(f"{self.what}: the type {name} is not supported; {_TYPES}")


def _operand(x: Any, use: _Use) -> Operand:
    if isinstance(x, np.ndarray):
        return _of_numpy(x, use)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return _of_torch(x, use)
    if hasattr(x, "__cuda_array_interface__"):
        return _of_cuda(x, use)
    if hasattr(x, "__dlpack__"):
        return _of_dlpack(x, use)
    return _of_numpy(_of_buffer(x, use), use)


def _of_buffer(x: Any, use: _Use) -> np.ndarray:
    """A NumPy array of the memory of an object with the buffer protocol or NumPy's array interface."""
    try:
        return np.asarray(memoryview(x))
    except TypeError:
        pass  # it has no buffer protocol
    except ValueError as error:  # a memoryview that was released, or a format that NumPy has not
        raise ValueError(f"{use.what}: the {type(x).__name__} cannot be used: {error}") from None
    if isinstance(getattr(x, "__array_interface__", None), dict):
        return np.asarray(x)
    raise TypeError(
        f"{use.what}: expected an array (NumPy, torch, DLPack or the buffer protocol), not "
        f"{type(x)!r}"
    )


def _of_numpy(x: np.ndarray, use: _Use) -> Operand:
    what = use.what
    if isinstance(x, np.ma.MaskedArray):
        raise TypeError(f"{what}: masked arrays are not supported; give x.filled(...) or x.data")
    known = _numpy_type(x.dtype)
    size = 0 if x.dtype.hasobject else x.dtype.itemsize
    number, unit = use.travels_as(known, x.dtype, size, x.dtype.kind == "b")
    source = x
    if use.writes:
        if not x.flags.writeable:
            raise ValueError(f"{what}: the output is read-only")
        if not x.flags.c_contiguous:
            raise ValueError(f"{what}: the output is not contiguous (strides {x.strides})")
        if not x.dtype.isnative:
            raise TypeError(f"{what}: the output has the byte order of another machine")
    elif not (x.flags.c_contiguous and x.dtype.isnative):
        source = np.ascontiguousarray(x, x.dtype.newbyteorder("=")).reshape(x.shape)
    address = source.__array_interface__["data"][0]
    is_copy = source is not x
    return Operand(address, source.size * unit, number, x.shape, source, x, None, unit, is_copy)


def _numpy_type(dtype: np.dtype[Any]) -> Optional[DataType]:
    return _ML_TYPES.get(dtype.name) or _NUMPY_TYPES.get((dtype.kind, dtype.itemsize))


def _of_torch(x: Any, use: _Use) -> Operand:
    what = use.what
    torch = sys.modules["torch"]
    stream = None
    if x.device.type == "cuda":
        stream = int(torch.cuda.current_stream(x.device).cuda_stream)
    elif x.device.type != "cpu":
        raise TypeError(
            f"{what}: the tensor is on {x.device}; Weft takes tensors on the CPU and on CUDA"
        )
    if x.dtype not in _torch_types:
        _torch_types[x.dtype] = _TORCH_NAMES.get(str(x.dtype))
    size = 0 if x.is_quantized else x.element_size()
    number, unit = use.travels_as(_torch_types[x.dtype], x.dtype, size, x.dtype is torch.bool)
    if x.layout is not torch.strided:
        raise TypeError(f"{what}: the tensor's layout is {x.layout}; Weft takes dense tensors")
    source = x.detach()
    if use.writes:
        if not source.is_contiguous() or source.is_neg() or source.is_conj():
            raise ValueError(f"{what}: the output is not contiguous (strides {x.stride()})")
    else:
        source = source.resolve_conj().resolve_neg().contiguous()
    shape = tuple(source.shape)
    count = source.numel() * unit
    is_copy = source.data_ptr() != x.data_ptr()
    return Operand(source.data_ptr(), count, number, shape, source, x, stream, unit, is_copy)


def _of_cuda(x: Any, use: _Use) -> Operand:
    """CUDA's array interface, version 3: CuPy, Numba and others."""
    what = use.what
    given = x.__cuda_array_interface__
    dtype = np.dtype(given["typestr"])
    size = 0 if dtype.hasobject or not dtype.isnative else dtype.itemsize
    known = _numpy_type(dtype) if dtype.isnative else None
    number, unit = use.travels_as(known, given["typestr"], size, dtype.kind == "b")
    shape, strides = tuple(given["shape"]), given.get("strides")
    if strides is not None and not _is_contiguous(shape, tuple(each // size for each in strides)):
        raise ValueError(f"{what}: the array on the GPU is not contiguous (strides {strides})")
    address, is_read_only = given["data"]
    if use.writes and is_read_only:
        raise ValueError(f"{what}: the output is read-only")
    # 1 and 2 are the default streams, which the driver knows by these numbers, too.
    stream = int(given.get("stream") or 0)
    like = np.empty(0, dtype)
    return Operand(address, math.prod(shape) * unit, number, shape, x, like, stream, unit)


def _of_dlpack(x: Any, use: _Use) -> Operand:
    what = use.what
    device = int(x.__dlpack_device__()[0])
    if device not in _HOST_DEVICES:
        name = _DEVICE_NAMES.get(device, f"device type {device}")
        raise TypeError(
            f"{what}: the array is on {name}; Weft takes arrays on the CPU, and those on CUDA "
            "that have __cuda_array_interface__"
        )
    view = ArrayView(_capsule_of(x, what))
    kind, bits = view.dtype
    size, rest = divmod(bits, 8)
    known = _DLPACK_TYPES.get((kind, bits))
    if known is None and rest == 0:
        known = _NUMPY_TYPES.get((_DLPACK_KINDS.get(kind, ""), size))
    name = f"{kind}{bits}"
    number, unit = use.travels_as(known, name, 0 if rest else size, kind == "bool")
    shape = view.shape
    if not _is_contiguous(shape, view.strides):
        if use.writes:
            raise ValueError(f"{what}: the output is not contiguous (strides {view.strides})")
        copied = _of_numpy(np.ascontiguousarray(np.from_dlpack(x)), use)
        copied.is_copy = True
        return copied
    if use.writes and not view.is_writable:
        raise ValueError(f"{what}: the output is read-only")
    like: Any = None  # of a type that NumPy may lack: a result may not be needed
    if known is not None and known not in _ML_NAMES:
        like = np.empty(0, numpy_dtype(known))
    elif known is None:  # NumPy has no name for some of the types
        like = np.empty(0, np.dtype((_DLPACK_KINDS.get(kind, "V") + str(size))))
    count = math.prod(shape) * unit
    return Operand(view.address, count, number, shape, view, like, None, unit)


def _capsule_of(x: Any, what: str) -> Any:
    try:
        try:
            return x.__dlpack__(max_version=(1, 0))
        except TypeError:
            return x.__dlpack__()  # of a library that is older than versions
    except BufferError as error:
        raise ValueError(f"{what}: the {type(x).__name__} cannot be used: {error}") from None


def _is_contiguous(shape: Shape, strides: Shape) -> bool:
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent == 0:
            return True
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def new_like(like: Operand, shape: Shape) -> Any:
    """An uninitialized array of the library and the type of `like`.

    For an array that is neither of NumPy nor of torch it is a NumPy array, on the host.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(like.array, torch.Tensor):
        return torch.empty(shape, dtype=like.array.dtype, device=like.array.device)
    if like.array is None:
        return np.empty(shape, numpy_dtype(DataType(like.dtype)))
    return np.empty(shape, like.array.dtype.newbyteorder("="))


def numpy_dtype(dtype: Union[DataType, str, Any]) -> np.dtype[Any]:
    """NumPy's type for a DataType, its name ("f32"), or anything that NumPy takes.

    Raises TypeError for a type whose elements are not bytes of a fixed number in this machine's order,
    and for bfloat16, float8_e4m3fn and float8_e5m2 if the package ml_dtypes, which brings them to NumPy,
    has not been installed.
    """
    if isinstance(dtype, str) and dtype in DataType.__members__:
        dtype = DataType[dtype]
    if isinstance(dtype, str) and dtype in _ML_TYPES:
        dtype = _ML_TYPES[dtype]
    if isinstance(dtype, DataType):
        if dtype in _ML_NAMES:
            return _of_ml_dtypes(_ML_NAMES[dtype])
        return np.dtype(_NUMPY_NAMES[dtype])
    found = np.dtype(dtype)
    if found.hasobject or found.itemsize == 0 or not found.isnative:
        raise TypeError(f"the type {found} cannot lie in shared memory")
    return found


def _of_ml_dtypes(name: str) -> np.dtype[Any]:
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(f"NumPy has no {name} of its own; install the package ml_dtypes") from None
    return np.dtype(getattr(ml_dtypes, name))


def settle(arrays: Iterable[Any]) -> None:
    """Waits on the host for torch's current streams of those arrays that are on a GPU."""
    devices = {each.device for each in arrays if getattr(each, "is_cuda", False)}
    for device in devices:
        sys.modules["torch"].cuda.current_stream(device).synchronize()
