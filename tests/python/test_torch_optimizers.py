"""weft.torch's optimizers, on four ranks and on two machines of two ranks, and the example."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("networkx")

sys.path.insert(0, os.path.dirname(__file__))

from conftest import as_processes  # noqa: E402
from torch_jobs import as_tests  # noqa: E402

outcome, test_on_four_ranks, test_the_job_ends_well = as_tests("torch_optimizers_ranks.py")


def test_two_machines() -> None:
    done = as_processes(
        4,
        """
        import os
        os.environ["WEFT_HOST"] = f"machine{int(os.environ['WEFT_RANK']) // 2}"
        import torch, weft.torch as bf
        bf.init()
        kind = bf.CommunicationType.hierarchical_neighbor_allreduce
        for make in (
            bf.DistributedAdaptWithCombineOptimizer,
            bf.DistributedAdaptThenCombineOptimizer,
        ):
            model = torch.nn.Linear(3, 1, bias=False)
            torch.nn.init.constant_(model.weight, float(bf.rank()))
            optimizer = make(torch.optim.SGD(model.parameters(), lr=0.5), model, kind)
            if bf.load_machine_topology() is None:
                try:
                    model(torch.ones(1, 3)).sum().backward()
                    optimizer.step()
                    raise AssertionError
                except RuntimeError as error:
                    assert "set_machine_topology" in str(error)
                model.zero_grad()
                torch.nn.init.constant_(model.weight, float(bf.rank()))
                bf.set_machine_topology(bf.RingGraph(2))
            optimizer.self_weight = 0.25
            optimizer.src_machine_weights = {1 - bf.machine_rank(): 0.75}
            optimizer.dst_machine_weights = [1 - bf.machine_rank()]
            model(torch.ones(1, 3)).sum().backward()
            optimizer.step()
            mean = [0.5, 2.5]
            machine = bf.machine_rank()
            expected = 0.25 * mean[machine] + 0.75 * mean[1 - machine] - 0.5
            assert torch.allclose(model.weight, torch.tensor(expected)), (make, model.weight)
            print("fine")
        bf.shutdown()
        """,
        limit_s=120,
    )
    assert done.returncode == 0 and done.stdout.count("fine") == 8, done.stdout + done.stderr


def test_a_rank_alone() -> None:
    done = as_processes(
        1,
        """
        import torch, weft.torch as bf
        bf.init()
        for make in (
            bf.DistributedGradientAllreduceOptimizer,
            bf.DistributedAdaptWithCombineOptimizer,
            bf.DistributedAdaptThenCombineOptimizer,
        ):
            model = torch.nn.Linear(3, 1, bias=False)
            torch.nn.init.ones_(model.weight)
            optimizer = make(torch.optim.SGD(model.parameters(), lr=0.5), model)
            for _ in range(2):
                optimizer.zero_grad()
                model(torch.ones(1, 3)).sum().backward()
                optimizer.synchronize()
                optimizer.step()
            assert torch.equal(model.weight, torch.zeros(1, 3))
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
        optimizer = bf.DistributedAdaptThenCombineOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.1), model
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


@pytest.mark.parametrize(
    "optimizer",
    ["gradient", "awc", "atc", "dynamic", "hierarchical", "put", "get", "push", "diloco", "noloco", "groups", "pieces"],
)
def test_the_example_learns_digits(optimizer: str) -> None:
    example = pathlib.Path(__file__).parents[2] / "examples" / "python" / "digits.py"
    command = [sys.executable, "-m", "weft.run", "-n", "2", "--", sys.executable, str(example)]
    done = subprocess.run(
        [*command, "--optimizer", optimizer, "--epochs", "4"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=120,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found = re.findall(r"epoch 4: accuracy (\S+), lowest (\S+)", done.stdout)
    assert len(found) == 1 and float(found[0][1]) > 0.8, done.stdout
