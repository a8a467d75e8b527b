"""The timeline of this process's operations, as a file of Chrome's tracing (ui.perfetto.dev)."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any, Dict, List, NamedTuple, Optional

from weft._core import Collective, Handle
from weft._named import Name
from weft._operations import Call


class _Span(NamedTuple):
    """An operation that has begun."""

    name: str
    kind: str
    begin: int  # nanoseconds
    handle: Handle

    def error(self) -> Optional[BaseException]:
        """That of an operation which is done."""
        try:
            self.handle.wait()
        except Exception as error:
            return error
        return None


class _Timeline:
    """Spans of names, from the submission of an operation to its end."""

    def __init__(self, path: str) -> None:
        open(path, "w", encoding="utf-8").close()  # a path that cannot be written is an error now
        self._path = path
        self._lock = threading.Lock()
        self._rows: Dict[str, int] = {}  # by name
        self._events: List[Dict[str, Any]] = []
        self._open: Dict[int, _Span] = {}  # those under way, by number
        self._count = 0

    def add(self, name: str, kind: str, handle: Handle) -> None:
        with self._lock:
            number, self._count = self._count, self._count + 1
            self._open[number] = _Span(name, kind, time.time_ns(), handle)
        handle.then(lambda error: self._ended(number, error))

    def _ended(self, number: int, error: Optional[BaseException]) -> None:
        with self._lock:
            span = self._open.pop(number, None)
            if span is None:
                return
            row = self._rows.setdefault(span.name, len(self._rows))
            event = {"name": span.kind.upper(), "ph": "X", "pid": os.getpid(), "tid": row}
            event.update(ts=span.begin / 1e3, dur=(time.time_ns() - span.begin) / 1e3)
            event.update({} if error is None else {"args": {"error": str(error)}})
            self._events.append(event)

    def write(self) -> None:
        # The callback of an operation may run a little after wait() has returned.
        with self._lock:
            done = [(number, span) for number, span in self._open.items() if span.handle.test()]
        for number, span in done:
            self._ended(number, span.error())
        with self._lock:
            rows = [
                {"name": "thread_name", "ph": "M", "pid": os.getpid(), "tid": row, "args": {"name": name}}
                for name, row in self._rows.items()
            ]
            events = rows + self._events
        try:
            with open(self._path, "w", encoding="utf-8") as file:
                json.dump({"traceEvents": events}, file)
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._path) from error


_timeline: Optional[_Timeline] = None


def begin(path: str) -> None:
    """Starts a timeline, and ends the one before."""
    global _timeline
    end()
    _timeline = _Timeline(path)


def end() -> None:
    """Writes the file of the timeline, if there is one."""
    global _timeline
    ended, _timeline = _timeline, None
    if ended is not None:
        ended.write()


def add(name: str, kind: str, handle: Handle) -> Handle:
    """Puts an operation that has started on the timeline, if there is one."""
    timeline = _timeline
    if timeline is not None:
        timeline.add(name, kind, handle)
    return handle


class TimedName(Name):
    """The operations under a name, which are put on the timeline."""

    def start_plain(
        self, kind: int, x: Any, y: Any, op: int = 1, algorithm: int = 0
    ) -> Optional[Handle]:
        handle = super().start_plain(kind, x, y, op, algorithm)
        return None if handle is None else add(self._name, Collective(kind).name, handle)

    def _start(self, call: Call) -> Handle:
        return add(self._name, call.kind.name, super()._start(call))
