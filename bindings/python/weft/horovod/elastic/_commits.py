"""Commits: the file in which the last commit of a job outlives its processes."""

from __future__ import annotations

import os
from typing import Optional

import torch

from weft.horovod._basics import rank
from weft.horovod.elastic.state import State

VARIABLE = "HOROVOD_ELASTIC_COMMITS"


class Commits:
    """Rank 0 reads and writes the file. Without a path nothing is kept."""

    def __init__(self, path: Optional[str]) -> None:
        self._path = path

    @classmethod
    def from_environment(cls) -> Commits:
        """The file that HOROVOD_ELASTIC_COMMITS names."""
        return cls(os.environ.get(VARIABLE) or None)

    def restore(self, state: State) -> None:
        """Takes the last commit of an earlier job, if there is one."""
        if self._path is not None and rank() == 0 and os.path.exists(self._path):
            state.load(torch.load(self._path, map_location="cpu", weights_only=False))

    def save(self, state: State) -> None:
        """Replaces the file, whole: a rank that dies leaves the old one or the new one."""
        if self._path is None or rank() != 0:
            return
        new = f"{self._path}.new"
        torch.save(state.saved(), new)
        os.replace(new, self._path)

    def remove(self) -> None:
        """The training has ended: the next job begins at its beginning."""
        if self._path is not None and rank() == 0 and os.path.exists(self._path):
            os.remove(self._path)
