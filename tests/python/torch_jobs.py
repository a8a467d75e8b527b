"""Runs a file of checks as one job of several ranks, and tells the outcome of each check.

Starting ranks that import torch takes seconds, so all checks of a file share a job. A check is a
function of the file whose name begins with "check_". In the ranks, the file calls run_checks().
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, Callable, Dict, List, Tuple

import pytest

LIMIT_S = 240


def names_of_checks(path: str) -> List[str]:
    """The checks of a file, in its order."""
    with open(path, encoding="utf-8") as file:
        lines = file.readlines()
    return [line[4 : line.index("(")] for line in lines if line.startswith("def check_")]


class Outcome:
    """What the ranks of a job printed."""

    def __init__(self, done: "subprocess.CompletedProcess[str]", ranks: int) -> None:
        self._text = done.stdout + done.stderr
        self._ranks = ranks
        self.status = done.returncode

    def require(self, name: str) -> None:
        """Fails unless the check passed on all ranks."""
        passed = [f"[{rank}] passed {name}\n" in self._text for rank in range(self._ranks)]
        assert all(passed), f"{name} passed on ranks: {passed}; the job's output:\n{self._text}"


def run_job(path: str, ranks: int, environment: Dict[str, str]) -> Outcome:
    """The file as a program on some ranks."""
    command = [sys.executable, "-m", "weft.run", "-n", str(ranks), "--deadline", str(LIMIT_S)]
    done = subprocess.run(
        [*command, "--", sys.executable, path],
        capture_output=True,
        text=True,
        timeout=LIMIT_S + 60,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )
    return Outcome(done, ranks)


def as_tests(program: str, *more: str) -> Tuple[Any, Any, Any]:
    """The tests of a file of checks on four ranks: its outcome, a test for each check, and one for the end of the job.

    more: files from which the program takes checks, too.
    """
    paths = [os.path.join(os.path.dirname(__file__), file) for file in (program, *more)]

    @pytest.fixture(scope="module")
    def outcome() -> Any:
        return run_job(paths[0], 4, {})

    @pytest.mark.parametrize("name", [name for path in paths for name in names_of_checks(path)])
    def test_on_four_ranks(outcome: Any, name: str) -> None:
        outcome.require(name)

    def test_the_job_ends_well(outcome: Any) -> None:
        assert outcome.status == 0

    return outcome, test_on_four_ranks, test_the_job_ends_well


def run_checks(checks: Dict[str, Any]) -> None:
    """In a rank: runs the checks among these names one after another, and prints which passed."""
    for name, check in checks.items():
        if name.startswith("check_"):
            call: Callable[[], None] = check
            call()
            print("passed", name, flush=True)
