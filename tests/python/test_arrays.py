"""Which arrays operations take: types, libraries, layouts; and what they say about others."""

from __future__ import annotations

import array
import ctypes
import threading
from typing import Any

import numpy as np
import pytest
import weft

from conftest import as_threads

FLOATS = ["float16", "float32", "float64"]
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_every_type(dtype: str) -> None:
    def body(ctx: weft.Context) -> Any:
        x = np.arange(10, dtype=dtype) + np.array(ctx.rank, dtype)
        total = ctx.allreduce(x, op="sum")
        assert total.dtype == x.dtype
        if dtype in FLOATS:
            np.testing.assert_array_equal(ctx.neighbor_allreduce(x), np.arange(10) + 0.5)
        return total

    for result in as_threads(2, body):
        np.testing.assert_array_equal(result, 2 * np.arange(10) + 1)


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_types_of_ml_dtypes(name: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    dtype = getattr(ml_dtypes, name)

    def body(ctx: weft.Context) -> Any:
        return ctx.allreduce(np.full(5, ctx.rank, dtype))

    for result in as_threads(2, body):
        assert result.dtype == dtype
        assert (result.astype(np.float32) == 0.5).all()
    assert weft.zeros((3,), name).dtype == dtype


# Sums are rounded once to the type. Beyond the largest number e4m3 has NaN, and e5m2 infinity.
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_float8_of_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    dtype = getattr(torch, name)
    numbers = torch.tensor([1.0, 1.125, -0.3, 0.002, 240.0, 448.0, 57344.0, float("nan")])

    def body(ctx: weft.Context) -> Any:
        x = (numbers * (1 + ctx.rank)).to(dtype)
        assert torch.equal(ctx.broadcast(x, root=0).view(torch.uint8), numbers.to(dtype).view(torch.uint8))
        return ctx.allreduce(x, op="sum"), ctx.neighbor_allreduce(x), ctx.allreduce(x, op="max")

    each = [(numbers * (1 + rank)).to(dtype).float() for rank in range(2)]
    for total, mean, most in as_threads(2, body):
        assert total.dtype is mean.dtype is most.dtype is dtype
        for found, wanted in ((total, each[0] + each[1]), (mean, (each[0] + each[1]) / 2)):
            rounded = wanted.to(dtype).float()
            if name == "float8_e4m3fn":  # where torch stops at 448
                rounded[wanted > 464] = float("nan")
            assert torch.allclose(found.float(), rounded, rtol=0, equal_nan=True), found
        assert torch.equal(most[:4].float(), torch.maximum(*each)[:4])


@pytest.mark.parametrize("name", ["bfloat16", "float16", "float32", "float64", "int32", "uint8"])
def test_torch_tensors(name: str) -> None:
    torch = pytest.importorskip("torch")

    def body(ctx: weft.Context) -> Any:
        x = torch.full((2, 3), ctx.rank + 1, dtype=getattr(torch, name))
        result = ctx.allreduce(x, op="sum")
        assert isinstance(result, torch.Tensor) and result.dtype == x.dtype
        assert ctx.allgather(x).shape == (4, 3)
        assert ctx.allreduce(x, out=x, op="sum") is x
        assert (x == 3).all()
        return result

    for result in as_threads(2, body):
        assert (result == 3).all()


# By their formats: native, of ctypes, of another byte order, and with no elements.
BUFFERS: Any = [
    (array.array("h", [1, 2]), [1, 2]),
    ((ctypes.c_double * 3)(1, 2, 3), [1, 2, 3]),
    (((ctypes.c_int * 2) * 2)((1, 2), (3, 4)), [[1, 2], [3, 4]]),
    ((ctypes.c_int.__ctype_be__ * 2)(1, 2), [1, 2]),
    ((ctypes.c_int * 0)(), []),
    (ctypes.c_double(2), 2),
    (memoryview(np.arange(6.0))[::2], [0, 2, 4]),
    (memoryview(np.arange(3))[::-1], [2, 1, 0]),
    (memoryview(bytearray(16)).cast("d"), [0, 0]),
]


@pytest.mark.parametrize("x, expected", BUFFERS)
def test_buffers_of_other_libraries(context: weft.Context, x: Any, expected: Any) -> None:
    assert context.allreduce(x, op="sum").tolist() == expected
    assert context.broadcast(x).tolist() == expected


class Interface:
    """An object that has NumPy's array interface alone."""

    def __init__(self, x: np.ndarray) -> None:
        self.x = x
        self.__array_interface__ = x.__array_interface__


class NoExport:
    """DLPack that is refused, beside a buffer whose strides are absent."""

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError("not now")

    def __dlpack_device__(self) -> Any:
        return (1, 0)


def test_buffers_as_outputs(context: weft.Context) -> None:
    out = (ctypes.c_double * 2)()
    assert context.allreduce(np.array([1.0, 2.0]), out=out, op="sum") is out
    assert list(out) == [1, 2]
    target = np.zeros(2)
    context.allreduce(np.array([3.0, 4.0]), out=Interface(target), op="sum")
    assert target.tolist() == [3, 4]
    for wrong, text in (
        (memoryview(np.zeros(4))[::2], "not contiguous"),
        (memoryview(b"12345678").cast("d"), "read-only"),
    ):
        with pytest.raises(ValueError, match=text):
            context.allreduce(np.zeros(wrong.shape), out=wrong)
    with pytest.raises(TypeError, match="byte order"):
        context.allreduce(np.zeros(2, np.int32), out=(ctypes.c_int.__ctype_be__ * 2)(), op="sum")


def test_buffers_that_cannot_be_used(context: weft.Context) -> None:
    released = memoryview(bytearray(8))
    released.release()
    for x, error, text in (
        (released, ValueError, "released"),
        ((ctypes.c_void_p * 2)(), ValueError, "<P"),
        ((ctypes.py_object * 2)(), TypeError, "object"),
        (NoExport(), ValueError, "not now"),
        (np.ma.masked_array([1.0, 2.0], [0, 1]), TypeError, "masked"),
    ):
        with pytest.raises(error, match=text):
            context.allreduce(x, op="sum")
        with pytest.raises(error, match=text):
            context.broadcast(x)
    with pytest.raises(TypeError, match="masked"):
        weft.from_numpy(np.ma.masked_array([1.0, 2.0], [0, 1]))


MOVED = ["bool", "complex64", "complex128", "S3", "U2", "M8[s]", "f4,i2", ">i4", "longdouble"]


@pytest.mark.parametrize("dtype", MOVED + INTEGERS)
def test_every_type_is_moved(dtype: str) -> None:
    def make(rank: int) -> np.ndarray:
        numbers = np.arange(rank, rank + 4)
        if dtype == "f4,i2":
            return np.array([(each, each) for each in numbers], dtype)
        return numbers.astype(dtype)

    def body(ctx: weft.Context) -> None:
        both = [make(0), make(1)]
        x, other = both[ctx.rank], both[1 - ctx.rank]
        native = x.dtype.newbyteorder("=")

        def same(found: Any, expected: np.ndarray) -> None:
            assert found.dtype == native and (found == expected).all()

        same(ctx.broadcast(x, root=1), both[1])
        same(ctx.allgather(x), np.concatenate(both))
        same(ctx.neighbor_allgather(x), other)
        same(ctx.alltoall(x), np.concatenate([y[2 * ctx.rank :][:2] for y in both]))
        counts = [1, 3] if ctx.rank == 0 else [3, 1]
        back = [1, 3] if ctx.rank == 0 else [3, 1]
        mine = [both[0][:1], both[1][:3]] if ctx.rank == 0 else [both[0][1:], both[1][3:]]
        same(ctx.alltoallv(x, send_counts=counts, receive_counts=back), np.concatenate(mine))
        same(ctx.scatter(x, root=0), both[0][2 * ctx.rank :][:2])
        gathered = ctx.gather(x, root=1)
        if ctx.rank == 1:
            same(gathered, np.concatenate(both))
            same(ctx.recv(np.empty(4, native), 0), both[0])
        else:
            ctx.send(x, 1)
        same(ctx.named()["moved"].broadcast(x, root=0), both[0])

    as_threads(2, body)


def test_moved_types_in_windows() -> None:
    def body(ctx: weft.Context) -> None:
        x = np.full(3, ctx.rank + 1j, np.complex64)
        window = ctx.win_create(x, "moved")
        window.put()
        window.get()
        ctx.barrier()
        out = np.empty(3, np.complex64)
        window.read(1 - ctx.rank, out)
        assert (out == 1 - ctx.rank + 1j).all()
        ctx.barrier()
        for call in (lambda: window.accumulate(x), window.update, lambda: window.put(self_weight=2)):
            with pytest.raises(weft.InvalidArgument, match="bytes"):
                call()
        ctx.win_free("moved")

    as_threads(2, body)


def test_types_that_differ_between_ranks_or_operands(context: weft.Context) -> None:
    with pytest.raises(TypeError, match="input is 8 bytes an element, the output u8"):
        context.broadcast(np.zeros(1, np.complex64), out=np.zeros(8, np.uint8))
    with pytest.raises(TypeError, match="input is 1 bytes an element, the output 8 bytes"):
        context.broadcast(np.zeros(8, bool), out=np.zeros(1, np.complex64))


def test_torch_types_that_are_moved() -> None:
    torch = pytest.importorskip("torch")

    def body(ctx: weft.Context) -> None:
        for dtype in (torch.bool, torch.int16, torch.complex64, torch.float8_e4m3fn,
                      torch.float8_e4m3fnuz):  # fmt: skip
            both = [(torch.arange(4.0) + rank).to(dtype) for rank in range(2)]
            found = ctx.allgather(both[ctx.rank])
            assert found.dtype is dtype
            assert torch.equal(found.view(torch.uint8), torch.cat(both).view(torch.uint8)), dtype
        conjugate = torch.tensor([1 + ctx.rank * 1j]).conj()
        assert torch.equal(ctx.broadcast(conjugate, root=1), torch.tensor([1 - 1j]))

    as_threads(2, body)


def test_truth_values_are_combined_and_not_counted() -> None:
    def body(ctx: weft.Context) -> None:
        x = np.array([True, False, ctx.rank == 0])
        for op, expected in (
            ("max", [True, False, True]),
            ("bit_or", [True, False, True]),
            ("min", [True, False, False]),
            ("bit_and", [True, False, False]),
            ("product", [True, False, False]),
            ("bit_xor", [False, False, True]),
        ):
            found = ctx.allreduce(x, op=op)
            assert found.dtype == bool and found.tolist() == expected, op
        for op in ("sum", "average"):
            with pytest.raises(TypeError, match="max or bit_or says whether any is true"):
                ctx.allreduce(x, op=op)
        with pytest.raises(TypeError, match="bool"):
            ctx.neighbor_allreduce(x)

    as_threads(2, body)


def test_the_mean_of_equal_numbers_is_that_number() -> None:
    def body(ctx: weft.Context) -> None:
        x = np.arange(1000.0, dtype=np.float32)
        for found in (ctx.allreduce(x), ctx.neighbor_allreduce(x)):
            np.testing.assert_array_equal(found, x)
        window = ctx.win_create(x.copy(), "mean")
        np.testing.assert_array_equal(window.update(), x)
        ctx.win_free("mean")

    as_threads(3, body)


def test_torch_tensors_that_are_not_dense_or_not_contiguous(context: weft.Context) -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(context.allreduce(x.t()), x.t())
    with pytest.raises(ValueError, match="not contiguous"):
        context.allreduce(x.t(), out=torch.empty(2, 3).t())
    with pytest.raises(TypeError, match="sparse"):
        context.allreduce(x.to_sparse())
    with pytest.raises(TypeError, match="complex64"):
        context.allreduce(torch.zeros(3, dtype=torch.complex64))
    with pytest.raises(TypeError, match="meta"):
        context.allreduce(torch.zeros(3, device="meta"))


# Tensors of the CPU are read without Python, so what is special about one must be seen there, too.
def test_tensors_that_look_plain(context: weft.Context) -> None:
    torch = pytest.importorskip("torch")
    negated = torch._neg_view(torch.arange(3.0))
    out = torch.empty(3)
    assert context.allreduce(negated, out=out) is out and torch.equal(out, -torch.arange(3.0))
    with pytest.raises(ValueError, match="not contiguous"):
        context.allreduce(torch.ones(3), out=negated)
    part = torch.arange(8.0)[2:5]
    context.allreduce(part, out=out)
    assert torch.equal(out, part)
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        context.allreduce(torch.ones(4), out=out)
    with pytest.raises(TypeError, match="f32.*f64|float32.*float64"):
        context.allreduce(torch.ones(3), out=torch.empty(3, dtype=torch.float64))
    shape = (1,) * 9 + (3,)
    assert context.allreduce(torch.ones(shape), out=torch.empty(shape)).shape == shape
    empty = torch.empty(0)
    assert context.allreduce(empty, out=empty) is empty


def test_a_tensor_may_get_another_storage_while_an_operation_runs() -> None:
    torch = pytest.importorskip("torch")
    count = 1 << 20  # the allocator gives memory of this size back at once
    is_started = threading.Event()

    def body(ctx: weft.Context) -> Any:
        named = ctx.named()
        x, y = torch.full((count,), 1.0 + ctx.rank), torch.empty(count)
        if ctx.rank == 1:
            assert is_started.wait(60)
        handle = named["x"].allreduce_start(x, y, op="sum")
        if ctx.rank == 0:
            x.data = torch.zeros(1)
            is_started.set()
        handle.wait()
        return y[0].item(), y[-1].item()

    assert as_threads(2, body) == [(3.0, 3.0)] * 2


def test_a_parameter_with_gradients_is_read(context: weft.Context) -> None:
    torch = pytest.importorskip("torch")
    parameter = torch.nn.Parameter(torch.ones(3))
    result = context.allreduce(parameter)
    assert torch.equal(result, torch.ones(3)) and not result.requires_grad


def test_the_buffer_protocol(context: weft.Context) -> None:
    assert context.allreduce(bytes([1, 2, 3]), op="sum").tolist() == [1, 2, 3]
    target = bytearray(3)
    assert context.allreduce(bytes([1, 2, 3]), out=target, op="sum") is target
    assert target == bytes([1, 2, 3])
    assert context.allreduce(array.array("d", [1.5]), op="sum").tolist() == [1.5]
    assert context.allreduce(memoryview(np.arange(4)), op="max").tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="read-only"):
        context.allreduce(bytes(3), out=bytes(3), op="sum")


class OnlyDlpack:
    """An array of a library that Weft does not know."""

    def __init__(self, x: np.ndarray, device: Any = (1, 0)) -> None:
        self.x = x
        self.device = device

    def __dlpack__(self, **options: Any) -> Any:
        return self.x.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self.device


def test_dlpack(context: weft.Context) -> None:
    x = np.arange(6.0).reshape(2, 3)
    result = context.allreduce(OnlyDlpack(x))
    np.testing.assert_array_equal(result, x)
    out = np.zeros((2, 3))
    context.allreduce(OnlyDlpack(x), out=OnlyDlpack(out))
    np.testing.assert_array_equal(out, x)
    np.testing.assert_array_equal(context.allreduce(OnlyDlpack(x.T)), x.T)
    with pytest.raises(TypeError, match="CUDA"):
        context.allreduce(OnlyDlpack(x, (2, 0)))


def test_the_input_is_not_changed_and_not_aliased() -> None:
    def body(ctx: weft.Context) -> None:
        x = np.full(100, ctx.rank, np.float64)
        result = ctx.neighbor_allreduce(x)
        assert (x == ctx.rank).all() and not np.shares_memory(x, result)

    as_threads(2, body)


def test_in_place_and_out() -> None:
    def body(ctx: weft.Context) -> None:
        x = np.full((4, 5), ctx.rank, np.float32)
        assert ctx.allreduce(x, x) is x
        assert (x == 0.5).all()
        out = np.zeros((4, 5), np.float32)
        assert ctx.neighbor_allreduce(x, out=out) is out
        assert (out == 0.5).all()
        rows = np.empty((8, 5), np.float32)
        assert ctx.allgather(x, out=rows) is rows
        assert (rows == 0.5).all()
        whole = np.empty((2, 3))
        whole[ctx.rank] = ctx.rank
        ctx.allgather(whole[ctx.rank : ctx.rank + 1], out=whole)  # its own block of the output
        assert whole[:, 0].tolist() == [0, 1]

    as_threads(2, body)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (0, 3), (2, 1, 3), 5])
def test_shapes(shape: Any) -> None:
    def body(ctx: weft.Context) -> None:
        x = np.ones(shape)
        assert ctx.allreduce(x).shape == x.shape
        assert ctx.neighbor_allreduce(x).shape == x.shape
        rows = x.shape if x.shape else (1,)
        assert ctx.allgather(x).shape == (2 * rows[0], *rows[1:])

    as_threads(2, body)


def test_inputs_that_are_copied(context: weft.Context) -> None:
    x = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(context.allreduce(x[:, ::2]), x[:, ::2])
    np.testing.assert_array_equal(context.allreduce(x.T), x.T)
    np.testing.assert_array_equal(context.allreduce(x.astype(">f8")), x)
    frozen = x.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(context.allreduce(frozen), x)


@pytest.mark.parametrize(
    "x, text",
    [
        (np.zeros(3, bool), "bool"),
        (np.zeros(3, complex), "complex128"),
        (np.zeros(3, "S4"), "S4"),
        (np.zeros(3, object), "object"),
        (np.zeros(3, "f4,f4"), "f4"),
        (np.zeros(3, "M8[s]"), "datetime64"),
        ([1.0, 2.0], "list"),
        (1.0, "float"),
        (None, "NoneType"),
        ("text", "str"),
    ],
)
def test_what_is_no_array_of_ours(context: weft.Context, x: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        context.allreduce(x)
    with pytest.raises(TypeError, match=text):
        context.neighbor_allreduce_start(x)
    if x is not None:
        with pytest.raises(TypeError, match=text):
            context.allreduce(np.zeros(3), out=x)


def test_outputs_that_are_refused(context: weft.Context) -> None:
    x = np.ones((2, 3))
    frozen = np.ones((2, 3))
    frozen.flags.writeable = False
    cases: Any = [
        (frozen, ValueError, "read-only"),
        (np.ones((3, 2)).T, ValueError, "not contiguous"),
        (np.ones((2, 6))[:, ::2], ValueError, "not contiguous"),
        (np.ones((2, 3), np.float32), TypeError, "input is f64, the output f32"),
        (np.ones((2, 3), ">f8"), TypeError, "byte order"),
        (np.ones((2, 2)), ValueError, "shape"),
    ]
    for out, error, text in cases:
        before = np.array(out)
        with pytest.raises(error, match=text):
            context.allreduce(x, out=out)
        np.testing.assert_array_equal(out, before)
    whole = np.ones(10)
    with pytest.raises(weft.InvalidArgument, match="overlap"):
        context.allreduce(whole[:6], out=whole[4:])


class TestSharedMemory:
    """weft.empty, zeros and from_numpy."""

    @pytest.mark.parametrize("dtype", FLOATS + INTEGERS + ["f32", "i64", weft.DataType.f64])
    def test_types_and_shapes(self, dtype: Any) -> None:
        x = weft.zeros((3, 4), dtype)
        assert x.shape == (3, 4) and not x.any() and x.flags.writeable
        x += 1
        assert x.sum() == 12
        assert weft.empty(5, dtype).shape == (5,)
        assert weft.empty((0, 3), dtype).size == 0

    def test_memory_is_given_back(self) -> None:
        before = weft.heap_usage()["allocated_bytes"]
        x = weft.empty(1 << 20, np.uint8)
        view = x[100:].reshape(-1, 4)
        assert weft.heap_usage()["allocated_bytes"] >= before + (1 << 20)
        del x
        assert weft.heap_usage()["allocated_bytes"] >= before + (1 << 20)
        view[0] = 7
        del view
        assert weft.heap_usage()["allocated_bytes"] == before

    def test_operations_on_them(self) -> None:
        def body(ctx: weft.Context) -> None:
            x = weft.from_numpy(np.full(100_000, ctx.rank, np.float32))
            y = weft.empty(x.shape, x.dtype)
            ctx.neighbor_allreduce(x, y)
            assert (y == 0.5).all()

        as_threads(2, body)

    def test_what_is_refused(self) -> None:
        with pytest.raises(TypeError, match="object"):
            weft.empty(3, object)
        with pytest.raises(ValueError, match="negative"):
            weft.empty((3, -1))
        with pytest.raises(weft.Exhausted):
            weft.empty(1 << 60, np.uint8)
        with pytest.raises(ValueError, match="more bytes"):
            weft.empty((1 << 33, 1 << 33))
