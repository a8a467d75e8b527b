"""The context of the process that most programs need: one, from the environment."""

from __future__ import annotations

import os
import threading
from typing import Optional

from weft import _core
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
            _context = _from_torchrun() if is_torchrun_without_key() else Context.from_environment()
        return _context


def is_torchrun_without_key() -> bool:
    """Whether torchrun has started this process, and nobody has set a key for its job.

    Then the store of torchrun's agent carries a key that rank 0 makes.
    """
    variables = os.environ
    return (
        all(name in variables for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))
        and variables.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        and variables.get("WEFT_LAUNCHER", "automatic") in ("automatic", "torchrun")
        and not any(name in variables for name in ("WEFT_JOB_KEY", "WEFT_RANK", "PMIX_RANK"))
    )


def _from_torchrun() -> Context:
    from weft.torch._rendezvous import join_torchrun  # torch is there, and is imported here alone

    return join_torchrun()


def rank_in_environment() -> int:
    """The rank that the environment gives this process."""
    if is_torchrun_without_key():
        return int(os.environ["RANK"])
    return _core.Config.from_environment().rank


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
