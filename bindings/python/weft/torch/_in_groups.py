"""The distributed optimizer that averages in groups: weft.PartialAllreduce, after each step."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from weft._algorithms import PartialAllreduce
from weft.torch import _job
from weft.torch._ending import OneModel
from weft.torch._forwards import FollowsForwards
from weft.torch._optimizer import AdaptsFirst


class InGroups(AdaptsFirst, OneModel, FollowsForwards):
    """Asks for a group at the start of an iteration, and averages with it at the end.

    Attributes:
        group: the ranks of the last average, ascending.
    """

    _has = "partial all-reduce"
    _options: Dict[str, Any] = {}  # of the partial all-reduce
    _partial: Optional[PartialAllreduce] = None
    _has_asked = False
    group: List[int] = []

    def _register_hooks(self) -> None:
        model = self._flat.memory()[0]
        self._attach()
        name = self._new_name()
        self._partial = PartialAllreduce(_job.context(), model, name=name, **self._options)
        self._take_that_of_rank_0()
        FollowsForwards._register_hooks(self)

    def on_forward(self, index: int) -> None:
        """A model begins to compute."""
        super().on_forward(index)
        # An average asks for the next group by itself.
        if self._partial is not None and not self._has_asked and not self._is_over:
            self._partial.begin()
            self._has_asked = True

    def synchronize(self) -> None:
        """Averages the parameters in a group. The next step() does not do it again."""
        if self._partial is not None:
            self._attach()
            self.group = self._partial.average()
            self._has_asked = True
            self._flat.mark_changed()
        self._is_synchronized = True

    def usage(self) -> Dict[str, int]:
        """What weft.PartialAllreduce.usage() has."""
        return {} if self._partial is None else self._partial.usage()

    def end(self) -> None:
        """Leaves the groups, when all ranks have. Collective. Later steps raise RuntimeError."""
        if self._partial is not None:
            self._attach()
            self._partial.end()
            self._flat.mark_changed()
        self._is_over = True
