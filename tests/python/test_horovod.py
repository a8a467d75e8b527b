"""weft.horovod: Horovod's functions and its optimizer, over operations by name, on four ranks."""

from __future__ import annotations

import os
import sys

import pytest

pytest.importorskip("torch")

sys.path.insert(0, os.path.dirname(__file__))

from torch_jobs import as_tests  # noqa: E402

outcome, test_on_four_ranks, test_the_job_ends_well = as_tests("horovod_ranks.py")
