"""Tensors as memory: one dense block of memory, of a CPU or a GPU, for each side of an operation.

A dense tensor is used where it lies. Any other is copied: an input before the operation, an output
from a temporary tensor after it. Lists of tensors become one block, without a copy where they lie
one behind the other already, as the results of `tensor.chunk()` do.
"""

from __future__ import annotations

import threading
from typing import Callable, List, Optional, Sequence, Tuple

import torch

from weft._errors import InvalidArgument
from weft.torch._devices import follow, is_known, mark

Finish = Callable[[], None]

# Types without a memory or a meaning of their own.
PLAIN = (torch.Tensor, torch.nn.Parameter)


class Once:
    """What writes the outputs of an operation that is done. Any number of threads may call it.

    The first call runs `finish`. The others return when the outputs are written, or raise what
    `finish` raised.
    """

    def __init__(self, finish: Finish, outputs: Sequence[torch.Tensor]) -> None:
        self._finish: Optional[Finish] = finish
        self._outputs = outputs
        self._lock = threading.Lock()
        self._error: Optional[BaseException] = None
        self._written: Sequence["torch.cuda.Event"] = ()

    def __call__(self) -> None:
        with self._lock:
            if self._finish is not None:
                try:
                    self._finish()
                    self._written = mark(self._outputs)
                except Exception as error:
                    self._error = error
                self._finish = None
        if self._error is not None:
            raise self._error
        follow(self._written)


def check_device(tensor: torch.Tensor, what: str) -> None:
    """Raises TypeError unless `tensor` is a tensor on a CPU or on CUDA."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{what}: expected a tensor, not {type(tensor).__name__}")
    if not is_known(tensor):
        raise TypeError(
            f"{what}: the tensor is on {tensor.device}; weft takes tensors on the CPU and on CUDA"
        )


def check(tensor: torch.Tensor, what: str) -> None:
    """Raises TypeError unless `tensor` is a tensor with strides in memory of a CPU or of CUDA."""
    check_device(tensor, what)
    if tensor.layout is not torch.strided:
        raise TypeError(f"{what}: the tensor's layout is {tensor.layout}; weft takes dense ones")


def is_dense(tensor: torch.Tensor, what: str) -> bool:
    """Whether the elements lie in memory as the shape says, in order and without gaps.

    Raises TypeError for what is no tensor of a CPU or of CUDA.
    """
    if type(tensor) in PLAIN and is_known(tensor):
        if tensor.layout is torch.strided and tensor.is_contiguous():
            return not (tensor.is_neg() or tensor.is_conj())
    check(tensor, what)
    return False


def _settled(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor behind a subclass: the result of a functional collective is waited for."""
    wait = getattr(tensor, "trigger_wait", None)  # of AsyncCollectiveTensor
    settled: torch.Tensor = tensor if wait is None else wait()
    return settled


def read_from(tensor: torch.Tensor, what: str) -> torch.Tensor:
    """`tensor` if it is dense, else a dense copy."""
    if is_dense(tensor, what):
        return tensor
    plain = _settled(tensor).detach()
    return plain.resolve_conj().resolve_neg().contiguous()


def written_to(tensor: torch.Tensor, what: str) -> Tuple[torch.Tensor, Optional[Finish]]:
    """`tensor` if it is dense, else a new tensor and what copies that to `tensor` afterwards.

    The elements of the new tensor are not initialized.
    """
    if is_dense(tensor, what):
        return tensor, None
    plain = _settled(tensor).detach()
    block = torch.empty(plain.shape, dtype=plain.dtype, device=plain.device)
    return block, lambda: _copy(plain, block)


def updated(tensor: torch.Tensor, what: str) -> Tuple[torch.Tensor, Optional[Finish]]:
    """As written_to(), but with the values of `tensor`: for operations in place."""
    if is_dense(tensor, what):
        return tensor, None
    plain = _settled(tensor).detach()
    block = read_from(tensor, what)
    if block.data_ptr() == plain.data_ptr():  # a subclass of Tensor around dense memory
        return block, None
    return block, lambda: _copy(plain, block)


def _copy(to: torch.Tensor, block: torch.Tensor) -> None:
    to.copy_(block)
    _used(block)


def _used(block: torch.Tensor) -> None:
    """The current stream uses the block, which may be another one than that it was made on."""
    if block.is_cuda:
        block.record_stream(torch.cuda.current_stream(block.device))


def _side_by_side(tensors: Sequence[torch.Tensor], what: str) -> Optional[torch.Tensor]:
    """The tensors as one flat tensor if each begins where the one before it ends, else None."""
    first = tensors[0]
    end = first.data_ptr()
    storage = first.untyped_storage().data_ptr()
    total = 0
    for each in tensors:
        if not is_dense(each, what) or each.data_ptr() != end:
            return None
        if each.untyped_storage().data_ptr() != storage:
            return None
        total += each.numel()
        end += each.numel() * each.element_size()
    return first.detach().as_strided((total,), (1,))


def _check_alike(tensors: Sequence[torch.Tensor], dtype: torch.dtype, what: str) -> None:
    for each in tensors:
        check(each, what)
        if each.dtype is not dtype:
            raise TypeError(f"{what}: the tensors have different types, {dtype} and {each.dtype}")
        if each.device != tensors[0].device:
            raise TypeError(
                f"{what}: the tensors are on different devices, {tensors[0].device} and {each.device}"
            )


def read_all(tensors: Sequence[torch.Tensor], dtype: torch.dtype, what: str) -> torch.Tensor:
    """The elements of all tensors, one tensor after another, as one flat tensor."""
    _check_alike(tensors, dtype, what)
    block = _side_by_side(tensors, what)
    if block is not None:
        return block
    return torch.cat([_settled(each).detach().reshape(-1) for each in tensors])


def written_all(
    tensors: Sequence[torch.Tensor], dtype: torch.dtype, what: str
) -> Tuple[torch.Tensor, Optional[Finish]]:
    """One flat tensor for all, and what copies its parts to the tensors afterwards, if needed."""
    _check_alike(tensors, dtype, what)
    block = _side_by_side(tensors, what)
    if block is not None:
        return block, None
    plain: List[torch.Tensor] = [_settled(each).detach() for each in tensors]
    sizes = [each.numel() for each in plain]
    whole = torch.empty(sum(sizes), dtype=dtype, device=plain[0].device)

    def spread() -> None:
        for to, part in zip(plain, torch.split(whole, sizes)):
            to.copy_(part.view(to.shape))
        _used(whole)

    return whole, spread


def same_type(output: torch.Tensor, source: torch.Tensor, what: str) -> None:
    """Raises TypeError unless both have one dtype."""
    if output.dtype is not source.dtype:
        raise TypeError(f"{what}: the output is {output.dtype}, the input {source.dtype}")


def only_one(tensors: object, what: str) -> torch.Tensor:
    """The tensor in a list of one, as torch hands it over, or the tensor itself."""
    if isinstance(tensors, torch.Tensor):
        return tensors
    if isinstance(tensors, (list, tuple)) and len(tensors) == 1:
        tensor: torch.Tensor = tensors[0]
        return tensor
    count = len(tensors) if isinstance(tensors, (list, tuple)) else type(tensors).__name__
    raise InvalidArgument(f"{what}: expected one tensor for each rank, got {count}")
