"""The timeline of this process's operations, as a file of Chrome's tracing (ui.perfetto.dev)."""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Any, Dict, List, Optional

from weft._core import Handle
from weft._named import Name
from weft._operations import Call


class _Timeline:
    """Spans of names, from the submission of an operation to its end."""

    def __init__(self, path: str) -> None:
        open(path, "w", encoding="utf-8").close()  # a path that cannot be written is an error now
        self._path = path
        self._lock = threading.Lock()
        self._rows: Dict[str, int] = {}  # by name
        self._events: List[Dict[str, Any]] = []

    def add(self, name: str, kind: str, handle: Handle) -> None:
        begin = time.time_ns()
        handle.then(lambda error: self._ended(name, kind, begin, error))

    def _ended(self, name: str, kind: str, begin: int, error: Optional[BaseException]) -> None:
        span = {"name": kind.upper(), "ph": "X", "pid": os.getpid(), "ts": begin / 1e3}
        span.update(dur=(time.time_ns() - begin) / 1e3)
        span.update({} if error is None else {"args": {"error": str(error)}})
        with self._lock:
            row = self._rows.setdefault(name, len(self._rows))
            self._events.append({**span, "tid": row})

    def write(self) -> None:
        with self._lock:
            rows = [
                {"name": "thread_name", "ph": "M", "pid": os.getpid(), "tid": row, "args": {"name": name}}
                for name, row in self._rows.items()
            ]
            events = rows + self._events
        with open(self._path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events}, file)


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

    def _start(self, call: Call) -> Handle:
        return add(self._name, call.kind.name, super()._start(call))
