"""Messages of other ranks, and the receives that wait for them.

Weft pairs the messages of two ranks in the order of the calls. So every message of torch.distributed
travels behind a header with its tag, type and size. A receiver reads the next header of a rank when a
receive waits for that rank. The message goes straight into the tensor of the first receive with its
tag. If there is none, it is kept in memory of its own until there is one. A message of a few bytes is
inside its header, so it costs one operation instead of two.

A receive from any rank has no header to wait for. While there is such a receive, a thread asks the
context whether a message is there, of each rank in turn.
"""

from __future__ import annotations

import ctypes
import threading
import time
from array import array
from typing import Any, Callable, Dict, List, Optional

import torch

from weft import _core
from weft._core import Request
from weft._errors import Exhausted, Mismatch, TimedOut
from weft.torch._dtype import U64, size_of

_RECV = int(_core.Collective.send)
_MAGIC = 0x7765_6674_0074_6167  # "weft", "tag"
_FACTS = 4  # words of a header before the message inside it: magic, tag, type, size
_INSIDE = 60  # words of a message that is inside its header, at most
_IS_INSIDE = 1 << 32  # beside the type
_MOST_KEPT = 1 << 30  # bytes of a rank's messages that no receive has asked for
_SHORTEST_S, _LONGEST_S = 20e-6, 1e-3  # between two questions whether a message is there

_NOTHING = array("Q", bytes(8 * _INSIDE))

ANY = -1


def header_of(tag: int, number: int, count: int) -> "array[int]":
    """What precedes a message of `count` elements of the DataType `number`."""
    facts = array("Q", [_MAGIC, tag & 0xFFFF_FFFF_FFFF_FFFF, number, count])
    facts.extend(_NOTHING)
    return facts


def put_inside(header: "array[int]", message: torch.Tensor) -> bool:
    """Puts a message into its header. Returns False if it is too long, or not on the CPU."""
    size = message.nbytes
    if size > 8 * _INSIDE or not message.is_cpu:
        return False
    header[2] |= _IS_INSIDE
    ctypes.memmove(header.buffer_info()[0] + 8 * _FACTS, message.data_ptr(), size)
    return True


class Arrival:
    """A receive: the handle of an operation that begins once its message is there."""

    def __init__(
        self,
        line_of: "Arrivals",
        source: int,
        tag: int,
        block: torch.Tensor,
        element: Any,
        options: Dict[str, Any],
    ) -> None:
        """Args:

        source: a rank, or ANY.
        block: dense memory for the message.
        element: the DataType's number, and how many of it an element of the block is.
        options: further arguments of Request.
        """
        self.source = source
        self.tag = tag & 0xFFFF_FFFF_FFFF_FFFF
        self.block = block
        self.number = element[0]
        self.count = block.numel() * element[1]
        self.end = time.monotonic() + line_of.bound_s
        self._all = line_of
        self._options = options
        self._handle: Optional[_core.Handle] = None
        self._error: Optional[BaseException] = None
        self._kept: Optional[torch.Tensor] = None
        self._calls: List[Callable[[Any], None]] = []
        self._is_settled = threading.Event()

    # What a _core.Handle has.

    def wait(self, seconds: Optional[float] = None) -> None:
        end = None if seconds is None else time.monotonic() + seconds
        while not self._is_settled.is_set():
            left = None if end is None else max(end - time.monotonic(), 0.0)
            header = self._all.header_for(self)
            if header is not None:
                try:
                    header.wait(left)
                except TimedOut:
                    if not header.test():
                        raise
                except Exception:
                    pass  # header_for() tells those who wait for it
            elif not self._is_settled.wait(left):
                raise TimedOut(f"recv: no message from {self.whom()} within {seconds:g} s")
        if self._error is not None:
            raise self._error
        assert self._handle is not None
        self._handle.wait(None if end is None else max(end - time.monotonic(), 1e-3))

    def test(self) -> bool:
        if not self._is_settled.is_set():
            self._all.header_for(self)
        if self._handle is not None:
            return self._handle.test()
        return self._error is not None

    def then(self, call: Callable[[Any], None]) -> None:
        with self._all.lock:
            if not self._is_settled.is_set():
                self._calls.append(call)
                return
        self._settled(call)

    # For Arrivals, which holds its lock.

    def begin(self, source: int, number: int, count: int) -> None:
        """The message of this rank is the next one of that rank, and is received."""
        if self._check(source, number, count):
            self.settle(self._all.receive(source, self.block.data_ptr(), count, number,
                                          keep=self.block, **self._options))
        else:
            self._all.keep(source, number, count)

    def take(self, kept: "_Kept") -> None:
        """The message of this rank has been kept."""
        if self._check(kept.source, kept.number, kept.count):
            self._kept = kept.bytes
            self.settle(kept.handle)

    def _check(self, source: int, number: int, count: int) -> bool:
        self.source = source
        if (number, count) == (self.number, self.count):
            return True
        error = Mismatch(
            f"recv: the message from rank {source} has {count} elements of "
            f"{_core.DataType(number).name}, not {self.count} of {_core.DataType(self.number).name}"
        )
        error.rank = source
        self.fail(error)
        return False

    def settle(self, handle: _core.Handle) -> None:
        self._handle = handle
        self._is_settled.set()
        for call in self._calls:
            handle.then(call)

    def fail(self, error: BaseException) -> None:
        self._error = error
        self._is_settled.set()
        for call in self._calls:
            call(None)

    def _settled(self, call: Callable[[Any], None]) -> None:
        if self._handle is not None:
            self._handle.then(call)
        else:
            call(None)

    def whom(self) -> str:
        return "any rank" if self.source == ANY else f"rank {self.source}"

    def finish(self) -> None:
        """Copies the message into the block if it was kept. The operation is done."""
        if self._kept is not None:
            self.block.detach().reshape(-1).view(torch.uint8).copy_(self._kept)


class _Kept:
    """A message in memory of its own: it was inside its header, or no receive had asked for it."""

    def __init__(self, source: int, tag: int, number: int, count: int) -> None:
        self.source, self.tag, self.number, self.count = source, tag, number, count
        self.bytes = torch.empty(count * size_of(number), dtype=torch.uint8)
        self.handle: Any = None  # of the operation that brings it


class _Line:
    """What comes from one rank."""

    def __init__(self, source: int) -> None:
        self.source = source
        self.header: "array[int]" = array("Q", bytes(8 * (_FACTS + _INSIDE)))
        self.reading: Optional[_core.Handle] = None  # the receive of the header
        self.waiting: List[Arrival] = []  # receives from this rank, in the order of the calls
        self.kept: List[_Kept] = []


def _taken_out(line: _Line, reading: _core.Handle, tag: int, number: int, count: int) -> _Kept:
    """The message inside the header, whose memory the next header takes."""
    kept = _Kept(line.source, tag, number, count)
    kept.handle = reading
    begin = line.header.buffer_info()[0] + 8 * _FACTS
    ctypes.memmove(kept.bytes.data_ptr(), begin, kept.bytes.numel())
    return kept


class Arrivals:
    """All receives of a process group."""

    def __init__(self, context: _core.Context, bound_s: float) -> None:
        self.lock = threading.RLock()
        self.bound_s = bound_s  # of a receive from any rank
        self._context = context
        self._lines: Dict[int, _Line] = {}
        self._from_any: List[Arrival] = []
        self._asks = False  # a thread asks for messages

    def add(self, arrival: Arrival) -> None:
        """Begins the receive now, or when its message comes."""
        with self.lock:
            is_any = arrival.source == ANY
            lines = self._all_lines() if is_any else [self._line(arrival.source)]
            for line in lines:
                for kept in line.kept:
                    if kept.tag == arrival.tag:
                        line.kept.remove(kept)
                        arrival.take(kept)
                        return
            if is_any:
                self._from_any.append(arrival)
                self._ask()
            else:
                line.waiting.append(arrival)
                self._advance(line)

    def header_for(self, arrival: Arrival) -> Optional[_core.Handle]:
        """What the receive waits for, after a look. None: it has begun, or is one from any rank."""
        with self.lock:
            if arrival._is_settled.is_set() or arrival.source == ANY:
                return None
            line = self._line(arrival.source)
            self._advance(line)
            return None if arrival._is_settled.is_set() else line.reading

    def receive(
        self, source: int, address: int, count: int, number: int, **options: Any
    ) -> _core.Handle:
        return self._context.start_raw(
            Request(_RECV, 0, 0, address, count, number, peer=source, receives=True, **options)
        )

    def keep(self, source: int, number: int, count: int, tag: Optional[int] = None) -> None:
        """Receives a message that nobody waits for. Without a tag, it is dropped."""
        kept = _Kept(source, tag or 0, number, count)
        address = kept.bytes.data_ptr()
        kept.handle = self.receive(source, address, count, number, keep=kept.bytes)
        if tag is not None:
            self._line(source).kept.append(kept)

    def _line(self, source: int) -> _Line:
        line = self._lines.get(source)
        if line is None:
            line = self._lines[source] = _Line(source)
        return line

    def _all_lines(self) -> List[_Line]:
        others = (rank for rank in range(self._context.size) if rank != self._context.rank)
        return [self._line(rank) for rank in others]

    def _advance(self, line: _Line) -> None:
        """Matches the headers that are there, and reads the next one if a receive waits for it."""
        try:
            while line.reading is None or line.reading.test():
                if line.reading is not None:
                    self._match(line)
                elif line.waiting:
                    self._read(line)
                else:
                    return
        except Exception as error:
            waiting, line.waiting, line.reading = line.waiting, [], None
            for arrival in waiting:
                arrival.fail(error)

    def _read(self, line: _Line) -> None:
        address, words = line.header.buffer_info()
        line.reading = self.receive(line.source, address, words, U64, keep=line.header)
        if not line.reading.test():
            line.reading.then(lambda _: self._look(line))

    def _look(self, line: _Line) -> None:
        with self.lock:
            self._advance(line)

    def _match(self, line: _Line) -> None:
        """Gives the message whose header is there to a receive, or keeps it."""
        reading, line.reading = line.reading, None
        assert reading is not None
        reading.wait()
        magic, tag, number, count = line.header[:_FACTS]
        if magic != _MAGIC:
            raise Mismatch(f"the message from rank {line.source} is none of torch.distributed")
        is_inside, number = bool(number & _IS_INSIDE), number & ~_IS_INSIDE
        kept = _taken_out(line, reading, tag, number, count) if is_inside else None
        for waiting in (line.waiting, self._from_any):
            for arrival in waiting:
                if arrival.tag == tag:
                    waiting.remove(arrival)
                    if kept is not None:
                        arrival.take(kept)
                    else:
                        arrival.begin(line.source, number, count)
                    return
        if sum(each.bytes.numel() for each in line.kept) > _MOST_KEPT:
            if kept is None:
                self.keep(line.source, number, count)  # lost; the one behind it can still be read
            raise Exhausted(
                f"more than {_MOST_KEPT >> 20} MiB of messages from rank {line.source} wait for "
                f"receives with their tags; the next one has tag {tag}"
            )
        if kept is not None:
            line.kept.append(kept)
        else:
            self.keep(line.source, number, count, tag)

    # Receives from any rank.

    def _ask(self) -> None:
        if not self._asks:
            self._asks = True
            threading.Thread(target=self._ask_all, name="weft-recv", daemon=True).start()

    def _ask_all(self) -> None:
        pause = _SHORTEST_S
        while True:
            with self.lock:
                before = len(self._from_any)
                try:
                    self._ask_once()
                except Exception as error:
                    self._end_all(error)
                if not self._from_any:
                    self._asks = False
                    return
                pause = _SHORTEST_S if len(self._from_any) != before else min(2 * pause, _LONGEST_S)
            time.sleep(pause)

    def _ask_once(self) -> None:
        for line in self._all_lines():
            self._advance(line)
            if line.reading is None and self._context.has_message(line.source):
                self._read(line)
                self._advance(line)
        first = self._from_any[0] if self._from_any else None
        if first is not None and time.monotonic() > first.end:
            raise TimedOut(
                f"recv: rank {self._context.rank} waited {self.bound_s * 1e3:g} ms (the timeout of "
                "the group) for a message from any rank"
            )

    def _end_all(self, error: BaseException) -> None:
        ended, self._from_any = self._from_any, []
        for arrival in ended:
            arrival.fail(error)
