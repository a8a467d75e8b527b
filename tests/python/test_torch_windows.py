"""weft.torch's windows and the optimizers that work through them, on four ranks."""

from __future__ import annotations

import os
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("networkx")

sys.path.insert(0, os.path.dirname(__file__))

from conftest import as_processes  # noqa: E402
from torch_jobs import as_tests  # noqa: E402

outcome, test_on_four_ranks, test_the_job_ends_well = as_tests("torch_windows_ranks.py")


def test_a_rank_alone() -> None:
    done = as_processes(
        1,
        """
        import torch, weft.torch as bf
        bf.init()
        x = torch.ones(3)
        assert bf.win_create(x, "x") and bf.win_put(x, "x") and bf.win_get("x")
        assert torch.equal(bf.win_update("x"), torch.ones(3)) and bf.get_win_version("x") == {}
        with bf.win_mutex("x"), bf.win_mutex("x", for_self=True):
            pass
        assert bf.win_free()
        for make in (
            bf.DistributedWinPutOptimizer,
            bf.DistributedPullGetOptimizer,
            bf.DistributedPushSumOptimizer,
        ):
            model = torch.nn.Linear(3, 1, bias=False)
            torch.nn.init.ones_(model.weight)
            optimizer = make(torch.optim.SGD(model.parameters(), lr=0.5), model)
            for _ in range(2):
                optimizer.zero_grad()
                model(torch.ones(1, 3)).sum().backward()
                optimizer.step()
            assert torch.equal(model.weight, torch.zeros(1, 3)), (make, model.weight)
            optimizer.unregister_window()
        print("fine")
        """,
        limit_s=120,
    )
    assert done.returncode == 0 and "fine" in done.stdout, done.stdout + done.stderr


def test_ranks_go_on_while_another_one_stands_still() -> None:
    done = as_processes(
        3,
        """
        import torch, weft, weft.torch as bf
        torch.set_num_threads(1)
        bf.init()

        def steps(count, model, optimizer):
            for step in range(count):
                optimizer.zero_grad()
                model(torch.ones(2, 3)).sum().backward()
                optimizer.step()
                assert bool(torch.isfinite(model.weight).all()), (step, model.weight)

        for kind in ("WinPut", "PullGet", "PushSum"):
            model = torch.nn.Linear(3, 1)
            torch.nn.init.constant_(model.weight, float(bf.rank()))
            optimizer = getattr(bf, f"Distributed{kind}Optimizer")(
                torch.optim.SGD(model.parameters(), lr=0.0), model
            )
            optimizer.force_barrier = False
            if bf.rank() != 1:
                steps(200, model, optimizer)  # 2**-200 is 0 in the type of the parameters
            weft.context().barrier()  # rank 1 has been here all the time
            optimizer.force_barrier = True
            steps(60, model, optimizer)
            every = bf.allgather(model.weight.detach())
            assert float(every.max() - every.min()) < 1e-3, (kind, every)
            assert 0 <= float(every.min()) and float(every.max()) <= 2, (kind, every)
            if kind == "PushSum":  # nothing was lost
                assert abs(float(every.mean()) - 1) < 1e-3, every
            optimizer.unregister_window()
            print("fine")
        """,
        limit_s=240,
    )
    assert done.returncode == 0 and done.stdout.count("fine") == 9, done.stdout + done.stderr
