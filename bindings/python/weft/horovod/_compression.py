"""Compression: types in which tensors travel."""

from __future__ import annotations

from typing import Any, Optional, Protocol, Tuple, Type

import torch


class CompressorLike(Protocol):
    """What compresses tensors: a class of Compression, or one of the program's own."""

    def compress(self, tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]: ...

    def decompress(self, tensor: torch.Tensor, ctx: Any) -> torch.Tensor: ...


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
    def decompress(tensor: torch.Tensor, ctx: torch.dtype) -> torch.Tensor:
        """A tensor of the type that was compressed."""
        return tensor.to(ctx)


class _Half(Compressor):
    dtype = torch.float16


class _BFloat(Compressor):
    dtype = torch.bfloat16


class _Sketch(Compressor):
    encoding = "sketch"


class _Float8(Compressor):
    encoding = "e4m3"


class _Float8Wide(Compressor):
    encoding = "e5m2"


class _LowRank(Compressor):
    encoding = "low_rank"


class Compression:
    """What the argument `compression` of allreduce() and DistributedOptimizer() may be.

    Horovod has none and fp16.
    """

    none: Type[Compressor] = Compressor
    fp16: Type[Compressor] = _Half
    bf16: Type[Compressor] = _BFloat
    sketch: Type[Compressor] = _Sketch
    e4m3: Type[Compressor] = _Float8
    e5m2: Type[Compressor] = _Float8Wide
    low_rank: Type[Compressor] = _LowRank

    @staticmethod
    def of_rank(rank: int) -> Type[Compressor]:
        """low_rank with another number of singular values than 4."""
        return type("LowRank", (_LowRank,), {"encoding": f"low_rank:{rank}"})


def encoding_of(compression: CompressorLike) -> str:
    """How Weft encodes what the compressor gives; none by a compressor of the program's own."""
    encoding: str = getattr(compression, "encoding", "none")
    return encoding
