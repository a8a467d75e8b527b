"""The end of a `with` block of what has an end() that is collective."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Optional, Type


def end_of_block(
    self: Any,
    kind: Optional[Type[BaseException]],
    value: Optional[BaseException],
    traceback: Optional[TracebackType],
) -> None:
    """end(), unless an exception leaves the block: the other ranks may not have come so far."""
    if kind is None:
        self.end()
