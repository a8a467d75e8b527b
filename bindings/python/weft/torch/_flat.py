"""Parameters of a model side by side in one segment.

The ranks of a machine read each other's segments in place, and one operation moves many
parameters. A segment is shared memory of Weft's, or memory of the GPU on which the parameters are. A segment holds the parameters twice. In one half are their values now; an exchange
reads it and writes the other half. Afterwards turn() makes the parameters views of that half,
which copies nothing.

    half 0   [ last parameter | ... | second | first ]   <- the parameters are views of this half
    half 1   [ last parameter | ... | second | first ]   <- the result of the exchange comes here

Parameters are in the reverse of their order in the model, because backward() makes the gradients in
about that order. So those whose gradients are ready first are side by side: they form the first
bucket.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence, Tuple

import torch

from weft import _core
from weft._errors import InvalidArgument
from weft.torch._devices import behind, is_known
from weft.torch._dtype import FLOATING, NUMBERS

_ALIGNMENT = 64  # bytes; a cache line
_MOST = 4 << 20  # bytes of a bucket; more of them cost time, fewer start later
_FEWEST = 256 << 10
_BUCKETS = 4  # what a small model is cut into, unless the buckets become too small


class Bucket(NamedTuple):
    """Parameters that are exchanged together.

    members: numbers in Flat.parameters. begin, end: elements of a half.
    """

    members: range
    begin: int
    end: int


class Flat:
    """The parameters of one dtype and one device."""

    def __init__(
        self, parameters: Sequence[torch.nn.Parameter], halves: int, is_cut: bool
    ) -> None:
        """parameters: in the order of the model. halves: 2; 1 for operations in place. Others than two do not turn().

        is_cut: into several buckets; else all are one.
        """
        self.parameters = list(reversed(parameters))
        self.dtype = parameters[0].dtype
        self.device = parameters[0].device
        self.number = NUMBERS[self.dtype]
        self._size = self.dtype.itemsize
        step = _ALIGNMENT // self._size
        self._begins: List[int] = []
        end = 0
        for each in self.parameters:
            self._begins.append(end)
            end += -(-each.numel() // step) * step
        self.elements = end
        self._now = 0
        self._halves = [_segment(self.elements, self.dtype, self.device) for _ in range(halves)]
        self._views = [self.views_of(half) for half in self._halves]
        self.buckets = self._cut() if is_cut else [self._all()]

    def views_of(self, half: torch.Tensor) -> List[torch.Tensor]:
        """The parts of memory of the shape of a half that belong to the parameters."""
        return [self._view_of(half, number) for number in range(len(self.parameters))]

    def _view_of(self, half: torch.Tensor, number: int) -> torch.Tensor:
        begin, parameter = self._begins[number], self.parameters[number]
        return half[begin : begin + parameter.numel()].view(parameter.shape)

    def _all(self) -> Bucket:
        return Bucket(range(len(self.parameters)), 0, self.elements)

    def _cut(self) -> List[Bucket]:
        bytes_ = self.elements * self._size
        limit = min(max(bytes_ // _BUCKETS, _FEWEST), _MOST) // self._size
        firsts = [0]
        for number, begin in enumerate(self._begins):
            if begin - self._begins[firsts[-1]] >= limit:
                firsts.append(number)
        return self.cut_at(firsts)

    def cut_at(self, firsts: Sequence[int]) -> List[Bucket]:
        """Buckets that begin with these parameters, of which the first is 0."""
        ends = [*firsts[1:], len(self.parameters)]
        begins = [self._begins[first] for first in firsts]
        return [
            Bucket(range(first, end), begin, stop)
            for first, end, begin, stop in zip(firsts, ends, begins, [*begins[1:], self.elements])
        ]

    def copy_gradients(self, to: torch.Tensor, members: range) -> None:
        """Copies the gradients of these parameters into memory of the shape of a half. Missing ones are 0."""
        with torch.no_grad():
            for number in members:
                view, gradient = self._view_of(to, number), self.parameters[number].grad
                if gradient is None:
                    view.zero_()
                else:
                    check_gradient(gradient)
                    view.copy_(gradient)

    def address_now(self, bucket: Bucket) -> int:
        """Of the bucket's values now."""
        return self._halves[self._now].data_ptr() + bucket.begin * self._size

    def address_next(self, bucket: Bucket) -> int:
        """Where the result of the bucket's exchange comes."""
        return self._halves[self._now - 1].data_ptr() + bucket.begin * self._size

    def memory(self) -> List[torch.Tensor]:
        """What must live as long as an operation runs."""
        return self._halves

    def behind(self) -> Dict[str, int]:
        """How an operation on the segment begins behind what its GPU computes now."""
        return behind(self._halves[0])

    def view(self, number: int) -> torch.Tensor:
        """The memory of a parameter in the half that is in use, with the parameter's shape."""
        return self._views[self._now][number]

    def attach(self, bucket: Bucket) -> None:
        """Makes the bucket's parameters views of the half in use, with their values.

        They are so already, unless something else has given them other memory since
        (`module.to()`, `load_state_dict(assign=True)`).
        """
        for number in bucket.members:
            parameter, view = self.parameters[number], self._views[self._now][number]
            if parameter.data_ptr() == view.data_ptr() or parameter.numel() == 0:
                continue
            check_kind(parameter)
            if parameter.dtype is not self.dtype or parameter.shape != view.shape:
                raise InvalidArgument(
                    f"a parameter was {self.dtype} {tuple(view.shape)} when the distributed "
                    f"optimizer was made, and is {parameter.dtype} {tuple(parameter.shape)} now; "
                    "make the optimizer after such changes"
                )
            if parameter.device != self.device:
                raise InvalidArgument(
                    f"a parameter was on {self.device} when the distributed optimizer was made, "
                    f"and is on {parameter.device} now; make the optimizer after such changes"
                )
            view.copy_(parameter.data)
            parameter.data = view

    def mark_changed(self) -> None:
        """Tells autograd that the parameters have new values."""
        for parameter in self.parameters:
            torch.autograd.graph.increment_version(parameter)

    def turn(self) -> None:
        """Makes the parameters views of the other half."""
        self._now = 1 - self._now
        for parameter, view in zip(self.parameters, self._views[self._now]):
            parameter.data = view
        self.mark_changed()


def check_kind(parameter: torch.Tensor) -> None:
    """Raises InvalidArgument unless it is dense, on a CPU or on CUDA, and of a floating type of Weft."""
    if not is_known(parameter) or parameter.layout is not torch.strided:
        raise InvalidArgument(
            f"a parameter is on {parameter.device} with layout {parameter.layout}; weft.torch "
            "takes dense tensors on the CPU and on CUDA"
        )
    if NUMBERS.get(parameter.dtype) not in FLOATING:
        raise InvalidArgument(f"a parameter of {parameter.dtype} cannot be averaged")


def check_gradient(gradient: torch.Tensor) -> None:
    """Raises TypeError unless it is dense."""
    if gradient.layout is not torch.strided:
        raise TypeError(
            f"a gradient has layout {gradient.layout}; only dense ones can be averaged (for an "
            "Embedding: sparse=False)"
        )


def flattened(
    parameters: Sequence[torch.nn.Parameter], halves: int, is_cut: bool
) -> List[Flat]:
    """One Flat for each dtype on each device, in the order in which they appear."""
    by_kind: Dict[Tuple[torch.dtype, torch.device], List[torch.nn.Parameter]] = {}
    for each in parameters:
        check_kind(each)
        by_kind.setdefault((each.dtype, each.device), []).append(each)
    return [Flat(each, halves, is_cut) for each in by_kind.values()]


def _segment(elements: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    if device.type == "cuda":
        return torch.empty(elements, dtype=dtype, device=device)
    memory = _core.Memory(max(elements, 1) * dtype.itemsize)
    return torch.frombuffer(memory, dtype=dtype, count=max(elements, 1))[:elements]
