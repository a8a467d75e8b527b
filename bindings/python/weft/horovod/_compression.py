"""Compression: types in which tensors travel."""

from __future__ import annotations

from typing import Optional, Tuple, Type

import torch


class Compressor:
    """Tensors travel as they are."""

    dtype: Optional[torch.dtype] = None  # in which floating types travel
    encoding = "none"  # of tensors of float32 on the CPU, as weft.Compression names it

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> Tuple[torch.Tensor, torch.dtype]:
        """What travels, and what decompress() needs to know."""
        if cls.dtype is None or not tensor.is_floating_point():
            return tensor, tensor.dtype
        return tensor.to(cls.dtype), tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """A tensor of the type that was compressed."""
        return tensor.to(dtype)


class _Half(Compressor):
    dtype = torch.float16


class _BFloat(Compressor):
    dtype = torch.bfloat16


class _Sketch(Compressor):
    encoding = "sketch"


class Compression:
    """What the argument `compression` of allreduce() and DistributedOptimizer() may be."""

    none: Type[Compressor] = Compressor
    fp16: Type[Compressor] = _Half
    bf16: Type[Compressor] = _BFloat
    sketch: Type[Compressor] = _Sketch
