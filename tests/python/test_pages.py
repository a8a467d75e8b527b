"""The Python of README.md and docs/ runs as it is shown."""

from __future__ import annotations

import pathlib

import pytest
from torch_jobs import run_job

pytest.importorskip("torch")


def test_samples_run() -> None:
    """One job runs all of them, because ranks that import torch start in seconds."""
    ranks = str(pathlib.Path(__file__).with_name("pages_ranks.py"))
    run_job(ranks, 2, {"WEFT_ON_DEATH": "skip"}).require("pages")  # docs/reliability.md needs it
