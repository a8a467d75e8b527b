"""The handwritten digits of examples/data, for the programs of this folder."""

from __future__ import annotations

import pathlib
from typing import Tuple

import torch

DATA = pathlib.Path(__file__).parent.parent / "data" / "digits.csv"


def read_digits(path: pathlib.Path) -> Tuple[torch.Tensor, torch.Tensor]:
    """Images, n x 1 x 8 x 8, from 0 to 1, and digits, n. The file: 64 pixels and a digit a line."""
    with open(path, encoding="ascii") as file:
        next(file)  # the header
        rows = torch.tensor([[float(cell) for cell in line.split(",")] for line in file])
    if rows.size(1) != 65:
        raise ValueError(f"{path}: expected 64 pixels and a digit on each line")
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    rows = rows[order]
    return rows[:, :64].view(-1, 1, 8, 8) / 16, rows[:, 64].long()
