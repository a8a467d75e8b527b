"""Ways to train one model together, by name (weft/strategies.h has the contract).

    with weft.Strategy(ctx, "diloco", x, rate=0.05, section=10) as strategy:     # collective
        for step in range(1000):
            strategy.begin()                    # what can travel beside the computation starts
            slope = gradient(x)                 # at the model, which must not change meanwhile
            strategy.step(slope)                # x is where the next gradient is computed
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from weft import _core
from weft._arrays import memory_of, settle
from weft._blocks import end_of_block
from weft._core import Compression
from weft._operations import CompressionLike, compression_number

if TYPE_CHECKING:
    from weft._context import Context


class Strategy(_core.Strategy):
    """How ranks train one model together: docs/strategies.md has the formula of each.

    Calls of several threads on one strategy are serialized. A strategy may be dropped before it has ended:
    what other ranks may still use, its context keeps.
    """

    def __init__(
        self,
        context: Context,
        name: str,
        model: Any,
        *,
        rate: float = 0.1,
        momentum: Optional[float] = None,
        section: Optional[int] = None,
        peers: Optional[int] = None,
        seed: Optional[int] = None,
        compression: CompressionLike = "none",
        outer_rate: Optional[float] = None,
        outer_momentum: Optional[float] = None,
        colayers: Optional[int] = None,
        staleness: Optional[int] = None,
        proportion: Optional[int] = None,
        topology: Optional[str] = None,
        window_name: str = "strategy",
    ) -> None:
        """Collective. The model of rank 0 becomes that of all ranks.

        An option that is given and that the strategy does not have is InvalidArgument.

        Args:
            name: one of strategy_names().
            model: this rank's array of a floating type, which the steps change; contiguous and writable. One on
                a GPU is copied to the host and back in each step, where the step is computed.
            rate: of the steps.
            momentum: of the steps, 0 to below 1; dmsgd, qg_dmsgd: 0.9 if absent.
            section: steps between two exchanges; local_sgd, diloco, noloco: 10 if absent.
            peers: 1 or 2 receivers a step, which change; sgp: 1 if absent.
            seed: of random choices; 1 if absent.
            compression: "none", "f16", "bf16", "sketch", "e4m3", "e5m2", or a Compression; all but "none" take float32.
            outer_rate: of the step that follows a section; 0.7 if absent.
            outer_momentum: of the same; diloco: 0.9, noloco: 0.5 if absent.
            colayers: parts of the model that travel one by one; canary and its settings: 10 if absent.
            staleness: iterations; canary, canary:bounded: 18 if absent.
            proportion: colayers; canary: six of ten if absent.
            topology: how the pieces of canary and its settings travel: "all_to_all", also if absent, or "mesh".
            window_name: begins the names of windows, so strategies at the same time have different ones.
        """
        own = memory_of(model, "Strategy", True)
        super().__init__(
            context,
            name,
            own.address,
            own.count,
            own.dtype,
            rate,
            momentum,
            section,
            peers,
            seed,
            Compression(compression_number(compression)),
            outer_rate,
            outer_momentum,
            colayers,
            staleness,
            proportion,
            topology,
            window_name,
            own.stream,
            (model, own.owner),
        )
        self._array = own.array

    def begin(self) -> None:
        """Begins an iteration, before its gradient is computed. If it is not called, step() calls it."""
        settle([self._array])
        super().begin()

    def step(self, gradient: Any) -> None:
        """Ends the iteration. The gradient has the size and type of the model."""
        slope = memory_of(gradient, "Strategy.step", False)
        settle([self._array, gradient])
        self.step_raw(slope.address, slope.count, slope.dtype, slope.owner)

    def __enter__(self) -> Strategy:
        return self

    __exit__ = end_of_block
