"""Exceptions: one class for each code of a failed operation."""

from __future__ import annotations

from typing import Dict, Optional, Type


class Error(RuntimeError):
    """Something that Weft could not do. Every exception of Weft has this class.

    It is a RuntimeError, as the errors of PyTorch and Horovod are.

    Attributes:
        code: the kind of error, the same in every binding: "timed_out", "peer_died", ...
        rank: the rank at fault, or None.
    """

    code: str = "error"
    rank: Optional[int] = None


class InvalidArgument(Error, ValueError):
    """The caller asked for something that has no meaning."""

    code = "invalid_argument"


class Mismatch(Error):
    """Two ranks disagree: about an edge, a size, a type, or the order of operations."""

    code = "mismatch"


class TimedOut(Error, TimeoutError):
    """A deadline passed. The text names what was waited for."""

    code = "timed_out"


class PeerDied(Error, ConnectionError):
    """A rank ended without leaving the job."""

    code = "peer_died"


class PeerLeft(Error, ConnectionError):
    """A rank closed its context while another rank still needed it."""

    code = "peer_left"


class NoPermission(Error, PermissionError):
    """The kernel or the job's credential refused."""

    code = "no_permission"


class Exhausted(Error, MemoryError):
    """There is no more memory, shared memory, or file descriptors."""

    code = "exhausted"


class Unavailable(Error):
    """A device, a library or a service is not here."""

    code = "unavailable"


class Closed(Error):
    """The context was closed, or has failed before."""

    code = "closed"


class OperatingSystem(Error, OSError):
    """An unexpected answer of the operating system."""

    code = "system"


class Corrupted(Error):
    """Data are not what a rank sent, or ranks have different results that must be equal."""

    code = "corrupted"


CLASSES: Dict[str, Type[Error]] = {
    each.code: each
    for each in (
        InvalidArgument,
        Mismatch,
        TimedOut,
        PeerDied,
        PeerLeft,
        NoPermission,
        Exhausted,
        Unavailable,
        Closed,
        OperatingSystem,
        Corrupted,
    )
}
