"""weft.horovod: Horovod's functions and its optimizer, over operations by name, on four ranks."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

pytest.importorskip("torch")

sys.path.insert(0, os.path.dirname(__file__))

from torch_jobs import names_of_checks, run_job  # noqa: E402

RANKS = os.path.join(os.path.dirname(__file__), "horovod_ranks.py")


@pytest.fixture(scope="module")
def outcome() -> Any:
    """One job runs all checks, because ranks that import torch start in seconds."""
    return run_job(RANKS, 4, {})


@pytest.mark.parametrize("name", names_of_checks(RANKS))
def test_on_four_ranks(outcome: Any, name: str) -> None:
    outcome.require(name)


def test_the_job_ends_well(outcome: Any) -> None:
    assert outcome.status == 0
