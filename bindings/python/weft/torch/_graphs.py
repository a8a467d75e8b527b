"""What torch.compile does with Weft: it calls it, and does not look inside. Each call ends a graph."""

from __future__ import annotations

from types import FunctionType
from typing import Any, Iterable

import torch

_REASON = "an operation of Weft runs outside of graphs"


def keep_out(functions: Iterable[Any]) -> None:
    """Keeps these functions out of graphs, and all that they call; what is no function is skipped.

    As torch.compiler.disable(), which would import the compiler. That takes seconds.
    """
    frames: Any = torch._C._dynamo.eval_frame
    for each in functions:
        if not isinstance(each, FunctionType):
            continue
        function: Any = each
        function._torchdynamo_disable = True
        function._torchdynamo_disable_msg = _REASON
        if hasattr(frames, "set_code_exec_strategy"):  # from torch 2.7 on
            skip = frames._FrameAction.SKIP
            frames.set_code_exec_strategy(
                each.__code__, frames._FrameExecStrategy(skip, skip)
            )
