"""The listings of BlueFog's paper, as examples/python has them: each comes to its result."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("networkx")

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "python"


def run(ranks: int, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "weft.run", "-n", str(ranks), "--deadline", "120", "--"]
    return subprocess.run(
        [*command, sys.executable, str(EXAMPLES / words[0]), *words[1:]],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=180,
        capture_output=True,
        text=True,
    )


def test_all_come_to_their_results() -> None:
    done = run(4, "bluefog_listings.py")
    assert done.returncode == 0, done.stdout + done.stderr
    names = re.findall(r"(\w+): \S+ from the right result$", done.stdout, re.MULTILINE)
    expected = ["dgd", "push_sum", "overlap", "exact_diffusion", "gradient_tracking", "sgp"]
    assert names == expected, done.stdout


def test_one_by_name_on_an_odd_number_of_ranks() -> None:
    done = run(3, "bluefog_listings.py", "push_sum", "gradient_tracking")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("from the right result\n") == 2, done.stdout


def test_a_name_that_is_none() -> None:
    done = run(1, "bluefog_listings.py", "listing7")
    assert done.returncode != 0 and "there is no listing 'listing7'" in done.stderr, done.stderr


def test_the_school_encircles_the_predator() -> None:
    done = run(4, "bluefog_fish.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "from a ring of 5 m around it" in done.stdout, done.stdout
