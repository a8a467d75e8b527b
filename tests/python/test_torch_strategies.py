"""weft.torch's optimizers that train by a strategy or an asynchronous algorithm, on four ranks and on one."""

from __future__ import annotations

import os
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("networkx")

sys.path.insert(0, os.path.dirname(__file__))

from conftest import as_processes  # noqa: E402
from torch_jobs import as_tests  # noqa: E402

outcome, test_on_four_ranks, test_the_job_ends_well = as_tests(
    "torch_strategies_ranks.py", "torch_algorithms_checks.py"
)


def test_a_rank_alone_takes_its_own_steps() -> None:
    done = as_processes(
        1,
        """
        import torch, weft.torch as bf
        bf.init()
        model = torch.nn.Linear(3, 1, bias=False)
        torch.nn.init.zeros_(model.weight)
        plain = torch.optim.SGD(model.parameters(), lr=1.0)
        optimizer = bf.DistributedDiLoCoOptimizer(plain, model, 2, outer_rate=0.5, outer_momentum=0)
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.ones(1, 3)).sum().backward()
            optimizer.step()
        assert torch.equal(model.weight, torch.full((1, 3), -2.0)), model.weight
        assert optimizer.counts() == {"steps": 2, "bytes": 0, "dropped": 0}
        optimizer.end()
        for make in (bf.DistributedPartialAllreduceOptimizer, bf.DistributedGradientExchangeOptimizer):
            model = torch.nn.Linear(3, 1, bias=False)
            torch.nn.init.zeros_(model.weight)
            optimizer = make(torch.optim.SGD(model.parameters(), lr=1.0), model)
            for _ in range(4):
                optimizer.zero_grad()
                model(torch.ones(1, 3)).sum().backward()
                optimizer.step()
            assert torch.equal(model.weight, torch.full((1, 3), -4.0)), model.weight
            optimizer.end()
        print("fine")
        """,
        limit_s=120,
    )
    assert done.returncode == 0 and "fine" in done.stdout, done.stdout + done.stderr


def test_a_rank_that_dies_is_named_by_the_others() -> None:
    done = as_processes(
        3,
        """
        import os, torch, weft, weft.torch as bf
        bf.init()
        model = torch.nn.Linear(3, 1)
        optimizer = bf.DistributedDiLoCoOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), model, section=2
        )
        try:
            for step in range(1000):
                if step == 3 and bf.rank() == 1:
                    os._exit(7)
                optimizer.zero_grad()
                model(torch.ones(2, 3)).sum().backward()
                optimizer.step()
        except weft.PeerDied as error:
            assert error.rank == 1
            print("told", flush=True)
        """,
        limit_s=120,
    )
    assert done.returncode == 7 and done.stdout.count("told") == 2, done.stdout + done.stderr
