"""Window: memory that neighbors write, read and add to while its owner computes.

    window = ctx.win_create(x, "model")     # collective
    window.put()                            # x into this rank's slot at each out-neighbor
    window.update()                         # x := the average of x and the slots of in-neighbors
    ctx.win_free("model")                   # collective

A rank has its own array in the window, and one slot of the array's shape for each in-neighbor. The
neighbors take no part in a call: it ends while they compute. A slot is read as it was before or
after one put, never as a mixture. weft/window.h has the whole contract.

Arrays may be on a GPU. Calls then begin behind what the current stream has, and what they write is
there when they return, or when their handle is done. Neighbors see such an array as it was at its
owner's last put, accumulate, get, update, flush or fence.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterable, Iterator, Mapping, Optional, Sequence, Tuple, TypeVar, Union

from weft import _core
from weft._arrays import Operand, check_prepared, memory_of, new_like
from weft._core import Handle, Prepared
from weft._errors import InvalidArgument
from weft._operations import CompressionLike, compression_number

T = TypeVar("T")
Weights = Union[Mapping[int, float], Iterable[int]]  # ranks alone have the weight 1
Pages = Sequence[Tuple[int, int]]
_NO_SIGNAL = -1


class Window(_core.Window):
    """A handle of a window. Copies name the same window.

    Calls on a window that has ended raise InvalidArgument. A call that needs a rank that has died
    raises PeerDied, and calls that need other ranks go on. `..._start` returns a Handle at once; the
    works of a window end in the order of their calls.
    """

    def put(
        self,
        x: Any = None,
        *,
        self_weight: float = 1.0,
        dst_weights: Optional[Weights] = None,
        require_mutex: bool = False,
        signal: Optional[int] = None,
        compression: CompressionLike = "none",
    ) -> None:
        """The slot at each destination := weight * x. Then x := self_weight * x, in place.

        Args:
            x: an array of the window's size and type; None: the window's own array.
            self_weight: with 1, x need be neither writable nor contiguous.
            dst_weights: {rank: weight} of some out-neighbors, or ranks alone; None: all of them,
                with weight 1.
            require_mutex: holds the mutex of each destination meanwhile.
            signal: is raised by 1 at each destination when the data is visible there.
            compression: "f16", "bf16", "sketch", "e4m3", "e5m2", or a Compression: float32 travels in fewer bytes.
        """
        self._put(
            False, x, self_weight, dst_weights, require_mutex, signal, compression
        ).wait()

    def put_start(
        self,
        x: Any = None,
        *,
        self_weight: float = 1.0,
        dst_weights: Optional[Weights] = None,
        require_mutex: bool = False,
        signal: Optional[int] = None,
        compression: CompressionLike = "none",
    ) -> Handle:
        """Starts put()."""
        return self._put(
            False, x, self_weight, dst_weights, require_mutex, signal, compression
        )

    def accumulate(
        self,
        x: Any = None,
        *,
        self_weight: float = 1.0,
        dst_weights: Optional[Weights] = None,
        require_mutex: bool = False,
        signal: Optional[int] = None,
        compression: CompressionLike = "none",
    ) -> None:
        """As put(), but adds weight * x to the slot. Floating types."""
        self._put(
            True, x, self_weight, dst_weights, require_mutex, signal, compression
        ).wait()

    def accumulate_start(
        self,
        x: Any = None,
        *,
        self_weight: float = 1.0,
        dst_weights: Optional[Weights] = None,
        require_mutex: bool = False,
        signal: Optional[int] = None,
        compression: CompressionLike = "none",
    ) -> Handle:
        """Starts accumulate()."""
        return self._put(
            True, x, self_weight, dst_weights, require_mutex, signal, compression
        )

    def get(self, *, src_weights: Optional[Weights] = None, require_mutex: bool = False) -> None:
        """This rank's slot of each source := weight * the source's array as it is now.

        src_weights: {rank: weight} of some in-neighbors, or ranks alone; None: all of them, with
        weight 1. require_mutex: holds the mutex of each source meanwhile.
        """
        self.start_get_raw(src_weights, require_mutex, self._stream()).wait()

    def get_start(
        self, *, src_weights: Optional[Weights] = None, require_mutex: bool = False
    ) -> Handle:
        """Starts get()."""
        return self.start_get_raw(src_weights, require_mutex, self._stream())

    def update(
        self,
        *,
        self_weight: Optional[float] = None,
        src_weights: Optional[Weights] = None,
        reset: bool = False,
        require_mutex: bool = False,
        clone: bool = False,
    ) -> Any:
        """The array := self_weight * the array + the sum of weight * slot. Returns the array.

        Waits for nobody, unless it needs the mutex. Floating types.

        Args:
            self_weight, src_weights: both or neither. Without them the weights are those of the
                graph if it was set as weighted, else 1/(in-neighbors + 1).
            reset: zeroes the slots that were read.
            require_mutex: holds this rank's mutex meanwhile.
            clone: returns a new array, and leaves the window's own as it is.
        """
        weight = None if self_weight is None else float(self_weight)
        if not clone:
            stream = self._stream()
            self.update_raw(weight, src_weights, reset, require_mutex, 0, 0, 2, stream, None)
            return self.tensor
        own = memory_of(self.tensor, "win_update", True)
        result = new_like(own, own.shape)
        to = memory_of(result, "win_update", True)
        self.update_raw(
            weight,
            src_weights,
            reset,
            require_mutex,
            to.address,
            to.count,
            to.dtype,
            to.stream,
            to.owner,
        )
        return result

    def update_then_collect(self, *, require_mutex: bool = False) -> Any:
        """update() with all weights 1 and reset: adds the slots to the array."""
        return self.update(
            self_weight=1.0,
            src_weights=self.in_neighbors,
            reset=True,
            require_mutex=require_mutex,
        )

    @contextlib.contextmanager
    def lock(self, ranks: Optional[Iterable[int]] = None) -> Iterator[None]:
        """A context in which this rank holds the mutexes of these ranks; None: its own.

        The ranks are neighbors, or this rank. Locks of one window do not nest.
        """
        self.lock_raw((self.rank,) if ranks is None else ranks)
        try:
            yield
        finally:
            self.unlock_raw()

    def write(
        self,
        target: int,
        x: Any,
        pages: Optional[Pages] = None,
        page_bytes: Optional[int] = None,
        *,
        signal: Optional[int] = None,
    ) -> None:
        """Writes bytes of x to the array of an out-neighbor, without slots.

        Args:
            pages: pairs of offsets in bytes: where a page begins in x, and where in the target's
                array. None: all of x, to the beginning.
            page_bytes: of each page; None: all of x.
            signal: is raised by 1 there when all bytes are visible.
        """
        self.write_start(target, x, pages, page_bytes, signal=signal).wait()

    def write_start(
        self,
        target: int,
        x: Any,
        pages: Optional[Pages] = None,
        page_bytes: Optional[int] = None,
        *,
        signal: Optional[int] = None,
    ) -> Handle:
        """Starts write()."""
        return self.start_write_raw(*self._write_arguments(target, x, pages, page_bytes, signal))

    def _write_arguments(
        self,
        target: int,
        x: Any,
        pages: Optional[Pages] = None,
        page_bytes: Optional[int] = None,
        signal: Optional[int] = None,
        is_prepared: bool = False,
    ) -> Any:
        source = memory_of(x, "win_write", False, True)
        if is_prepared:
            check_prepared(source, "win_write")
        size = _core.size_of(_core.DataType(source.dtype))
        each = size * source.count if page_bytes is None else page_bytes
        return (
            target,
            source.address,
            source.count,
            source.dtype,
            [(0, 0)] if pages is None else pages,
            each,
            _number_of(signal),
            source.stream,
            source.owner,
        )

    def prepare_put(self, x: Any = None, **options: Any) -> Prepared:
        """put() with these arguments, to be run many times, as Context.prepare() does."""
        return self.prepare_put_raw(*self._put_arguments(False, x, is_prepared=True, **options))

    def prepare_accumulate(self, x: Any = None, **options: Any) -> Prepared:
        """accumulate() with these arguments, to be run many times."""
        return self.prepare_put_raw(*self._put_arguments(True, x, is_prepared=True, **options))

    def prepare_write(
        self,
        target: int,
        x: Any,
        pages: Optional[Pages] = None,
        page_bytes: Optional[int] = None,
        *,
        signal: Optional[int] = None,
    ) -> Prepared:
        """write() with these arguments, to be run many times."""
        given = self._write_arguments(target, x, pages, page_bytes, signal, is_prepared=True)
        return self.prepare_write_raw(*given)

    def wait_signal_start(self, number: int, count: int, timeout: Optional[float] = None) -> Handle:
        """Starts wait_signal(): a handle that may be waited for, awaited, or have a callback."""
        return self.start_wait_signal_raw(number, count, timeout)

    def read(self, source: int, out: T, offset: int = 0) -> T:
        """Fills `out` with bytes of the array of a neighbor, from `offset` in bytes on."""
        to = memory_of(out, "win_read", True, True)
        self.read_raw(source, to.address, to.count, to.dtype, offset, to.stream, to.owner)
        return out

    def flush(self) -> None:
        """Waits until all works that this rank has started on this window have ended.

        Raises the first error among those that nobody has waited for. Neighbors see an array on a
        GPU as it is now.
        """
        self.flush_raw(self._stream())

    def _stream(self) -> Optional[int]:
        """The stream in whose order the window's array is used; None: it is on the host."""
        array = self.tensor
        if not (getattr(array, "is_cuda", False) or hasattr(array, "__cuda_array_interface__")):
            return None
        return memory_of(array, "window", False, True).stream

    def _put(
        self,
        accumulates: bool,
        x: Any,
        self_weight: float,
        dst_weights: Optional[Weights],
        require_mutex: bool,
        signal: Optional[int],
        compression: CompressionLike,
    ) -> Handle:
        given = self._put_arguments(
            accumulates, x, self_weight, dst_weights, require_mutex, signal, compression
        )
        return self.start_put_raw(*given)

    def _put_arguments(
        self,
        accumulates: bool,
        x: Any,
        self_weight: float = 1.0,
        dst_weights: Optional[Weights] = None,
        require_mutex: bool = False,
        signal: Optional[int] = None,
        compression: CompressionLike = "none",
        is_prepared: bool = False,
    ) -> Any:
        what = "win_accumulate" if accumulates else "win_put"
        given = self.tensor if x is None else x
        memory = memory_of(given, what, self_weight != 1, True)
        if is_prepared:
            check_prepared(memory, what)
        return (
            accumulates,
            memory.address,
            memory.count,
            memory.dtype,
            float(self_weight),
            dst_weights,
            require_mutex,
            _number_of(signal),
            self._stream() if memory.stream is None else memory.stream,
            compression_number(compression),
            memory.owner,
        )


def create(context: _core.Context, tensor: Any, name: str, zero_init: bool) -> Window:
    """What Context.win_create() does."""
    memory: Operand = memory_of(tensor, "win_create", True, True)
    return Window(
        context.win_create_raw(
            name,
            memory.address,
            memory.count,
            memory.dtype,
            zero_init,
            memory.stream,
            tensor,
            memory.owner,
        )
    )


def _number_of(signal: Optional[int]) -> int:
    if signal is None:
        return _NO_SIGNAL
    if signal < 0:
        raise InvalidArgument(f"signal {signal} does not exist; signals are numbered from 0")
    return signal
