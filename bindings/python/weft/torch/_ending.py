"""The distributed optimizers that have something of their own to end: a strategy, groups, or an exchange."""

from __future__ import annotations

from weft._errors import InvalidArgument
from weft.torch import _job
from weft.torch._flat import Flat
from weft.torch._optimizer import Distributed


class Ending(Distributed):
    """Raises after end(), which the subclasses have."""

    _halves = 1
    _is_cut = False
    _works_alone = True
    _has = ""  # what end() ends
    _is_over = False

    def _new_name(self) -> str:
        """For windows and errors; the same on all ranks."""
        job = _job.current()
        job.optimizers += 1
        return f"optimizer {job.optimizers}"

    def _is_due(self) -> bool:
        if self._is_over:
            raise RuntimeError(f"end() has ended the {self._has} of this optimizer")
        return super()._is_due()

    def _check_one_type(self) -> None:
        """Raises InvalidArgument if there are several segments, and so several objects of Weft."""
        if len(self._flats) > 1:
            types = " and ".join(str(each.dtype) for each in self._flats)
            raise InvalidArgument(
                f"the model has parameters of {types}; the {self._has} of this optimizer takes one type"
            )


class OneModel(Ending):
    """Has one object of Weft for all parameters, which are of one type."""

    @property
    def _flat(self) -> Flat:
        self._check_one_type()
        return self._flats[0]

    def _take_that_of_rank_0(self) -> None:
        """Gives all ranks the parameters of rank 0. Collective."""
        model = self._flat.memory()[0]
        _job.context().broadcast(model, out=model, root=0)
        self._flat.mark_changed()
