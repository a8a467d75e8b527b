"""Windows with BlueFog's names: memory that neighbors write, read and add to.

    bf.win_create(x, "model")            # collective; the graph of now says who writes to whom
    bf.win_put(x, "model")               # x into this rank's slot at each out-neighbor
    bf.win_update("model")               # x := the average of x and the slots of in-neighbors
    bf.win_free("model")                 # collective

The neighbors take no part in a call: it ends while they compute. `..._nonblocking` returns a handle
for win_poll() and win_wait(). weft.Window has more: raw access, signals, asyncio. Wrong arguments
raise InvalidArgument, a ValueError; a rank that has died is PeerDied.
"""

from __future__ import annotations

import contextlib
from typing import Dict, Iterable, Iterator, List, Optional

import torch

from weft._errors import InvalidArgument
from weft._operations import CompressionLike
from weft._window import Window
from weft.torch import _job, _weights, handles
from weft.torch._calls import in_place
from weft.torch._tensors import is_dense, read_from
from weft.torch._timeline import timed
from weft.torch._weights import Targets, Weights


@timed
def win_create(tensor: torch.Tensor, name: str, zero_init: bool = False) -> bool:
    """Makes a window of the graph as it is now. Collective. Returns True.

    The window shares the tensor's memory and keeps it. While windows exist, the graph cannot be
    changed: set_topology() returns False.

    Args:
        tensor: dense; the same shape and type on all ranks.
        name: the same on all ranks; no other window has it.
        zero_init: slots begin with zeros; else with this rank's tensor as it is now.
    """
    if not is_dense(tensor, "win_create"):
        raise InvalidArgument(
            f"win_create: the tensor of {name!r} is not contiguous (strides {tensor.stride()})"
        )
    job = _job.current()
    window = job.context.win_create(tensor, name, zero_init=zero_init)
    window.set_associated_p(job.moves_p)
    return True


@timed
def win_free(name: Optional[str] = None) -> bool:
    """Ends the window of that name, or all windows. Collective. Returns True.

    If a rank still uses a window (pending handles, a mutex), all ranks get InvalidArgument, and the
    window goes on.
    """
    if name is None:
        _job.context().win_free_all()
    else:
        _job.context().win_free(name)
    return True


def get_current_created_window_names() -> List[str]:
    """The names of all windows, in ascending order."""
    return _job.context().window_names()


@timed
def win_put(
    tensor: torch.Tensor,
    name: str,
    self_weight: Optional[float] = None,
    dst_weights: Optional[Targets] = None,
    require_mutex: bool = False,
    compression: CompressionLike = "none",
) -> bool:
    """The slot at each destination := weight * tensor. Then tensor *= self_weight. Returns True.

    Args:
        tensor: any tensor of the window's shape and type.
        self_weight: None: 1.0.
        dst_weights: {rank: weight} of some out-neighbors, or a list of ranks for 1.0 each; None: all
            of them, with 1.0.
        require_mutex: holds the mutex of each destination meanwhile.
        compression: "f16", "bf16", "sketch", "e4m3" or "e5m2": tensors of float32 travel in fewer bytes.
    """
    return win_wait(
        win_put_nonblocking(tensor, name, self_weight, dst_weights, require_mutex, compression)
    )


@timed
def win_put_nonblocking(
    tensor: torch.Tensor,
    name: str,
    self_weight: Optional[float] = None,
    dst_weights: Optional[Targets] = None,
    require_mutex: bool = False,
    compression: CompressionLike = "none",
) -> int:
    """Starts win_put(), and returns a handle. Until it is done, the tensor must be left alone."""
    return _put(False, tensor, name, self_weight, dst_weights, require_mutex, compression)


@timed
def win_accumulate(
    tensor: torch.Tensor,
    name: str,
    self_weight: Optional[float] = None,
    dst_weights: Optional[Targets] = None,
    require_mutex: bool = False,
    compression: CompressionLike = "none",
) -> bool:
    """As win_put(), but adds weight * tensor to the slot. Floating types."""
    return win_wait(
        win_accumulate_nonblocking(
            tensor, name, self_weight, dst_weights, require_mutex, compression
        )
    )


@timed
def win_accumulate_nonblocking(
    tensor: torch.Tensor,
    name: str,
    self_weight: Optional[float] = None,
    dst_weights: Optional[Targets] = None,
    require_mutex: bool = False,
    compression: CompressionLike = "none",
) -> int:
    """Starts win_accumulate(), and returns a handle."""
    return _put(True, tensor, name, self_weight, dst_weights, require_mutex, compression)


def _put(
    accumulates: bool,
    tensor: torch.Tensor,
    name: str,
    self_weight: Optional[float],
    dst_weights: Optional[Targets],
    require_mutex: bool,
    compression: CompressionLike,
) -> int:
    what = "win_accumulate" if accumulates else "win_put"
    window = _window(name)
    targets = _weights.by_rank(what, "dst_weights", dst_weights)
    weight = 1.0 if self_weight is None else float(self_weight)
    finish = None
    if weight == 1.0:
        block = read_from(tensor, what)
    else:
        block, finish = in_place(tensor, what)
    start = window.accumulate_start if accumulates else window.put_start
    operation = start(
        block.detach(),
        self_weight=weight,
        dst_weights=targets,
        require_mutex=require_mutex,
        compression=compression,
    )
    return handles.add(operation, lambda: tensor, None, finish)


@timed
def win_get(
    name: str, src_weights: Optional[Targets] = None, require_mutex: bool = False
) -> bool:
    """This rank's slot of each source := weight * the source's tensor as it is now. Returns True.

    Args:
        src_weights: {rank: weight} of some in-neighbors, or a list of ranks for 1.0 each; None: all
            of them, with 1.0.
        require_mutex: holds the mutex of each source meanwhile.
    """
    return win_wait(win_get_nonblocking(name, src_weights, require_mutex))


@timed
def win_get_nonblocking(
    name: str, src_weights: Optional[Targets] = None, require_mutex: bool = False
) -> int:
    """Starts win_get(), and returns a handle."""
    window = _window(name)
    sources = _weights.by_rank("win_get", "src_weights", src_weights)
    operation = window.get_start(src_weights=sources, require_mutex=require_mutex)
    return handles.add(operation, lambda: window.tensor, None)


@timed
def win_update(
    name: str,
    self_weight: Optional[float] = None,
    neighbor_weights: Optional[Weights] = None,
    reset: bool = False,
    clone: bool = False,
    require_mutex: bool = False,
) -> torch.Tensor:
    """The window's tensor := self_weight * tensor + the sum of weight * slot. Returns the tensor.

    Args:
        self_weight, neighbor_weights: both or neither; {rank: weight} of some in-neighbors. Without
            them the weights are those of the graph if it was set with is_weighted, else
            1/(in-neighbors + 1).
        reset: zeroes the slots that were read.
        clone: returns a new tensor, and leaves the window's own as it is.
        require_mutex: holds this rank's mutex meanwhile.
    """
    window = _window(name)
    updated: torch.Tensor = window.update(
        self_weight=self_weight,
        src_weights=_weights.by_rank("win_update", "neighbor_weights", neighbor_weights),
        reset=reset,
        require_mutex=require_mutex,
        clone=clone,
    )
    return updated if clone else _changed(updated)


@timed
def win_update_then_collect(name: str, require_mutex: bool = True) -> torch.Tensor:
    """Adds the slots to the window's tensor, and zeroes them. Returns the tensor."""
    collected: torch.Tensor = _window(name).update_then_collect(require_mutex=require_mutex)
    return _changed(collected)


def _changed(tensor: torch.Tensor) -> torch.Tensor:
    """Tells autograd, because Weft writes behind torch's back."""
    if not tensor.is_inference():
        with torch.no_grad():
            torch.autograd.graph.increment_version(tensor)
    return tensor


def win_poll(handle: int) -> bool:
    """Whether the work is done, with or without an error. Does not wait."""
    return handles.poll(handle)


def win_wait(handle: int) -> bool:
    """Waits until the work is done, and raises its error if it has failed. Returns True.

    Each handle can be waited for once.
    """
    handles.synchronize(handle)
    return True


@contextlib.contextmanager
def win_mutex(
    name: str, for_self: bool = False, ranks: Optional[Iterable[int]] = None
) -> Iterator[None]:
    """A context in which this rank holds mutexes of the window. They do not nest.

    Args:
        for_self: the mutex of this rank alone.
        ranks: whose mutexes; None: those of all out-neighbors.
    """
    window = _window(name)
    if for_self:
        chosen = [window.rank]
    elif ranks is None:
        chosen = window.out_neighbors
    else:
        chosen = _weights.ranks("win_mutex", "ranks", ranks)
    with window.lock(chosen):
        yield


@contextlib.contextmanager
def win_lock(name: str) -> Iterator[None]:
    """A context that has no effect for a window that exists: calls of windows need no epochs."""
    _window(name)
    yield


# BlueFog's older names.
neighbor_win_put = win_put
neighbor_win_put_nonblocking = win_put_nonblocking
neighbor_win_get = win_get
neighbor_win_get_nonblocking = win_get_nonblocking
neighbor_win_accumulate = win_accumulate
neighbor_win_accumulate_nonblocking = win_accumulate_nonblocking


@timed
def win_fence(name: Optional[str] = None) -> bool:
    """Waits until the works of all ranks on all windows have ended. Collective. Returns True.

    name: a window that has to exist. The fence is for all of them.
    """
    if name is not None:
        _window(name)
    _job.context().win_fence()
    return True


def get_win_version(name: str) -> Dict[int, int]:
    """{in-neighbor: how many puts and gets have landed in its slot since the last update}."""
    return _window(name).versions()


def win_associated_p(name: str) -> float:
    """The p of this rank's tensor: 1.0 at first."""
    return _window(name).associated_p()


def turn_on_win_ops_with_associated_p() -> None:
    """From now on, the calls of all windows move p together with the tensor. Off at first."""
    _turn(True)


def turn_off_win_ops_with_associated_p() -> None:
    """From now on, p stays as it is."""
    _turn(False)


def _turn(on: bool) -> None:
    job = _job.current()
    job.moves_p = on
    for name in job.context.window_names():
        job.context.window(name).set_associated_p(on)


def _window(name: str) -> Window:
    return _job.context().window(name)
