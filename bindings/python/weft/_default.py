"""The context of the process that most programs need: one, from the environment."""

from __future__ import annotations

import threading
from typing import Optional

from weft._context import Context
from weft._errors import Closed

_lock = threading.Lock()
_context: Optional[Context] = None


def init() -> Context:
    """Joins the job that the environment names, and returns this process's context.

    Collective. A second call returns the same context, until shutdown() or close(); then it joins
    anew.
    """
    global _context
    with _lock:
        if _context is None or _context.is_closed:
            _context = Context.from_environment()
        return _context


def context() -> Context:
    """The context that init() has made. Raises Closed if there is none."""
    found = _context
    if found is None or found.is_closed:
        raise Closed("weft.init() has not been called, or weft.shutdown() has been called since")
    return found


def is_initialized() -> bool:
    """Whether context() returns a context."""
    found = _context
    return found is not None and not found.is_closed


def shutdown() -> None:
    """Leaves the job. Without a context it has no effect."""
    global _context
    with _lock:
        found, _context = _context, None
    if found is not None:
        found.close()
