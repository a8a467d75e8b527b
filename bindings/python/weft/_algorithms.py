"""Methods of decentralized learning on top of windows (weft/algorithms.h has the contracts).

    push_sum = weft.PushSum(ctx, weft.one_peer_exponential(ctx.size), x, lag=1)     # SGP; collective
    for step in range(1000):
        push_sum.begin_step()                   # shares of x leave
        slope = gradient(z)                     # meanwhile
        push_sum.end_step()                     # what has arrived is in x
        x -= rate * slope
        z = push_sum.debias()                   # x / w, an estimate of the mean

Arrays may be on a GPU. Calls then begin behind the work in their stream, and what they write is there when they
return. PushSum is SGP, DPsgd D-PSGD with one peer a step, AdPsgd averages pairs of models that one of the two
ranks begins, PartialAllreduce averages in small groups that a generator makes (Prague), and
BoundedStaleness averages the newest versions, of which none may be too old.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, List, Optional

from weft import _core
from weft._arrays import memory_of, new_like
from weft._arrays import settle as settle_streams
from weft._blocks import end_of_block
from weft._core import Schedule

if TYPE_CHECKING:
    from weft._context import Context


class PushSum(_core.PushSum):
    """Push-sum over a schedule whose columns sum to 1. One thread at a time may use it."""

    def __init__(
        self,
        context: Context,
        schedule: Schedule,
        x: Any,
        *,
        name: str = "push_sum",
        lag: Optional[int] = 0,
    ) -> None:
        """Collective.

        Args:
            x: this rank's array, which the steps change; contiguous and writable.
            name: of the windows.
            lag: how many steps the messages of others may be late; None: the steps wait for nobody.
        """
        own = memory_of(x, "PushSum", True)
        keep = (x, own.owner)
        place = (own.address, own.count, own.dtype)
        super().__init__(context, schedule, *place, name, lag, own.stream, keep)
        self._own = own

    def begin_step(self) -> None:
        """Sends this step's shares of x."""
        settle_streams([self._own.array])
        super().begin_step()

    def step(self) -> None:
        """begin_step() and end_step()."""
        self.begin_step()
        self.end_step()

    def settle(self) -> None:
        """Takes all messages that are under way. Collective."""
        settle_streams([self._own.array])
        super().settle()

    def debias(self, out: Any = None) -> Any:
        """x / w, in `out` or in a new array."""
        result = new_like(self._own, self._own.shape) if out is None else out
        to = memory_of(result, "debias", True)
        settle_streams([self._own.array, result])
        self.debias_raw(to.address, to.count, to.dtype, to.owner)
        return result


class DPsgd(_core.DPsgd):
    """D-PSGD with one peer a step: the schedule pairs ranks, as undirected_one_peer() does."""

    def __init__(self, context: Context, schedule: Schedule) -> None:
        super().__init__(context, schedule)

    def step(self, x: Any, out: Any = None) -> Any:
        """The average of x with this step's peer, in `out` or in a new array."""
        source = memory_of(x, "DPsgd", False)
        result = new_like(source, source.shape) if out is None else out
        to = memory_of(result, "DPsgd", True)
        if (source.count, source.dtype) != (to.count, to.dtype):
            raise ValueError("DPsgd: the input and the output differ in size or type")
        keep = (source.owner, to.owner)
        self.step_raw(source.address, to.address, to.count, to.dtype, keep)
        return result


class AdPsgd(_core.AdPsgd):
    """AD-PSGD on the context's graph. Several threads may use it."""

    def __init__(
        self, context: Context, model: Any, *, name: str = "ad_psgd", seed: int = 1
    ) -> None:
        """Collective. The model is changed by update() alone, as others write to it at any time."""
        own = memory_of(model, "AdPsgd", True)
        keep = (model, own.owner)
        super().__init__(context, own.address, own.count, own.dtype, name, seed, own.stream, keep)
        self._own = own

    def average(self, peer: Optional[int] = None) -> int:
        """Averages with this out-neighbor, or with a random one. Returns it; -1: there is none."""
        settle_streams([self._own.array])
        return super().average(peer)

    def update(self, change: Callable[[], object]) -> None:
        """Calls change() while nobody else reads or writes the model."""
        array = self._own.array
        settle_streams([array])

        def change_and_settle() -> None:
            change()
            settle_streams([array])

        super().update(change_and_settle if getattr(array, "is_cuda", False) else change)

    def read(self, out: Any = None) -> Any:
        """The model as it is between two averages, in `out` or in a new array."""
        result = new_like(self._own, self._own.shape) if out is None else out
        to = memory_of(result, "read", True)
        settle_streams([result])
        self.read_raw(to.address, to.count, to.dtype, to.owner)
        return result


class PartialAllreduce(_core.PartialAllreduce):
    """Partial all-reduce in groups that a generator makes: Prague.

        with weft.PartialAllreduce(ctx, x) as partial:      # collective
            partial.begin()                                 # asks for the first group
            for step in range(1000):
                x -= rate * gradient(x)
                partial.average()                           # x is the group's mean; asks again

    Between two averages a rank must not wait for what another rank does after one. Calls of several
    threads are serialized. A rank that drops the object before it has ended has left the others, as if it had
    died.
    """

    def __init__(
        self,
        context: Context,
        model: Any,
        *,
        name: str = "partial_allreduce",
        law: str = "smart",
        threshold: int = 2,
        section: int = 1,
        seed: int = 1,
    ) -> None:
        """Collective.

        Args:
            model: this rank's array of a floating type, which average() changes; contiguous and writable.
            name: begins what errors say.
            law: how groups are made: "smart", "random" or either with a size ("random:2"), "pairs", or
                "static", with which all ranks take equally many steps.
            threshold: smart; a worker is slow if others take so many iterations while it takes one.
            section: averages only in every so many calls of average().
            seed: of the groups.
        """
        own = memory_of(model, "PartialAllreduce", True)
        keep = (model, own.owner)
        place = (own.address, own.count, own.dtype)
        super().__init__(context, *place, name, law, threshold, section, seed, own.stream, keep)
        self._own = own

    def average(self) -> List[int]:
        """The model becomes the mean of a group, whose ranks are returned, ascending.

        Between two sections nothing is averaged, and the group is empty.
        """
        settle_streams([self._own.array])
        return super().average()

    def end(self) -> None:
        """Leaves, and waits until all have left. Collective.

        This rank is in no group that is made after that.
        """
        settle_streams([self._own.array])
        super().end()

    def __enter__(self) -> PartialAllreduce:
        return self

    __exit__ = end_of_block


class BoundedStaleness(_core.BoundedStaleness):
    """Neighbor averages of the newest versions. One thread at a time may use it."""

    def __init__(
        self, context: Context, x: Any, *, name: str = "bounded_staleness", bound: int = 1
    ) -> None:
        """Collective. bound: how many versions a rank may be ahead of what it was delivered."""
        own = memory_of(x, "BoundedStaleness", True)
        keep = (x, own.owner)
        super().__init__(context, own.address, own.count, own.dtype, name, bound, keep)

    def step(self) -> None:
        """publish(), wait() and average()."""
        self.publish()
        self.wait()
        self.average()
