"""Where tensors are: in memory of the CPU, or of a GPU, whose streams say when they may be used."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, ContextManager, Dict, List, Sequence

import torch

_SIDES = 4  # streams beside each GPU's others, which started operations hold in turn

_lock = threading.Lock()
_sides: Dict[int, List["torch.cuda.Stream"]] = {}  # by GPU, the next one first


def is_known(tensor: torch.Tensor) -> bool:
    """Whether Weft takes memory of the tensor's device."""
    return tensor.is_cpu or tensor.is_cuda


def in_order(*tensors: torch.Tensor) -> Dict[str, int]:
    """What a Request needs to know of these tensors' streams: nothing if all are on the CPU.

    The operation begins behind what the current stream has, which goes on after it.
    """
    for each in tensors:
        if each.is_cuda:
            return {"stream": torch.cuda.current_stream(each.device).cuda_stream}
    return {}


def behind(*tensors: torch.Tensor) -> Dict[str, int]:
    """As in_order(), but the current stream does not wait.

    So a GPU computes while the operation runs. Who uses the result waits for the handle first.
    """
    for each in tensors:
        if each.is_cuda:
            side = _next_side(each.device)
            side.wait_stream(torch.cuda.current_stream(each.device))
            return {"stream": side.cuda_stream}
    return {}


def devices_of(tensors: Sequence[torch.Tensor]) -> List[torch.device]:
    """The GPUs of the tensors, each once."""
    return list(dict.fromkeys(each.device for each in tensors if each.is_cuda))


def mark(tensors: Sequence[torch.Tensor]) -> List["torch.cuda.Event"]:
    """Events behind what the current streams have on the GPUs of the tensors."""
    return [torch.cuda.current_stream(each).record_event() for each in devices_of(tensors)]


def follow(events: Sequence["torch.cuda.Event"]) -> None:
    """Lets the current streams wait for the events."""
    for each in events:
        torch.cuda.current_stream(each.device).wait_event(each)


class Place:
    """The device of a tensor, and the stream that was current when this was made."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._stream = torch.cuda.current_stream(tensor.device) if tensor.is_cuda else None

    def stream(self) -> ContextManager[Any]:
        """Makes that stream the current one, on any thread."""
        return contextlib.nullcontext() if self._stream is None else torch.cuda.stream(self._stream)


def _next_side(device: torch.device) -> "torch.cuda.Stream":
    number = torch.cuda.current_device() if device.index is None else device.index
    with _lock:
        sides = _sides.get(number)
        if sides is None:
            sides = _sides[number] = [torch.cuda.Stream(device) for _ in range(_SIDES)]
        sides.append(sides.pop(0))
        return sides[-1]
