"""Sums of sparse tensors, of which each rank may give another number of elements."""

from __future__ import annotations

import zlib
from typing import Callable, List

import torch

from weft._errors import Mismatch
from weft.torch._tensors import check_device

_I64 = 8  # bytes of an index


class Sparse:
    """A sparse tensor as bytes: the indices of its elements, then their values."""

    def __init__(self, tensor: torch.Tensor, what: str) -> None:
        check_device(tensor, what)
        self.tensor = tensor
        own = tensor.detach().coalesce()
        indices, values = own.indices().t().contiguous(), own.values().contiguous()
        self._dimensions = own.sparse_dim()
        self._row = values.shape[1:]  # of an element
        self.bytes = torch.cat([_bytes(indices), _bytes(values)])
        kind = f"{own.dtype} {tuple(own.shape)} {self._dimensions}"
        # What a rank tells of its tensor: elements, and a mark of all that has to be the same.
        self.facts = torch.tensor([own._nnz(), zlib.crc32(kind.encode())])
        self._what = what

    def counts(self, told: List[List[int]]) -> List[int]:
        """The bytes of each rank, by the facts of each. Raises Mismatch if two tensors differ."""
        for rank, (_, mark) in enumerate(told):
            if mark != int(self.facts[1]):
                error = Mismatch(
                    f"{self._what}: rank {rank} gave a sparse tensor that differs from this rank's "
                    f"{self.tensor.dtype} {tuple(self.tensor.shape)} in type or shape"
                )
                error.rank = rank
                raise error
        element = self._row.numel() * self.tensor.element_size()
        return [number * (self._dimensions * _I64 + element) for number, _ in told]

    def sum_into(self, gathered: torch.Tensor, told: List[List[int]]) -> Callable[[], None]:
        """What replaces the tensor by the sum, once the bytes of all ranks are in `gathered`."""

        def finish() -> None:
            indices, values = [], []
            parts = torch.split(gathered, self.counts(told))
            for part, (number, _) in zip(parts, told):
                split = number * self._dimensions * _I64
                indices.append(part[:split].clone().view(torch.int64).view(number, self._dimensions))
                elements = part[split:].clone().view(self.tensor.dtype)
                values.append(elements.view(number, *self._row))
            total = torch.sparse_coo_tensor(
                torch.cat(indices).t(), torch.cat(values), self.tensor.shape, check_invariants=False
            )
            with torch.no_grad():
                self.tensor.copy_(total.coalesce())

        return finish


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(-1).view(torch.uint8)
