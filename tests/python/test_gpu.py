"""GPU memory through the Python API, on the fake of the driver that the build has (tests/cuda)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from conftest import as_processes

FAKE = Path(sys.prefix).parent / "tests" / "cuda" / "cuda_fake" / "libcuda.so.1"

PROGRAM = """
import ctypes
import os
import numpy as np
import weft

fake = ctypes.CDLL(os.environ["FAKE"], mode=ctypes.RTLD_GLOBAL)


class GpuArray:
    '''As CuPy's arrays show themselves.'''

    def __init__(self, values, stream=None):
        self.shape, self.dtype = values.shape, values.dtype
        get = fake.cuGetProcAddress_v2
        def call(name, *arguments):
            function = ctypes.c_void_p()
            assert get(name.encode(), ctypes.byref(function), 12000, ctypes.c_uint64(0), None) == 0
            assert ctypes.CFUNCTYPE(ctypes.c_int, *[type(each) for each in arguments])(function.value)(*arguments) == 0
        context, address = ctypes.c_void_p(), ctypes.c_uint64()
        call("cuInit", ctypes.c_uint(0))
        call("cuDevicePrimaryCtxRetain", ctypes.pointer(context), ctypes.c_int(0))
        call("cuCtxPushCurrent", context)
        call("cuMemAlloc", ctypes.pointer(address), ctypes.c_size_t(values.nbytes))
        self.address, self.nbytes = address.value, values.nbytes
        fake.fake_write(address, values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(values.nbytes))
        self.__cuda_array_interface__ = {
            "shape": values.shape, "typestr": values.dtype.str, "data": (self.address, False),
            "version": 3, "strides": None, "stream": stream}

    def get(self):
        values = np.empty(self.shape, self.dtype)
        fake.fake_read(ctypes.c_uint64(self.address), values.ctypes.data_as(ctypes.c_void_p),
                       ctypes.c_size_t(self.nbytes))
        return values


ctx = weft.Context.from_environment()
for stream in (None, 1):
    x = GpuArray(np.arange(6, dtype=np.float32).reshape(2, 3) + ctx.rank, stream)
    y = GpuArray(np.zeros((2, 3), np.float32), stream)
    assert ctx.allreduce(x, y, op="sum") is y
    np.testing.assert_array_equal(y.get(), 2 * np.arange(6).reshape(2, 3) + 1)
    handle = ctx.neighbor_allreduce_start(x, y)
    assert handle.wait() is y
    np.testing.assert_array_equal(y.get(), np.arange(6).reshape(2, 3) + 0.5)
host = ctx.allgather(x)  # without `out` the result is on the host
np.testing.assert_array_equal(host[2:], np.arange(6).reshape(2, 3) + 1)
named = ctx.named()
named["x"].allreduce(x, y, op="max")
np.testing.assert_array_equal(y.get(), np.arange(6).reshape(2, 3) + 1)
named.grouped_allreduce("both", [x, y], [x, y], op="sum")
np.testing.assert_array_equal(y.get(), 2 * (np.arange(6).reshape(2, 3) + 1))
named.end()
w = GpuArray(np.full((2, 3), 1.0 + ctx.rank, np.float32))
window = ctx.win_create(w, "w", zero_init=True)
window.put(self_weight=0.5)
ctx.win_fence()
np.testing.assert_array_equal(w.get(), np.full((2, 3), 0.5 + ctx.rank / 2))
window.update()
np.testing.assert_array_equal(w.get(), np.full((2, 3), (0.5 + ctx.rank / 2 + 2 - ctx.rank) / 2))
ctx.win_fence()
window.put(x)
window.get()
window.flush()
host = np.empty((2, 3), np.float32)
window.read(1 - ctx.rank, host)
ctx.barrier()
ctx.win_free("w")
# Models of algorithms and strategies.
def model(stream):
    return GpuArray(np.full((2, 3), 1.0 + 2 * ctx.rank, np.float32), stream)
def holds(array, value):
    np.testing.assert_array_equal(array.get(), np.full((2, 3), value, np.float32))
for stream in (None, 1):
    m = model(stream)
    push_sum = weft.PushSum(ctx, weft.one_peer_exponential(2), m)
    push_sum.step()
    push_sum.settle()
    np.testing.assert_array_equal(push_sum.debias(), np.full((2, 3), 2.0))
    push_sum.debias(out=m)
    holds(m, 2)
    push_sum.end()
    m = model(stream)
    ad_psgd = weft.AdPsgd(ctx, m)
    if ctx.rank == 0:
        assert ad_psgd.average() == 1
        holds(m, 2)
    ctx.barrier()
    np.testing.assert_array_equal(ad_psgd.read(), np.full((2, 3), 2.0))
    ctx.barrier()
    if ctx.rank == 1:
        ad_psgd.update(lambda: fake.fake_write(ctypes.c_uint64(m.address),
            np.full((2, 3), 4, np.float32).ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(m.nbytes)))
        assert ad_psgd.average(0) == 0
    ctx.barrier()
    ad_psgd.read(out=m)
    holds(m, 3)
    ctx.barrier()
    ad_psgd.end()
    m = model(stream)
    with weft.PartialAllreduce(ctx, m, law="static") as partial:
        while len(partial.average()) < 2:
            pass
        holds(m, 2)
    m, slope = model(stream), GpuArray(np.full((2, 3), 2.0 * ctx.rank, np.float32), stream)
    mean = GpuArray(np.zeros((2, 3), np.float32), stream)
    for topology in ("all_to_all", "mesh"):
        with weft.GradientExchange(ctx, m, [6], rule="bulk", rate=0.5, topology=topology) as exchange:
            exchange.begin()
            exchange.push(0, slope)
            exchange.end_iteration(mean)
        holds(mean, 1)
    holds(m, 1.0 + 2 * ctx.rank - 1)
    m = model(stream)
    with weft.Strategy(ctx, "allreduce", m, rate=0.5) as strategy:
        strategy.begin()
        strategy.step(slope)
    holds(m, 0.5)  # that of rank 0, less half of the mean
view = GpuArray(np.zeros(6, np.float32))
view.__cuda_array_interface__["strides"] = (8,)
try:
    ctx.allreduce(view, y)
    raise SystemExit("strides were not refused")
except ValueError as error:
    assert "not contiguous" in str(error), error
ctx.close()
print("done")
"""


@pytest.mark.skipif(not FAKE.exists(), reason="this build has no tests")
def test_arrays_of_a_gpu() -> None:
    done = as_processes(2, PROGRAM, FAKE=str(FAKE))
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.count("done") == 2
