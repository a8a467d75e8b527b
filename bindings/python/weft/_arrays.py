"""Arrays of any library as memory: NumPy, torch, DLPack, the buffer protocol, CUDA's array interface.

Nothing is copied, except an input that is not contiguous. torch is never imported: a tensor can only
exist if the program has imported torch itself.
"""

from __future__ import annotations

import math
import sys
from typing import Any, Dict, Iterable, Optional, Tuple, Union

import numpy as np

from weft._core import ArrayView, Collective, DataType, plain_memory

Shape = Tuple[int, ...]

# By NumPy's kind and the bytes of an element.
_NUMPY_TYPES: Dict[Tuple[str, int], DataType] = {
    ("f", 2): DataType.f16,
    ("f", 4): DataType.f32,
    ("f", 8): DataType.f64,
    ("i", 1): DataType.i8,
    ("u", 1): DataType.u8,
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
    "torch.int8": DataType.i8,
    "torch.uint8": DataType.u8,
    "torch.int32": DataType.i32,
    "torch.uint32": DataType.u32,
    "torch.int64": DataType.i64,
    "torch.uint64": DataType.u64,
}
_torch_numbers: Dict[Any, int] = {}  # by torch's type, as they are met
_DLPACK_KINDS = {"float": "f", "int": "i", "uint": "u"}
_NUMPY_NAMES: Dict[DataType, str] = {
    DataType.f16: "float16",
    DataType.f32: "float32",
    DataType.f64: "float64",
    DataType.i8: "int8",
    DataType.u8: "uint8",
    DataType.i32: "int32",
    DataType.u32: "uint32",
    DataType.i64: "int64",
    DataType.u64: "uint64",
}
# DLPack's numbers of memory that the CPU reads: the CPU itself, and pinned memory of CUDA and ROCm.
_HOST_DEVICES = {1: "CPU", 3: "CUDA host", 11: "ROCm host"}
_DEVICE_NAMES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "CUDA managed"}
_TYPES = "Weft has " + ", ".join(
    ["float16", "bfloat16", "float32", "float64"] + ["int8, uint8, int32, uint32, int64, uint64"]
)


class Operand:
    """The memory of an array."""

    __slots__ = ("address", "count", "dtype", "shape", "owner", "array", "stream")

    def __init__(
        self,
        address: int,
        count: int,
        dtype: int,
        shape: Shape,
        owner: object,
        array: Any,
        stream: Optional[int] = None,
    ) -> None:
        self.address = address
        self.count = count  # elements
        self.dtype = dtype  # the number of a DataType
        self.shape = shape
        self.owner = owner  # keeps the memory alive
        self.array = array  # as the caller gave it
        self.stream = stream  # of a GPU, in whose order the memory is used; None: host memory


def input_of(x: Any, what: Collective) -> Operand:
    """The memory of `x` for reading. An array that is not contiguous is copied.

    Raises TypeError if `x` is no array, or has a type or a device that Weft does not know.
    """
    memory = plain_memory(x, False)
    if memory is not None:
        return Operand(*memory, x.shape, x, x)
    return _operand(x, what.name, False)


def output_of(x: Any, what: Collective) -> Operand:
    """The memory of `x` for writing.

    Raises TypeError as input_of does, and ValueError if `x` is read-only or not contiguous.
    """
    memory = plain_memory(x, True)
    if memory is not None:
        return Operand(*memory, x.shape, x, x)
    return _operand(x, what.name, True)


def memory_of(x: Any, what: str, writes: bool) -> Operand:
    """The memory of `x`, as input_of() and output_of() give it. `what` is named in errors."""
    memory = plain_memory(x, writes)
    if memory is not None:
        return Operand(*memory, x.shape, x, x)
    return _operand(x, what, writes)


def _operand(x: Any, what: str, writes: bool) -> Operand:
    if isinstance(x, np.ndarray):
        return _of_numpy(x, what, writes)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return _of_torch(x, what, writes)
    return _of_view(x, what, writes)


def _of_numpy(x: np.ndarray, what: str, writes: bool) -> Operand:
    known = _numpy_type(x.dtype)
    if known is None:
        raise TypeError(f"{what}: the type {x.dtype} is not supported; {_TYPES}")
    source = x
    if writes:
        if not x.flags.writeable:
            raise ValueError(f"{what}: the output is read-only")
        if not x.flags.c_contiguous:
            raise ValueError(f"{what}: the output is not contiguous (strides {x.strides})")
        if not x.dtype.isnative:
            raise TypeError(f"{what}: the output has the byte order of another machine")
    elif not (x.flags.c_contiguous and x.dtype.isnative):
        source = np.ascontiguousarray(x, x.dtype.newbyteorder("=")).reshape(x.shape)
    address = source.__array_interface__["data"][0]
    return Operand(address, source.size, int(known), x.shape, source, x)


def _numpy_type(dtype: np.dtype[Any]) -> Optional[DataType]:
    if dtype.name == "bfloat16":  # of the package ml_dtypes
        return DataType.bf16
    return _NUMPY_TYPES.get((dtype.kind, dtype.itemsize))


def _of_torch(x: Any, what: str, writes: bool) -> Operand:
    stream = None
    if x.device.type == "cuda":
        stream = int(sys.modules["torch"].cuda.current_stream(x.device).cuda_stream)
    elif x.device.type != "cpu":
        raise TypeError(
            f"{what}: the tensor is on {x.device}; Weft takes tensors on the CPU and on CUDA"
        )
    known = _torch_numbers.get(x.dtype)
    if known is None:
        name = str(x.dtype)
        if name not in _TORCH_NAMES:
            raise TypeError(f"{what}: the type {x.dtype} is not supported; {_TYPES}")
        known = _torch_numbers[x.dtype] = int(_TORCH_NAMES[name])
    if x.layout is not sys.modules["torch"].strided:
        raise TypeError(f"{what}: the tensor's layout is {x.layout}; Weft takes dense tensors")
    source = x.detach()
    if writes:
        if not source.is_contiguous() or source.is_neg():
            raise ValueError(f"{what}: the output is not contiguous (strides {x.stride()})")
    else:
        source = source.resolve_neg().contiguous()
    shape = tuple(source.shape)
    return Operand(source.data_ptr(), source.numel(), known, shape, source, x, stream)


def _of_cuda(x: Any, what: str, writes: bool) -> Operand:
    """CUDA's array interface, version 3: CuPy, Numba and others."""
    given = x.__cuda_array_interface__
    known = _NUMPY_TYPES.get((given["typestr"][1], int(given["typestr"][2:])))
    if known is None or given["typestr"][0] == ">":
        raise TypeError(f"{what}: the type {given['typestr']} is not supported; {_TYPES}")
    shape, strides = tuple(given["shape"]), given.get("strides")
    size = int(given["typestr"][2:])
    if strides is not None and not _is_contiguous(shape, tuple(each // size for each in strides)):
        raise ValueError(f"{what}: the array on the GPU is not contiguous (strides {strides})")
    address, is_read_only = given["data"]
    if writes and is_read_only:
        raise ValueError(f"{what}: the output is read-only")
    # 1 and 2 are the default streams, which the driver knows by these numbers, too.
    stream = given.get("stream")
    return Operand(address, math.prod(shape), int(known), shape, x, x, int(stream or 0))


def _of_view(x: Any, what: str, writes: bool) -> Operand:
    if hasattr(x, "__cuda_array_interface__"):
        return _of_cuda(x, what, writes)
    ask_device = getattr(x, "__dlpack_device__", None)
    if ask_device is not None:
        device = int(ask_device()[0])
        if device not in _HOST_DEVICES:
            name = _DEVICE_NAMES.get(device, f"device type {device}")
            raise TypeError(
                f"{what}: the array is on {name}; Weft takes arrays on the CPU, and those on CUDA "
                "that have __cuda_array_interface__"
            )
    try:
        view = ArrayView(x)
    except TypeError as error:
        raise TypeError(f"{what}: {error}") from None
    kind, bits = view.dtype
    known = DataType.bf16 if (kind, bits) == ("bfloat", 16) else None
    if known is None:
        known = _NUMPY_TYPES.get((_DLPACK_KINDS.get(kind, ""), bits // 8))
    if known is None:
        raise TypeError(f"{what}: the type {kind}{bits} is not supported; {_TYPES}")
    shape = view.shape
    if not _is_contiguous(shape, view.strides):
        if writes:
            raise ValueError(f"{what}: the output is not contiguous (strides {view.strides})")
        return _of_numpy(np.ascontiguousarray(np.from_dlpack(x)), what, writes)
    if writes and not view.is_writable:
        raise ValueError(f"{what}: the output is read-only")
    count = 1
    for extent in shape:
        count *= extent
    return Operand(view.address, count, int(known), shape, view, x)


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
    if isinstance(like.array, np.ndarray):
        return np.empty(shape, like.array.dtype.newbyteorder("="))
    return np.empty(shape, numpy_dtype(DataType(like.dtype)))


def numpy_dtype(dtype: Union[DataType, str, Any]) -> np.dtype[Any]:
    """NumPy's type for a DataType, its name ("f32"), or anything that NumPy takes.

    Raises TypeError for a type that Weft does not have, and for bfloat16 if the package ml_dtypes,
    which brings that type to NumPy, has not been installed.
    """
    if isinstance(dtype, str) and dtype in DataType.__members__:
        dtype = DataType[dtype]
    if dtype == "bfloat16":
        dtype = DataType.bf16
    if isinstance(dtype, DataType):
        if dtype == DataType.bf16:
            return _bfloat16()
        return np.dtype(_NUMPY_NAMES[dtype])
    found = np.dtype(dtype)
    if _numpy_type(found) is None or not found.isnative:
        raise TypeError(f"the type {found} is not supported; {_TYPES}")
    return found


def _bfloat16() -> np.dtype[Any]:
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError(
            "NumPy has no bfloat16 of its own; install the package ml_dtypes"
        ) from None
    return np.dtype(ml_dtypes.bfloat16)


def settle(arrays: Iterable[Any]) -> None:
    """Waits on the host for torch's current streams of those arrays that are on a GPU."""
    devices = {each.device for each in arrays if getattr(each, "is_cuda", False)}
    for device in devices:
        sys.modules["torch"].cuda.current_stream(device).synchronize()
