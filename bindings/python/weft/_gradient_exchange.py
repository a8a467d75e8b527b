"""Gradients that travel in pieces while the next ones are computed (weft/gradient_exchange.h has the contract).

    with weft.GradientExchange(ctx, x, [n - 10, 10], rate=0.05) as exchange:    # collective
        for step in range(1000):
            exchange.begin()
            exchange.push(0, gradient_of_the_first(x))      # travels from here on
            exchange.push(1, gradient_of_the_second(x))
            exchange.end_iteration(mean)                    # x := x - rate mean
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, List, NamedTuple, Optional, Sequence

from weft import _core
from weft._arrays import memory_of, new_like, settle
from weft._blocks import end_of_block
from weft._core import Compression
from weft._operations import CompressionLike, compression_number

if TYPE_CHECKING:
    from weft._context import Context


class EndedIteration(NamedTuple):
    """How an iteration of a GradientExchange ended."""

    number: int
    is_dropped: bool  # its gradients were dropped, but those that were out
    pulled_from: Optional[int]  # the rank whose model x is now
    contributors: List[int]  # to the mean of each colayer; in a mesh: the owners whose means it has
    mean: Any  # of the model's shape


class GradientExchange(_core.GradientExchange):
    """Exchange of gradients by colayer, bundles of layers whose gradients travel together: Canary.

    Calls of several threads are serialized. An object may be dropped before it has ended: what other ranks may
    still use, its context keeps.
    """

    def __init__(
        self,
        context: Context,
        model: Any,
        colayers: Sequence[int],
        *,
        name: str = "gradient_exchange",
        rule: str = "canary",
        staleness: int = 18,
        proportion: Optional[int] = None,
        rate: Optional[float] = None,
        topology: str = "all_to_all",
        compression: CompressionLike = "none",
    ) -> None:
        """Collective. Sets the context's graph to the fully connected one.

        Args:
            model: this rank's array of a floating type, the colayers one after the other; contiguous and
                writable. One on a GPU is copied to the host and back, where means are computed.
            colayers: the elements of each. bundle_layers() chooses the layers.
            name: begins the names of windows.
            rule: whom an iteration waits for. "bulk": all ranks. "bounded": those that are `staleness`
                iterations behind. "asynchronous" and "canary": nobody. With "canary" a rank that is more
                than `staleness` behind, and has pushed less than `proportion` colayers, drops its
                gradients and takes the model of the fastest.
            staleness: iterations.
            proportion: colayers; six of ten if absent.
            rate: of the step at the end of an iteration; if absent, update() changes the model.
            topology: "all_to_all": pieces go to all ranks. "mesh": shares of pieces go to their owners, who
                send the means to all, in less than 2 models an iteration.
            compression: "none", "f16", "bf16", "sketch", "e4m3", "e5m2", or a Compression; all but "none" take float32.
        """
        own = memory_of(model, "GradientExchange", True)
        super().__init__(
            context,
            own.address,
            own.count,
            own.dtype,
            colayers,
            name,
            rule,
            staleness,
            proportion,
            rate,
            topology,
            Compression(compression_number(compression)),
            own.stream,
            (model, own.owner),
        )
        self._own = own

    def push(self, colayer: int, gradient: Any) -> None:
        """Sends the gradient of a colayer, once in an iteration. It is copied."""
        piece = memory_of(gradient, "GradientExchange.push", False)
        settle([gradient])
        self.push_raw(colayer, piece.address, piece.count, piece.dtype, piece.owner)

    def update(self, change: Callable[[], object]) -> None:
        """Calls change() while nobody reads the model."""
        array = self._own.array

        def change_and_settle() -> None:
            change()
            settle([array])

        super().update(change_and_settle if getattr(array, "is_cuda", False) else change)

    def end_iteration(self, mean: Any = None) -> EndedIteration:
        """Ends the iteration. The means of all colayers are in `mean` or in a new array."""
        result = new_like(self._own, self._own.shape) if mean is None else mean
        to = memory_of(result, "GradientExchange.end_iteration", True)
        settle([self._own.array, result])
        ended = self.end_iteration_raw(to.address, to.count, to.dtype, to.owner)
        return EndedIteration(*ended, result)

    def __enter__(self) -> GradientExchange:
        return self

    __exit__ = end_of_block
