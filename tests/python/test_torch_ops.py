"""weft.torch's operations with BlueFog's names, on four ranks and on two machines of two ranks."""

from __future__ import annotations

import os
import sys
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("networkx")

sys.path.insert(0, os.path.dirname(__file__))

from conftest import as_processes  # noqa: E402
from torch_jobs import names_of_checks, run_job  # noqa: E402

RANKS = os.path.join(os.path.dirname(__file__), "torch_ops_ranks.py")


@pytest.fixture(scope="module")
def outcome() -> Any:
    return run_job(RANKS, 4, {})


@pytest.mark.parametrize("name", names_of_checks(RANKS))
def test_on_four_ranks(outcome: Any, name: str) -> None:
    outcome.require(name)


def test_the_job_ends_well(outcome: Any) -> None:
    assert outcome.status == 0


def test_two_machines() -> None:
    done = as_processes(
        4,
        """
        import os
        os.environ["BLUEFOG_NODES_PER_MACHINE"] = "0"
        import torch, weft.torch as bf
        try:
            bf.init()
            raise SystemExit("machines of no ranks")
        except ValueError as error:
            assert "BLUEFOG_NODES_PER_MACHINE=0" in str(error)
        os.environ["BLUEFOG_NODES_PER_MACHINE"] = "2"
        bf.init()
        assert "WEFT_HOST" not in os.environ
        rank, machine = bf.rank(), bf.machine_rank()
        assert (bf.local_size(), bf.machine_size(), bf.local_rank()) == (2, 2, rank % 2)
        x = torch.full((7,), float(rank))
        assert bf.allreduce(x, is_hierarchical_local=True)[0] == 2 * machine + 0.5
        ring = bf.RingGraph(2)
        assert bf.set_machine_topology(ring) and bf.set_machine_topology(ring)
        assert bf.load_machine_topology() is ring and not bf.is_machine_topo_weighted()
        assert bf.in_neighbor_machine_ranks() == bf.out_neighbor_machine_ranks() == [1 - machine]
        assert bf.hierarchical_neighbor_allreduce(x)[0] == 1.5
        moved = bf.hierarchical_neighbor_allreduce(
            x,
            self_weight=0.0,
            src_machine_weights={1 - machine: 0.5},
            dst_machine_weights={1 - machine: 2.0},
        )
        assert moved[0] == 2 * (1 - machine) + 0.5
        pulled = bf.hierarchical_neighbor_allreduce(
            x, self_weight=1.0, src_machine_weights={1 - machine: 1.0}
        )
        assert pulled[0] == 3.0
        for wrong in ({"self_weight": 1.0}, {"dst_machine_weights": [1 - machine]}):
            try:
                bf.hierarchical_neighbor_allreduce(x, **wrong)
                raise AssertionError
            except ValueError as error:
                assert "src_machine_weights" in str(error)
        bf.shutdown()
        print("fine")
        """,
        limit_s=120,
    )
    assert done.returncode == 0 and done.stdout.count("fine") == 4, done.stdout + done.stderr


def test_a_rank_alone() -> None:
    done = as_processes(
        1,
        """
        import torch, weft.torch as bf
        bf.init()
        x = torch.arange(5.0)
        for call in (bf.neighbor_allreduce, bf.allreduce, bf.allgather):
            assert torch.equal(call(x), x)
        assert torch.equal(bf.broadcast(x, 0), x) and bf.neighbor_allgather(x).shape == (0,)
        assert bf.in_neighbor_ranks() == []
        print("fine")
        """,
        limit_s=120,
    )
    assert done.returncode == 0 and "fine" in done.stdout, done.stdout + done.stderr
    assert done.stderr == ""
