"""Reduction: how tensors are allreduced, alone or as a group, and what is done before and after."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from weft._core import ErrorFeedback
from weft.horovod import _timeline
from weft.horovod._adasum import Adasum, Reduced
from weft.horovod._handles import Operation, keep
from weft.horovod._teams import Team

Average = "average"
Sum = "sum"
Min = "min"
Max = "max"
Product = "product"

# What an autograd.Function keeps for its backward().
Context = Any
Tensors = List[torch.Tensor]


def apply(function: Any, *arguments: Any) -> Any:
    """function.apply(), to which torch gives no types."""
    return function.apply(*arguments)


def dense(tensor: torch.Tensor, what: str) -> torch.Tensor:
    """The tensor without a history, contiguous."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{what}: expected a tensor, not {type(tensor).__name__}")
    if not (tensor.is_cpu or tensor.is_cuda) or tensor.layout is not torch.strided:
        raise TypeError(f"{what}: takes dense tensors on the CPU and on CUDA")
    return tensor.detach().contiguous()


def in_place(tensor: torch.Tensor, what: str) -> torch.Tensor:
    """The tensor itself, without a history."""
    block = dense(tensor, what)
    if block.data_ptr() != tensor.data_ptr():
        raise ValueError(f"{what}: a tensor that is changed in place must be contiguous")
    return block


def scaled(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    """The tensor times a factor. Products of integers are cut off, as Horovod's are."""
    if factor == 1.0:
        return tensor
    if tensor.is_floating_point() and tensor.element_size() == 1:  # torch does not multiply these
        return (tensor.float() * factor).to(tensor.dtype)
    if tensor.is_floating_point() or tensor.is_complex():
        return tensor * factor
    return (tensor.double() * factor).to(tensor.dtype)


def averages_integers(op: str, tensors: Sequence[torch.Tensor]) -> bool:
    """Whether this is an average which Weft sums only."""
    return op == Average and not all(each.is_floating_point() for each in tensors)


def divide(tensors: Sequence[torch.Tensor], size: int) -> None:
    """Divides sums by the number of ranks, integers towards zero."""
    for each in tensors:
        each.div_(size, rounding_mode=None if each.is_floating_point() else "trunc")


class Reduction:
    """An allreduce of some tensors: how it is called, and the factors before and after it."""

    def __init__(
        self,
        team: Team,
        title: str,
        op: str,
        factors: Tuple[float, float] = (1.0, 1.0),
        encoding: str = "none",
        feedbacks: Optional[List[ErrorFeedback]] = None,
    ) -> None:
        self.team = team
        self.title = title
        self.op = op
        self.prescale, self.postscale = self.factors = factors
        self.encoding = encoding  # of Compressor
        self.feedbacks = feedbacks  # one for each tensor

    def of_gradient(self) -> Reduction:
        """The gradient of a reduction is reduced in the same way."""
        return Reduction(self.team, f"{self.title}.gradient", self.op, self.factors, self.encoding)

    def start(self, tensor: torch.Tensor) -> int:
        x = scaled(dense(tensor, "allreduce"), self.prescale)
        y = torch.empty_like(x)
        return keep(self._one(x, y), lambda: scaled(self._divided([y])[0], self.postscale))

    def start_in_place(self, tensor: torch.Tensor) -> int:
        if self._is_plain(tensor):
            operation = self.team.allreduce_plain(self.title, tensor, tensor, self.op)
            if operation is not None:
                return keep(operation)
        x = in_place(tensor, "allreduce_")
        if self.prescale != 1.0:
            x.copy_(scaled(x, self.prescale))
        return keep(self._one(x, x), lambda: self._finished([x], [tensor])[0])

    def start_group(self, tensors: Sequence[torch.Tensor]) -> int:
        xs = [scaled(dense(each, "grouped_allreduce"), self.prescale) for each in tensors]
        ys = [torch.empty_like(each) for each in xs]
        return keep(
            self._group(xs, ys),
            lambda: [scaled(each, self.postscale) for each in self._divided(ys)],
        )

    def start_group_in_place(self, tensors: Sequence[torch.Tensor]) -> int:
        xs = [in_place(each, "grouped_allreduce_") for each in tensors]
        if self.prescale != 1.0:
            for each in xs:
                each.copy_(scaled(each, self.prescale))
        results = list(tensors)
        return keep(self._group(xs, xs), lambda: self._finished(xs, results))

    def _is_plain(self, tensor: torch.Tensor) -> bool:
        """Whether Weft computes all that was asked for."""
        if self.factors != (1.0, 1.0) or self.encoding != "none" or self.op == Adasum:
            return False
        return isinstance(tensor, torch.Tensor) and not averages_integers(self.op, (tensor,))

    def _finished(self, blocks: Tensors, results: List[torch.Tensor]) -> List[torch.Tensor]:
        for each in self._divided(blocks):
            if self.postscale != 1.0:
                each.copy_(scaled(each, self.postscale))
        return results

    def _one(self, x: torch.Tensor, y: torch.Tensor) -> Operation:
        if self.op == Adasum:
            return self._adasum([x], [y])
        runs = self._runs([x])
        if "feedback" in runs:
            runs["feedback"] = runs["feedback"][0]
        return self.team.by_name(self.title).allreduce_start(x, y, **runs)

    def _adasum(self, xs: Tensors, ys: Tensors) -> Operation:
        for x, y in zip(xs, ys):
            if y is not x:
                y.copy_(x)
        return Reduced(self.team, self.title, ys)

    def _group(self, xs: Tensors, ys: Tensors) -> Operation:
        if self.op == Adasum:
            return self._adasum(xs, ys)
        start = self.team.named.grouped_allreduce_start
        handle = start(self.title, xs, ys, **self._runs(xs))
        return _timeline.add(self.title, "grouped_allreduce", handle)

    def _runs(self, tensors: Tensors) -> Dict[str, Any]:
        """What Weft computes: of an average of integers the sum."""
        op = Sum if averages_integers(self.op, tensors) else self.op
        can_be_encoded = op in (Sum, Average) and all(
            each.dtype is torch.float32 and each.is_cpu for each in tensors
        )
        if not can_be_encoded or self.encoding == "none":
            return {"op": op}
        how = {"op": op, "compression": self.encoding}
        return how if self.feedbacks is None else {**how, "feedback": self.feedbacks}

    def _divided(self, tensors: Tensors) -> Tensors:
        """What was asked for, made of what Weft computed."""
        if averages_integers(self.op, tensors):
            divide(tensors, self.team.size)
        return tensors
