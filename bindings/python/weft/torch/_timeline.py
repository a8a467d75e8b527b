"""BlueFog's timeline: what a rank did and when, in a file for chrome://tracing.

BLUEFOG_TIMELINE=PREFIX in the environment of init() opens PREFIX followed by the rank and ".json".
Each tensor is a row of its own, by its name. A row shows the operations of the tensor and the
activities that the program tells. The engine's own timeline, with the messages of each operation, is
WEFT_TRACE.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import itertools
import json
import os
import threading
import time
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional, TypeVar

import torch

from weft.torch import handles

Function = TypeVar("Function", bound=Callable[..., Any])


class Timeline:
    """A file that is being written. Any thread may call any function.

    Where no more can be written, as on a full disk, the file ends with a warning, and the job goes on.
    """

    def __init__(self, path: str) -> None:
        self._file = open(path, "w")
        self._put("[")
        self._lock = threading.Lock()
        self._rows: Dict[str, int] = {}
        self._threads: Dict[int, int] = {threading.get_ident(): 0}
        self._has_events = False

    def begin(self, tensor: str, activity: str) -> None:
        self._add(tensor, {"name": activity, "ph": "B"})

    def end(self, tensor: str) -> None:
        self._add(tensor, {"ph": "E"})

    def span(self, tensor: str, activity: str, begin_us: int) -> None:
        """An activity that ends now, on whichever thread, and began at `begin_us`."""
        with self._lock:
            row = self._row(tensor)
            duration = now_us() - begin_us
            self._write(
                {"name": activity, "ph": "X", "ts": begin_us, "dur": duration, "pid": row, "tid": -1}
            )

    def close(self) -> None:
        with self._lock:
            self._put("\n]\n")
            self._file.close()

    def _add(self, tensor: str, event: Dict[str, Any]) -> None:
        with self._lock:
            row = self._row(tensor)
            thread = self._threads.setdefault(threading.get_ident(), len(self._threads))
            self._write({**event, "ts": now_us(), "pid": row, "tid": thread})

    def _row(self, tensor: str) -> int:
        row = self._rows.get(tensor)
        if row is None:
            row = self._rows[tensor] = len(self._rows)
            named = {"name": "process_name", "ph": "M", "pid": row, "args": {"name": tensor}}
            self._write(named)
        return row

    def _write(self, event: Dict[str, Any]) -> None:
        self._put((",\n" if self._has_events else "\n") + json.dumps(event))
        self._has_events = True

    def _put(self, text: str) -> None:
        if self._file.closed:
            return
        try:
            self._file.write(text)
            self._file.flush()  # the file can be looked at while the job runs
        except OSError as error:
            warnings.warn(f"the timeline {self._file.name} ends here: {error.strerror}", stacklevel=2)
            with contextlib.suppress(OSError):
                self._file.close()


class _Inside(threading.local):
    """Whether this thread is in an operation that is in the timeline, which may call others."""

    is_set = False


_timeline: Optional[Timeline] = None
_inside = _Inside()
_unnamed = itertools.count()
_has_warned = False


def now_us() -> int:
    return time.time_ns() // 1000


def open_for(rank: int) -> None:
    """Opens the file that BLUEFOG_TIMELINE names, unless one is open."""
    global _timeline
    prefix = os.environ.get("BLUEFOG_TIMELINE", "")
    if prefix and _timeline is None:
        _timeline = Timeline(f"{prefix}{rank}.json")


def close() -> None:
    """Ends the file, if there is one."""
    global _timeline
    found, _timeline = _timeline, None
    if found is not None:
        found.close()


atexit.register(close)


def is_open() -> bool:
    return _timeline is not None


def show_until_done(tensor: str, operation: str, handle: Any) -> None:
    """An operation on the tensor began now, and ends with its handle."""
    if _timeline is not None:
        found, begin_us = _timeline, now_us()
        handle.then(lambda _: found.span(tensor, operation, begin_us))


def timed(function: Function) -> Function:
    """The function, of which the timeline shows the calls. `..._nonblocking` returns a handle."""
    base, starts, _ = function.__name__.rstrip("_").partition("_nonblocking")
    kind = base.upper()
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **more: Any) -> Any:
        timeline = _timeline
        if timeline is None or _inside.is_set:
            return function(*args, **more)
        name = signature.bind(*args, **more).arguments.get("name")
        tensor = f"{kind.lower()}.noname.{next(_unnamed)}" if name is None else str(name)
        begin_us = now_us()
        timeline.begin(tensor, f"ENQUEUE_{kind}")
        _inside.is_set = True
        try:
            result = function(*args, **more)
        finally:
            _inside.is_set = False
            timeline.end(tensor)
        found = timeline

        def end(*_: Any) -> None:
            found.span(tensor, f"MPI_{kind}", begin_us)

        if starts:
            handles.follow(result, end)
        else:
            end()
        return result

    return call  # type: ignore[return-value]


def timeline_start_activity(tensor_name: str, activity_name: str) -> bool:
    """An activity on this tensor begins on this thread.

    Returns False, and warns once, if no timeline is written: BLUEFOG_TIMELINE was not set in init().
    """
    timeline = _timeline
    if timeline is None:
        return _warn()
    timeline.begin(tensor_name, activity_name)
    return True


def timeline_end_activity(tensor_name: str) -> bool:
    """The activity that began last on this tensor and this thread ends. Returns as the start does."""
    timeline = _timeline
    if timeline is None:
        return _warn()
    timeline.end(tensor_name)
    return True


@contextlib.contextmanager
def timeline_context(tensor_name: str, activity_name: str) -> Iterator[None]:
    """A context that is an activity on this tensor."""
    timeline_start_activity(tensor_name, activity_name)
    try:
        yield
    finally:
        timeline_end_activity(tensor_name)


def _warn() -> bool:
    global _has_warned
    if not _has_warned:
        _has_warned = True
        warnings.warn(
            "no timeline is written: set BLUEFOG_TIMELINE to a file's name before init()",
            stacklevel=3,
        )
    return False


def _first_with_gradient(output: Any) -> Optional[torch.Tensor]:
    """The first tensor in a model's output whose gradient will be computed."""
    if isinstance(output, torch.Tensor):
        return output if output.requires_grad else None
    if not isinstance(output, (dict, list, tuple)):
        return None
    parts = output.values() if isinstance(output, dict) else output
    return next((each for each in map(_first_with_gradient, parts) if each is not None), None)


def watch_models(models: List[Any], prefix: str) -> List[Any]:
    """Hooks that tell when the models compute outputs and gradients of each parameter.

    Returns the handles of the hooks.
    """
    removers = []
    for model in models:
        rows = {name: f"{prefix}.{name}" for name, _ in model.named_parameters()}

        def begin(activity: str, rows: Dict[str, str] = rows) -> Callable[..., None]:
            def hook(*_: Any) -> None:
                for row in rows.values():
                    timeline_start_activity(row, activity)

            return hook

        def end(*names: str) -> Callable[..., None]:
            def hook(*_: Any) -> None:
                for name in names:
                    timeline_end_activity(name)

            return hook

        def end_forward(
            _: Any, inputs: Any, output: Any, begin: Callable[[str], Any] = begin
        ) -> None:
            tensor = _first_with_gradient(output)
            if tensor is not None:
                tensor.register_hook(begin("GRADIENT COMPT."))

        removers.append(model.register_forward_pre_hook(begin("FORWARD")))
        removers.append(model.register_forward_hook(end_forward))
        for path, module in model.named_modules():
            inner = f"{path}." if path else ""
            own = [rows[inner + name] for name, _ in module.named_parameters(recurse=False)]
            if own:
                removers.append(module.register_forward_hook(end(*own)))
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                removers.append(parameter.register_hook(end(rows[name])))
    return removers
