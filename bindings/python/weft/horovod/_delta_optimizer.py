"""The optimizer of Adasum, which reduces what a step changes, instead of gradients."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Optional

import torch

from weft.horovod._adasum import Adasum
from weft.horovod._allreduce import reduce_in_place
from weft.horovod._buckets import names_of, parameters_of
from weft.horovod._compression import CompressorLike, encoding_of
from weft.horovod._handles import synchronize
from weft.horovod._objects import Parameters
from weft.horovod._process_sets import ProcessSet, team_of


class Delta:
    """Mixed with an optimizer's class: each rank steps by itself, and the changes are reduced."""

    _base: Any
    param_groups: List[Dict[str, Any]]

    def _begin(
        self,
        named_parameters: Optional[Parameters],
        compression: CompressorLike,
        process_set: Optional[ProcessSet],
    ) -> None:
        self._parameter_names = names_of(parameters_of(self.param_groups), named_parameters)
        self._compression, self._process_set = compression, process_set

    def step(self, closure: Any = None) -> Any:
        """A step of this rank's optimizer on its own gradients; then the Adasum of all steps."""
        parameters = parameters_of(self.param_groups)
        before = [each.detach().clone() for each in parameters]
        loss = self._base.step(self, closure)
        if self._process_set is None or self._process_set.included():
            with torch.no_grad():
                self._reduce(parameters, before)
        return loss

    def _reduce(self, parameters: List[torch.Tensor], before: List[torch.Tensor]) -> None:
        team, compression = team_of(self._process_set), self._compression
        moved = [compression.compress(each - old) for each, old in zip(parameters, before)]
        handles = [
            reduce_in_place(
                team,
                [change],
                self._parameter_names[each],
                Adasum,
                encoding_of(compression),
                (1.0, 1.0),
                None,
            )
            for each, (change, _) in zip(parameters, moved)
        ]
        for each, old, handle, (_, facts) in zip(parameters, before, handles, moved):
            each.copy_(old + compression.decompress(synchronize(handle), facts))

    def synchronize(self) -> None:
        """No effect: gradients are not reduced."""

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Raises RuntimeError: there is no step without Adasum."""
        raise RuntimeError("an optimizer of Adasum cannot skip to synchronize")
        yield

    def set_backward_passes_per_step(self, passes: int) -> None:
        """No effect: gradients of any number of passes add up before a step."""
